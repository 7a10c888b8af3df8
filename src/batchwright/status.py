"""
`RunStatus`: what stands about a run, for people and scripts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from batchwright.events import LiveBatch, Progressed
from batchwright.store import ItemState, RunInfo, Shard, ShardState

#: The API keeps results for 29 days after the creation of a batch.
RETENTION = timedelta(days=29)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunStatus:
    """
    What stands about a run.

    Attributes:
        run_id: Its name.
        intake_complete: Whether its items were read to the end.
        progress: Items by state; the six numbers sum to the total.
        reasons: Items that did not succeed, by reason.
        truncated: Succeeded answers that were cut off.
        refused: Succeeded answers in which the model declined.
        owner: Who works on it now, or `None`.
        live: Sub-batches that are on the server or on their way.
        held: Sub-batches that wait for a person.
        shards: All its sub-batches, by number.
        kept_until: When the API drops the oldest results not read yet (29 days after creation).
        info: All counters of the store.
    """

    run_id: str
    intake_complete: bool
    progress: Progressed
    reasons: Mapping[str, int]
    truncated: int
    refused: int
    owner: str | None
    live: Sequence[Shard]
    held: Sequence[Shard]
    shards: Sequence[Shard]
    kept_until: datetime | None
    info: RunInfo


@dataclass(frozen=True, slots=True, kw_only=True)
class CancelsRequested:
    """
    What became of a wish to cancel.

    Attributes:
        asked: Batches that the server is canceling now.
        refused: The others, each with the reason; most often they have just ended.
        in_doubt: Creates without an answer: a batch may exist whose id is not known.
    """

    asked: Sequence[str]
    refused: Mapping[str, str]
    in_doubt: int


def kept_until(shards: Sequence[Shard], *, unread_only: bool) -> datetime | None:
    """Return when the API drops the first results of *shards*."""
    times = [
        shard.created_at + RETENTION
        for shard in shards
        if shard.created_at is not None and (not unread_only or shard.state is not ShardState.DONE)
    ]
    return min(times, default=None)


def progress_of(info: RunInfo, live: tuple[LiveBatch, ...], now: datetime) -> Progressed:
    """Return where every item stands, as an event."""
    states = info.states
    return Progressed(
        run_id=info.run_id,
        total=info.items,
        waiting=states.get(ItemState.PENDING, 0),
        in_flight=states.get(ItemState.IN_FLIGHT, 0),
        succeeded=states.get(ItemState.SUCCEEDED, 0),
        quarantined=states.get(ItemState.QUARANTINED, 0),
        rejected=states.get(ItemState.REJECTED, 0),
        unresolved=states.get(ItemState.UNRESOLVED, 0),
        live=live,
        now=now,
    )
