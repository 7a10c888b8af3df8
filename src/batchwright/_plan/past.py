"""
What a store knows before a run: which items it holds, how batches did, what is alive. Only read.
"""

from __future__ import annotations

from array import array
from collections.abc import AsyncIterator, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import IntEnum

from anyio.lowlevel import checkpoint

from batchwright import _lease
from batchwright._cache import earlier_runs
from batchwright._custom_ids import make_custom_id
from batchwright._forecast import HISTORY, RATE_FACT, view_of
from batchwright._org import OrgLink
from batchwright._projection import ended_by_themselves
from batchwright._standing import live_batch
from batchwright.policy import BatchView
from batchwright.store import (
    CheckpointStore,
    ItemState,
    Row,
    RunInfo,
    Shard,
    ShardState,
    Spent,
)

#: Rows read at once.
PAGE = 2_000
#: Sizes read at once.
SIZES = 20_000


class Known(IntEnum):
    """What a store says about an item."""

    #: It has its answer, or waits only to be judged.
    ANSWERED = 0
    #: It ended without an answer that counts.
    SETTLED = 1
    #: It is inside a batch.
    IN_FLIGHT = 2
    #: It waits, and the store tells its size.
    WAITING = 3
    #: It would wait as soon as a wave begins.
    TAKEN_UP = 4
    #: It waits for a person.
    HELD = 5
    #: It was refused at intake; whatever comes replaces it.
    REFUSED = 6


_TAKEN_UP = frozenset({"missing", "unreadable"})


@dataclass(slots=True)
class Past:
    """
    What stands in a store, as of one moment.

    Attributes:
        info: What stands about the run, `None` where it does not exist.
        owner: Who works on it now.
        runs: How many runs the store holds.
        sizes: Bytes on the wire of what waits, in order, by headers, once they were read.
        live: The live batches of the run.
        ages: Seconds after which earlier batches ended.
        rpm: Direct calls a minute as measured in an earlier run.
        spent: What the answers of all runs used.
        groups: Headers of the run's sub-batches so far.
        earlier: Answers of earlier runs that this one may take: hashes of `custom_id`s by run.
    """

    info: RunInfo | None = None
    owner: str | None = None
    runs: int = 0
    sizes: dict[str, array[int]] = field(default_factory=dict)
    live: Sequence[BatchView] = ()
    ages: Sequence[float] = ()
    rpm: float | None = None
    spent: list[Spent] = field(default_factory=list)
    groups: frozenset[str] = frozenset()
    earlier: dict[str, set[int]] = field(default_factory=dict)
    _known: dict[int, int] = field(default_factory=dict)

    def note(self, row: Row, known: Known) -> None:
        """Remember an item; a few bytes for each, since there may be millions."""
        self._known[hash(row.outcome.id)] = _packed(row.outcome.custom_id) | known

    def look(self, item_id: str, custom_id: str) -> tuple[Known, bool] | None:
        """Return what is known of an item and whether the question is the same one."""
        found = self._known.get(hash(item_id))
        if found is None:
            return None
        return Known(found & 7), (found | 7) == (_packed(custom_id) | 7)

    def is_cached(self, item_id: str, digest: bytes) -> bool:
        """Tell whether an earlier run has the answer to the same question under the same id."""
        return any(
            hash(make_custom_id(run_id, item_id, digest)) in answers
            for run_id, answers in self.earlier.items()
        )

    @property
    def waiting(self) -> int:
        """How many items of the run wait to be sent."""
        return sum(map(len, self.sizes.values()))


def _packed(custom_id: str) -> int:
    # The code at its end is made of the run, the item's id and the question.
    return hash(custom_id) << 3


