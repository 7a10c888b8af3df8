"""The world's books: what was answered, and therefore billed."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from batchwright.simulator.batches import Batch, Status


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchEntry:
    """One batch in the books, deleted ones included."""

    id: str
    workspace: str
    status: Status
    requests: int
    counts: dict[str, int]
    deleted: bool
    custom_ids: tuple[str, ...] = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Books:
    """What the server knows at one moment; for tests, no API shows it.

    Attributes:
        batches: All batches in the order of their creation.
        billed: custom_id -> ids of the ended batches in which it succeeded.
        live: custom_id -> ids of the batches that have not ended.
        sent: custom_id -> how many batches it has been in.
        direct: Text of a direct answer -> how often it was given (and billed).
    """

    batches: tuple[BatchEntry, ...]
    billed: dict[str, tuple[str, ...]]
    live: dict[str, tuple[str, ...]]
    sent: dict[str, int]
    direct: dict[str, int]

    @property
    def total_billed(self) -> int:
        """Number of answers billed: successes of ended batches, and direct answers."""
        return sum(map(len, self.billed.values())) + sum(self.direct.values())

    @property
    def billed_twice(self) -> dict[str, tuple[str, ...]]:
        """The custom ids that were billed in more than one batch."""
        return {name: ids for name, ids in self.billed.items() if len(ids) > 1}


def close_books(batches: Iterable[Batch], direct: dict[str, int], now: float) -> Books:
    """Write the books as they stand at `now`."""
    entries: list[BatchEntry] = []
    billed: dict[str, tuple[str, ...]] = {}
    live: dict[str, tuple[str, ...]] = {}
    sent: dict[str, int] = {}
    for batch in batches:
        entries.append(_entry(batch, now))
        ended = batch.status(now) == "ended"
        for request in batch.requests:
            name = request.custom_id
            sent[name] = sent.get(name, 0) + 1
            if not ended:
                live[name] = (*live.get(name, ()), batch.id)
            elif batch.outcome(request) == "succeeded":
                billed[name] = (*billed.get(name, ()), batch.id)
    return Books(batches=tuple(entries), billed=billed, live=live, sent=sent, direct=dict(direct))


def _entry(batch: Batch, now: float) -> BatchEntry:
    return BatchEntry(
        id=batch.id,
        workspace=batch.workspace,
        status=batch.status(now),
        requests=len(batch.requests),
        counts=batch.counts(now),
        deleted=batch.deleted,
        custom_ids=tuple(request.custom_id for request in batch.requests),
    )
