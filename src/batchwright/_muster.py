"""
The crew of a conductor where several processes work on the run: whoever claims a shard carries it.

The conductor sees what is under way as the store has it. It writes to no shard that somebody has
claimed; what it wants of others it says in the facts of the run.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from anyio.abc import TaskGroup

from batchwright._backlog import Backlog
from batchwright._clock import clock
from batchwright._context import RunContext
from batchwright._crew import SendPart
from batchwright._dispatch import Dispatch
from batchwright._hand import GIVE_UP, Hand
from batchwright._prelude import take_back
from batchwright._submit import MAX_BYTES
from batchwright.shared import PATH, OpenShard, SharedStore
from batchwright.store import ItemState, Shard, ShardState

#: Counting what waits by headers may take this share of the conductor's time.
COUNTING: Final = 0.05


class Muster:
    """The workers of a run, as its conductor sees them."""

    def __init__(
        self,
        store: SharedStore,
        hand: Hand,
        ctx: RunContext,
        dispatch: Dispatch,
        _send_part: SendPart,
    ) -> None:
        """
        Prepare to conduct others.

        Args:
            store: Where the shards lie.
            hand: This process as one of the workers.
            ctx: The run, under its own lease.
            dispatch: The switch.
        """
        self._store = store
        self._hand = hand
        self._ctx = ctx
        self._dispatch = dispatch
        self._backlog = Backlog()
        self._running = 0
        self._published: dict[str, Any] | None = None
        self._wanted: set[int] = set()
        self._race = False
        self._counted_until = float("-inf")
        self._left_batches = False

    @property
    def running(self) -> int:
        """See `Crew.running`."""
        return self._running

    @property
    def width(self) -> int:
        """See `Crew.width`."""
        return max(len(self._hand.living), 1)

    @property
    def tick(self) -> float:
        """See `Crew.tick`."""
        return self._hand.tick

    def begin(self, _tasks: TaskGroup, backlog: Backlog, /) -> None:
        """See `Crew.begin`."""
        self._backlog = backlog
        self._hand.on_end = self._ctx.wake

    def start(self, shard: Shard) -> None:
        """See `Crew.start`: it lies there for the first who claims it."""
        self._ctx.active[shard.number] = shard
        self._running += 1
        self._hand.call()

    def give_up(self, shard: Shard, *, race: bool) -> None:
        """See `Crew.give_up`."""
        self._wanted.add(shard.number)
        self._race = race

    # -- looking ------------------------------------------------------------------------------

    async def refresh(self) -> None:
        """See `Crew.refresh`."""
        # What is open before what waits: an item waits as soon as nothing that is open has it.
        opened = await self._store.read_open(self._ctx.run_id)
        notes = [worker.note for worker in self._hand.living]
        known = {label for note in notes for label in note.get("orgs", ())}
        silent = any(not note for note in notes)
        self._hand.strays = frozenset(
            one.shard.org for one in opened if not silent and one.shard.org not in known
        )
        opened = await self._take_back(opened, notes)
        info = await self._store.read_run(self._ctx.run_id)
        assert info is not None, "the run exists while we hold its lease"
        self._recall(info.facts.get(GIVE_UP))
        self._learn_sizes(info.facts)
        under_way = [one.shard for one in opened if self._is_under_way(one, notes)]
        self._take_over(under_way, notes)
        await self._publish()
        await self._recount(info.states[ItemState.PENDING])

    def _learn_sizes(self, facts: Mapping[str, Any]) -> None:
        """Take in which bodies were too large for the server."""
        learned = [facts.get(f"{MAX_BYTES}{label}") for label in self._ctx.orgs]
        sizes = [size for size in learned if isinstance(size, int)]
        self._ctx.max_bytes = min([self._ctx.max_bytes, *sizes])

    def _take_over(self, under_way: Sequence[Shard], notes: Sequence[Mapping[str, Any]]) -> None:
        """Let what the others do stand where one's own work stands in a process alone."""
        ctx, dispatch = self._ctx, self._dispatch
        ctx.active.clear()
        ctx.active.update((shard.number, shard) for shard in under_way)
        self._running = len(under_way)
        ctx.doubtful.clear()
        ctx.doubtful.update(number for note in notes for number in note.get("doubtful", ()))
        dispatch.shards = {shard.number for shard in under_way if _is_direct(shard)}
        dispatch.width = self.width
        rates = [rate for note in notes if (rate := note.get("rate")) is not None]
        dispatch.measured = sum(rates) if rates else None
        for label, org in ctx.orgs.items():
            full = [note["full"][label] for note in notes if label in note.get("full", ())]
            org.full_at = max(full, default=org.full_at)

    def _is_under_way(self, one: OpenShard, notes: Sequence[Mapping[str, Any]]) -> bool:
        if one.rested:
            return False
        # What nobody at work can carry on is left for the next wave.
        return one.worker is not None or self._has_carrier(one.shard, notes)

    def _has_carrier(self, shard: Shard, notes: Iterable[Mapping[str, Any]]) -> bool:
        """Tell whether somebody at work can claim *shard*."""
        if shard.org in self._hand.strays:
            return shard.state is not ShardState.PLANNED
        return any(_can_carry(note, shard) for note in notes)

    async def _take_back(
        self, opened: Sequence[OpenShard], notes: Sequence[Mapping[str, Any]]
    ) -> list[OpenShard]:
        """Let items wait again that lie planned, where nobody can send them or all go directly."""
        leaves = self._ctx.leaves_batches and not self._left_batches
        self._left_batches = self._ctx.leaves_batches
        kept = []
        for one in opened:
            shard = one.shard
            free = shard.state is ShardState.PLANNED and one.worker is None
            stranded = not self._has_carrier(shard, notes)
            if free and (stranded or (leaves and not _is_direct(shard))):
                await take_back(self._ctx, shard)
            else:
                kept.append(one)
        return kept

    # -- saying -------------------------------------------------------------------------------

    def _recall(self, published: Any) -> None:
        """Go on with what an earlier conductor gave up."""
        if self._published is not None or not isinstance(published, dict):
            self._published = self._published or {}
            return
        self._published = published
        now = clock().now().timestamp()
        self._race = published["race"]
        for number in published["shards"]:
            self._wanted.add(number)
            self._dispatch.given_up.add(number)
            self._ctx.given_up_at.setdefault(number, now)

    async def _publish(self) -> None:
        """Say which batches are to be given up."""
        wanted = self._wanted & self._ctx.active.keys()
        facts = {"shards": sorted(wanted), "race": self._race}
        if wanted and facts != self._published:
            await self._ctx.store.put_facts(self._ctx.lease, {GIVE_UP: facts})
            self._published = facts
            self._hand.look_now()

    async def _recount(self, pending: int) -> None:
        """Count what waits anew where that has changed by others."""
        now = clock().monotonic()
        if pending == self._backlog.waiting or (self._running and now < self._counted_until):
            return
        groups = await self._store.read_groups(self._ctx.run_id)
        done = clock().monotonic()
        self._counted_until = done + (done - now) / COUNTING
        self._backlog.recount(groups, done)


def _is_direct(shard: Shard) -> bool:
    return shard.facts.get(PATH) == "sync"


def _can_carry(note: Mapping[str, Any], shard: Shard) -> bool:
    """Tell whether a worker that says *note* of itself can claim *shard*."""
    if not note:
        # It has just joined, and has not said anything yet.
        return True
    if shard.org not in note["orgs"] or shard.org in note["shut"]:
        return False
    if shard.state is not ShardState.PLANNED:
        return True
    return shard.org not in note["stopped"] and (
        _is_direct(shard) or shard.org not in note["no_batches"]
    )
