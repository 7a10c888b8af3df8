"""
Run any number of Claude requests through the Message Batches API.

Each item ends with exactly one recorded outcome; see `BatchRunner`.
"""

from batchwright.config import Org, Polling, RetryBudget, ShardLimits, SyncLimits
from batchwright.errors import (
    BatchwrightError,
    ChangedItem,
    ConfigurationError,
    DuplicateItem,
    IncompleteRun,
    IntakeError,
    MassRefusal,
    OtherRun,
    RunLocked,
    SchemaTooNew,
    StoreBusy,
    StoreCorrupt,
    StoreError,
    StoreFull,
)
from batchwright.policy import DispatchPolicy, Stay, Switch, WaveSnapshot
from batchwright.report import RunReport
from batchwright.result import RunResult
from batchwright.runner import BatchRunner, run
from batchwright.status import RunStatus
from batchwright.store import CheckpointStore
from batchwright.types import Item, ItemError, Outcome

__version__ = "0.1.0"

__all__ = [
    "BatchRunner",
    "BatchwrightError",
    "ChangedItem",
    "CheckpointStore",
    "ConfigurationError",
    "DispatchPolicy",
    "DuplicateItem",
    "IncompleteRun",
    "IntakeError",
    "Item",
    "ItemError",
    "MassRefusal",
    "Org",
    "OtherRun",
    "Outcome",
    "Polling",
    "RetryBudget",
    "RunLocked",
    "RunReport",
    "RunResult",
    "RunStatus",
    "SchemaTooNew",
    "ShardLimits",
    "Stay",
    "StoreBusy",
    "StoreCorrupt",
    "StoreError",
    "StoreFull",
    "Switch",
    "SyncLimits",
    "WaveSnapshot",
    "run",
]