async def read_past(store: CheckpointStore | None, run_id: str, now: datetime) -> Past:
    """Return what *store*, which is open, knows of the run and of others; `None` knows nothing."""
    past = Past()
    if store is None:
        return past
    names = await store.list_runs()
    past.runs = len(names)
    ages: list[float] = []
    for name in names:
        info = await store.read_run(name)
        if info is None:
            continue
        shards = await store.read_shards(name)
        ages.extend(ended.age for ended in ended_by_themselves(shards, now))
        past.spent.extend(info.spent)
        rate = info.facts.get(RATE_FACT)
        past.rpm = float(rate) if isinstance(rate, int | float) else past.rpm
        if name == run_id:
            past.info = info
            await _read_run(past, store, shards, now)
    past.ages = ages[-HISTORY:]
    return past


async def read_answers(
    past: Past, store: CheckpointStore, run_id: str, orgs: Iterable[OrgLink]
) -> None:
    """
    Read to which questions earlier runs hold the answers, for `cache=True`.

    Answers to the same question under another id are found by a run, and not here.
    """
    for info in await earlier_runs(store, run_id, orgs):
        answers = past.earlier.setdefault(info.run_id, set())
        async for row in _rows(store, info.run_id):
            if row.state is ItemState.SUCCEEDED:
                answers.add(hash(row.outcome.custom_id))


async def read_sizes(past: Past, store: CheckpointStore, headers: Iterable[str]) -> None:
    """Read how large the waiting items of the run are; *headers*: groups they may belong to."""
    if past.info is None:
        return
    run_id = past.info.run_id
    for group in sorted({"", *headers, *past.groups}):
        sizes = array("Q")
        after = -1
        while page := await store.read_pending(run_id, group, after, SIZES):
            sizes.extend(item.size for item in page)
            after = page[-1].seq
        if sizes:
            past.sizes[group] = sizes


async def _read_run(
    past: Past,
    store: CheckpointStore,
    shards: Sequence[Shard],
    now: datetime,
) -> None:
    assert past.info is not None, "set before"
    run_id = past.info.run_id
    lease = await store.read_lease(run_id)
    if lease is not None and not _lease.may_succeed(lease, _lease.myself(), now):
        past.owner = f"process {lease.owner.pid} on {lease.owner.host}"
    alive = (ShardState.SENDING, ShardState.LIVE, ShardState.ENDED)
    past.live = [view_of(live_batch(s), now) for s in shards if s.batch_id and s.state in alive]
    past.groups = frozenset(shard.headers for shard in shards)
    unsent = [span for s in shards if s.state is ShardState.PLANNED for span in s.spans]
    async for row in _rows(store, run_id):
        past.note(row, _known_as(row, run_id, unsent))


async def _rows(store: CheckpointStore, run_id: str) -> AsyncIterator[Row]:
    after = -1
    while page := await store.read_rows(run_id, after, PAGE, raw=False):
        for row in page:
            yield row
        after = page[-1].position
        # A store that never waits would keep everybody else waiting.
        await checkpoint()


def _known_as(row: Row, run_id: str, unsent: Sequence[tuple[int, int]]) -> Known:
    outcome, reason = row.outcome, row.outcome.reason
    if row.state is ItemState.QUARANTINED:
        # The code of a refused item is made without a question: none was ever encoded.
        never = outcome.custom_id == make_custom_id(run_id, outcome.id, b"")
        return Known.REFUSED if never else Known.SETTLED
    if row.state is ItemState.IN_FLIGHT and any(a <= row.seq <= b for a, b in unsent):
        return Known.TAKEN_UP
    if row.state is ItemState.UNRESOLVED and reason in _TAKEN_UP:
        return Known.TAKEN_UP
    if row.state is ItemState.UNRESOLVED and reason == "validator":
        return Known.ANSWERED
    if reason is not None and row.state in {ItemState.IN_FLIGHT, ItemState.UNRESOLVED}:
        return Known.HELD
    return _PLAIN.get(row.state, Known.HELD)


_PLAIN = {
    ItemState.SUCCEEDED: Known.ANSWERED,
    ItemState.REJECTED: Known.SETTLED,
    ItemState.IN_FLIGHT: Known.IN_FLIGHT,
    ItemState.PENDING: Known.WAITING,
}
