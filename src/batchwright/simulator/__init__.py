"""A local Message Batches API over real HTTP: to try a pipeline, and to break it on purpose."""

from __future__ import annotations

from batchwright.simulator._time import ManualClock, ScaledClock, WorldClock
from batchwright.simulator.access import Access
from batchwright.simulator.actions import (
    Action,
    All,
    ChunkSize,
    CutBody,
    Delay,
    Drop,
    Error,
    Gzip,
    Hang,
    Lines,
    Mutate,
    NoContentType,
    Raise413,
    Respond,
    Slow,
)
from batchwright.simulator.answers import expected_text
from batchwright.simulator.books import BatchEntry, Books
from batchwright.simulator.fates import Fate, cancel, errored, expire, never, succeed
from batchwright.simulator.hooks import Call, Chance, Rule
from batchwright.simulator.problems import ApiProblem
from batchwright.simulator.replies import Reply
from batchwright.simulator.server import Simulator
from batchwright.simulator.settings import WorldSettings
from batchwright.simulator.traffic import CreateRecord, MessageRecord, RequestRecord
from batchwright.simulator.world import World

__all__ = [
    "Access",
    "Action",
    "All",
    "ApiProblem",
    "BatchEntry",
    "Books",
    "Call",
    "Chance",
    "ChunkSize",
    "CreateRecord",
    "CutBody",
    "Delay",
    "Drop",
    "Error",
    "Fate",
    "Gzip",
    "Hang",
    "Lines",
    "ManualClock",
    "MessageRecord",
    "Mutate",
    "NoContentType",
    "Raise413",
    "Reply",
    "RequestRecord",
    "Respond",
    "Rule",
    "ScaledClock",
    "Simulator",
    "Slow",
    "World",
    "WorldClock",
    "WorldSettings",
    "cancel",
    "errored",
    "expected_text",
    "expire",
    "never",
    "succeed",
]
