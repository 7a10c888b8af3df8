"""
Run any number of Claude requests through the Message Batches API.

Each item ends with exactly one recorded outcome; see `BatchRunner`.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from batchwright._deadline import (
        Deadline,
    )
    from batchwright.blocking import (
        run,
    )
    from batchwright.config import (
        Gathering,
        Org,
        Polling,
        RetryBudget,
        ShardLimits,
        SyncLimits,
    )
    from batchwright.dataframes import (
        items_from_dataframe,
        to_dataframe,
    )
    from batchwright.drop_in import (
        AsyncAnthropic,
    )
    from batchwright.errors import (
        BatchwrightError,
        CanaryFailed,
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
    from batchwright.events import (
        Anomaly,
        AnsweredFromCache,
        BatchCanceled,
        BatchEnded,
        BatchHarvested,
        BatchPolled,
        BatchRecovered,
        BatchSkipped,
        CallRetried,
        Conducting,
        CreateSettled,
        CreateUnknown,
        DeadlineExceeded,
        Event,
        IntakeProgressed,
        ItemsMerged,
        OrgPaused,
        PolicyBroke,
        PollFailed,
        Progressed,
        ResultsReread,
        RunFailed,
        RunFinished,
        RunInterrupted,
        RunStarted,
        ShardFailed,
        ShardHeld,
        ShardPlanned,
        ShardRefused,
        ShardSubmitted,
        StatusUnknown,
        SwitchDecided,
        ValidatorBroke,
        WaitingForOwner,
        WaveLooksWedged,
        WorkerJoined,
        WorkerLost,
    )
    from batchwright.items import (
        items_from_jsonl,
    )
    from batchwright.listeners.progress import (
        show_progress,
    )
    from batchwright.policy import (
        AdaptivePolicy,
        DispatchPolicy,
        Stay,
        Switch,
        WaveSnapshot,
    )
    from batchwright.report import (
        PlanReport,
        RunReport,
    )
    from batchwright.result import (
        RunResult,
    )
    from batchwright.runner import (
        BatchRunner,
    )
    from batchwright.status import (
        RunStatus,
    )
    from batchwright.store import (
        CheckpointStore,
    )
    from batchwright.types import (
        Item,
        ItemError,
        Outcome,
    )

__version__ = "0.1.0"

# Names are loaded when first asked for: the SDK behind them takes a second to import, and neither
# `batchwright --help` nor pytest (which loads our fixture everywhere) should wait for it.
_HOMES = {
    "batchwright._deadline": ("Deadline",),
    "batchwright.blocking": ("run",),
    "batchwright.config": (
        "Gathering",
        "Org",
        "Polling",
        "RetryBudget",
        "ShardLimits",
        "SyncLimits",
    ),
    "batchwright.dataframes": (
        "items_from_dataframe",
        "to_dataframe",
    ),
    "batchwright.drop_in": ("AsyncAnthropic",),
    "batchwright.errors": (
        "BatchwrightError",
        "CanaryFailed",
        "ChangedItem",
        "ConfigurationError",
        "DuplicateItem",
        "IncompleteRun",
        "IntakeError",
        "MassRefusal",
        "OtherRun",
        "RunLocked",
        "SchemaTooNew",
        "StoreBusy",
        "StoreCorrupt",
        "StoreError",
        "StoreFull",
    ),
    "batchwright.events": (
        "Anomaly",
        "AnsweredFromCache",
        "BatchCanceled",
        "BatchEnded",
        "BatchHarvested",
        "BatchPolled",
        "BatchRecovered",
        "BatchSkipped",
        "CallRetried",
        "Conducting",
        "CreateSettled",
        "CreateUnknown",
        "DeadlineExceeded",
        "Event",
        "IntakeProgressed",
        "ItemsMerged",
        "OrgPaused",
        "PolicyBroke",
        "PollFailed",
        "Progressed",
        "ResultsReread",
        "RunFailed",
        "RunFinished",
        "RunInterrupted",
        "RunStarted",
        "ShardFailed",
        "ShardHeld",
        "ShardPlanned",
        "ShardRefused",
        "ShardSubmitted",
        "StatusUnknown",
        "SwitchDecided",
        "ValidatorBroke",
        "WaitingForOwner",
        "WaveLooksWedged",
        "WorkerJoined",
        "WorkerLost",
    ),
    "batchwright.items": ("items_from_jsonl",),
    "batchwright.listeners.progress": ("show_progress",),
    "batchwright.policy": (
        "AdaptivePolicy",
        "DispatchPolicy",
        "Stay",
        "Switch",
        "WaveSnapshot",
    ),
    "batchwright.report": ("PlanReport", "RunReport"),
    "batchwright.result": ("RunResult",),
    "batchwright.runner": ("BatchRunner",),
    "batchwright.status": ("RunStatus",),
    "batchwright.store": ("CheckpointStore",),
    "batchwright.types": (
        "Item",
        "ItemError",
        "Outcome",
    ),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}

__all__ = [
    "AdaptivePolicy",
    "Anomaly",
    "AnsweredFromCache",
    "AsyncAnthropic",
    "BatchCanceled",
    "BatchEnded",
    "BatchHarvested",
    "BatchPolled",
    "BatchRecovered",
    "BatchRunner",
    "BatchSkipped",
    "BatchwrightError",
    "CallRetried",
    "CanaryFailed",
    "ChangedItem",
    "CheckpointStore",
    "Conducting",
    "ConfigurationError",
    "CreateSettled",
    "CreateUnknown",
    "Deadline",
    "DeadlineExceeded",
    "DispatchPolicy",
    "DuplicateItem",
    "Event",
    "Gathering",
    "IncompleteRun",
    "IntakeError",
    "IntakeProgressed",
    "Item",
    "ItemError",
    "ItemsMerged",
    "MassRefusal",
    "Org",
    "OrgPaused",
    "OtherRun",
    "Outcome",
    "PlanReport",
    "PolicyBroke",
    "PollFailed",
    "Polling",
    "Progressed",
    "ResultsReread",
    "RetryBudget",
    "RunFailed",
    "RunFinished",
    "RunInterrupted",
    "RunLocked",
    "RunReport",
    "RunResult",
    "RunStarted",
    "RunStatus",
    "SchemaTooNew",
    "ShardFailed",
    "ShardHeld",
    "ShardLimits",
    "ShardPlanned",
    "ShardRefused",
    "ShardSubmitted",
    "StatusUnknown",
    "Stay",
    "StoreBusy",
    "StoreCorrupt",
    "StoreError",
    "StoreFull",
    "Switch",
    "SwitchDecided",
    "SyncLimits",
    "ValidatorBroke",
    "WaitingForOwner",
    "WaveLooksWedged",
    "WaveSnapshot",
    "WorkerJoined",
    "WorkerLost",
    "items_from_dataframe",
    "items_from_jsonl",
    "run",
    "show_progress",
    "to_dataframe",
]


def __getattr__(name: str) -> Any:
    """Load a public name from the module where it lives."""
    home = _HOME_OF.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(home), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    """Return the public names, loaded or not."""
    return sorted({*globals(), *__all__})
