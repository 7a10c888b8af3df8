"""
One of several processes at work on a run: it claims shards and carries them to their ends.

What it carries is carried as in a process that works alone. What it learns of the run (the switch,
the batches to give up) it reads from the facts of the run; what it knows itself it puts into its
note.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import anyio
from anyio.abc import TaskGroup

from batchwright._carry import READERS, Carrier
from batchwright._clock import clock
from batchwright._context import RunContext
from batchwright._dispatch import CLAIMS, FACT, may_switch
from batchwright._lease import HEARTBEAT
from batchwright._options import Options
from batchwright._org import OrgLink, Stop
from batchwright._parts import plan_parts
from batchwright._roll import Roll, is_stopped, turn_of
from batchwright._sync import SyncPool
from batchwright.shared import PATH, OpenShard, SharedStore, Worker
from batchwright.status import progress_of
from batchwright.store import RunInfo, Shard, ShardState

#: Seconds between two looks at the run, at most.
TICK: Final = 1.0
#: Shards claimed at once that only have to be watched or looked up.
WATCHES: Final = 64
#: Name of the fact that holds the batches to be given up for the sync path.
GIVE_UP: Final = "give_up"

_WATCHED = frozenset({ShardState.SENDING, ShardState.LIVE, ShardState.HELD})
_PLANNED = frozenset({ShardState.PLANNED})
_ENDED = frozenset({ShardState.ENDED})


@dataclass(frozen=True, slots=True)
class _Wish:
    """What this process would claim now: so many shards of one kind."""

    states: frozenset[ShardState]
    orgs: frozenset[str]
    limit: int
    direct: bool = False

    def fits(self, one: OpenShard) -> bool:
        """Tell whether an open shard is of this kind, and free."""
        shard = one.shard
        free = one.worker is None and not one.rested
        kind = shard.state in self.states and shard.org in self.orgs
        return free and kind and (shard.facts.get(PATH) == "sync") is self.direct


class Hand:
    """This process at work; `work` returns when the run is over for all, or not for it to do."""

    def __init__(self, ctx: RunContext, store: SharedStore, options: Options, roll: Roll) -> None:
        """
        Prepare to work.

        Args:
            ctx: The run, under the lease of this worker.
            store: Where the shards are claimed.
            options: As the caller gave them.
            roll: The workers.
        """
        self._ctx = ctx
        self._store = store
        self._roll = roll
        self._carrier = Carrier(ctx)
        self._pools = {label: SyncPool(ctx, org, options.sync) for label, org in ctx.orgs.items()}
        self._tasks: TaskGroup | None = None
        self._handed: set[int] = set()
        self._given_up: set[int] = set()
        self._noted: dict[str, Any] | None = None
        self._look_due = float("-inf")
        self._proved_at = clock().monotonic()
        self._turn: int | None = None
        self._called = True
        self._ends = 0
        self.tick = min(TICK, ctx.polling.interval)
        #: The workers of the run that live, this one among them.
        self.living: list[Worker] = []
        #: Labels of orgs that nobody at work was given: their shards are for the conductor.
        self.strays: frozenset[str] = frozenset()
        #: Whether this process conducts, and so tells of the run.
        self.conducts = False
        #: Told when a shard came to rest here, so that a conductor in this process looks at once.
        self.on_end: Callable[[], None] = lambda: None
        ctx.read_open = self._read_open
        ctx.send_parts = self._send_parts
        ctx.hands_over = self._hands_over
        ctx.may_switch = may_switch(options.policy)

    async def work(self) -> None:
        """Claim and carry until the run is over for all, or others have to go on alone."""
        async with anyio.create_task_group() as tasks:
            self._tasks = tasks
            for pool in self._pools.values():
                tasks.start_soon(pool.linger)
            while not await self._is_over():
                await self._claim()
                await self._pause()
            tasks.cancel_scope.cancel()

    def call(self) -> None:
        """Let it look for shards at once: there are new ones."""
        self._called = True
        self._ctx.wake()

    def look_now(self) -> None:
        """Let it look at the run at once: it is over, or something was decided."""
        self._look_due = float("-inf")
        self.call()

    @property
    def stops(self) -> list[Stop]:
        """Why orgs of this process are stopped."""
        return [org.stop for org in self._ctx.orgs.values() if org.stop is not None]

    # -- looking ------------------------------------------------------------------------------

    async def look(self) -> RunInfo:
        """Learn what the run has come to, and who works on it."""
        info = await self._store.read_run(self._ctx.run_id)
        assert info is not None, "the run exists while somebody works on it"
        self._turn = turn_of(info) if self._turn is None else self._turn
        self._follow(info)
        await self._note()
        now = clock().monotonic()
        if now - self._proved_at >= HEARTBEAT:
            await self._ctx.prove_owner()
            self._proved_at = now
        self.living = await self._roll.look(self._ctx.lease)
        for label, org in self._ctx.orgs.items():
            org.share(len(self.living))
            self._pools[label].allowance.share(len(self.living))
        if not self.conducts:
            self._ctx.emit(progress_of(info, self._ctx.live(), clock().now()))
        return info

    async def _is_over(self) -> bool:
        now = clock().monotonic()
        if now < self._look_due:
            return False
        self._look_due = now + self.tick
        return self.is_over(await self.look()) or self._is_for_others()

    def is_over(self, info: RunInfo) -> bool:
        """Tell whether the run has come to its end for all since this process joined."""
        over = self._turn is not None and turn_of(info) > self._turn
        if over and is_stopped(info) and self._could_send():
            # Ended by one who could not send, and did not see that this process can.
            self._turn, over = turn_of(info), False
        return over

    def _could_send(self) -> bool:
        orgs = self._ctx.orgs.values()
        return any(org.stop is None and not org.no_batches for org in orgs)

    def _is_for_others(self) -> bool:
        """Tell whether this process can send nothing, and others can."""
        stopped = all(org.stop is not None for org in self._ctx.orgs.values())
        return stopped and any(
            _sends(worker) for worker in self.living if worker.lease.worker != self._number
        )

    @property
    def _number(self) -> int:
        return self._ctx.lease.worker

    def _follow(self, info: RunInfo) -> None:
        """Do what the conductor decided."""
        switch = info.facts.get(FACT)
        if isinstance(switch, dict) and switch["share"] >= 1.0 and not self._ctx.leaves_batches:
            self._ctx.leaves_batches = True
            for org in self._ctx.orgs.values():
                org.gate.open()
        wanted = info.facts.get(GIVE_UP)
        if not isinstance(wanted, dict) or self._tasks is None:
            return
        for number in sorted({*wanted["shards"]} & self._ctx.active.keys() - self._given_up):
            self._given_up.add(number)
            self._tasks.start_soon(self._carrier.give_up, number, wanted["race"])

    async def _note(self) -> None:
        """Tell the conductor what this process can do."""
        orgs = self._ctx.orgs
        rates = [rate for pool in self._pools.values() if (rate := pool.rate) is not None]
        note: dict[str, Any] = {
            "orgs": sorted(orgs),
            "stopped": sorted(label for label, org in orgs.items() if org.stop is not None),
            "shut": sorted(label for label, org in orgs.items() if org.shut),
            "no_batches": sorted(label for label, org in orgs.items() if org.no_batches),
            "full": {label: org.full_at for label, org in orgs.items() if org.full_at is not None},
            "doubtful": sorted(self._ctx.doubtful),
            "rate": round(sum(rates), 3) if rates else None,
        }
        if note != self._noted:
            await self._store.put_note(self._ctx.lease, note)
            self._noted = note

    # -- claiming -----------------------------------------------------------------------------

    async def _claim(self) -> None:
        """Claim what there is room for, and begin to carry it."""
        self._called, self._ends = False, 0
        wishes = list(self._wishes())
        opened = await self._store.read_open(self._ctx.run_id) if wishes else ()
        for wish in wishes:
            if not any(wish.fits(one) for one in opened):
                continue
            for shard in await self._store.claim(
                self._ctx.lease,
                wish.states,
                direct=wish.direct,
                orgs=wish.orgs,
                limit=wish.limit,
            ):
                self._start(shard)

    def _wishes(self) -> Iterator[_Wish]:
        orgs = self._ctx.orgs
        readable = frozenset(k for k, org in orgs.items() if not org.shut) | self.strays
        batches = frozenset(k for k, org in orgs.items() if org.stop is None and not org.no_batches)
        rooms = (
            (_PLANNED, batches, self._ctx.limits.concurrency - self._uploading()),
            (_ENDED, readable, READERS - self._count(ShardState.ENDED)),
            (_WATCHED, readable, WATCHES),
        )
        yield from (_Wish(*room) for room in rooms if room[1] and room[2] > 0)
        for label, org in orgs.items():
            room = CLAIMS - self._asked_directly(label)
            if org.stop is None and room > 0:
                yield _Wish(_PLANNED, frozenset({label}), room, direct=True)

    def _uploading(self) -> int:
        doubtful = self._ctx.doubtful
        unsent = {ShardState.PLANNED, ShardState.SENDING}
        return sum(
            shard.state in unsent and shard.number not in doubtful and not _is_direct(shard)
            for shard in self._ctx.active.values()
        )

    def _count(self, state: ShardState) -> int:
        return sum(shard.state is state for shard in self._ctx.active.values())

    def _asked_directly(self, label: str) -> int:
        active = self._ctx.active.values()
        return sum(_is_direct(shard) and shard.org == label for shard in active)

    def _rooms(self) -> tuple[int, ...]:
        """Return what is taken up of each kind; where it sinks something can be claimed."""
        ended = self._count(ShardState.ENDED)
        return (self._uploading(), ended, *map(self._asked_directly, self._ctx.orgs))

    async def _pause(self) -> None:
        """Wait for the next look, or until there is room for more."""
        while not (self._called or self._ends) and (left := self._left()) > 0:
            before = self._rooms()
            self._ctx.changed = anyio.Event()
            with anyio.move_on_after(left):
                await self._ctx.changed.wait()
            if any(now < then for now, then in zip(self._rooms(), before, strict=True)):
                return

    def _left(self) -> float:
        """Return the seconds until the next look is due."""
        return self._look_due - clock().monotonic()

    # -- carrying -----------------------------------------------------------------------------

    def _start(self, shard: Shard) -> None:
        assert self._tasks is not None, "nothing is claimed before the work begins"
        # Entered here and not in the task, so that room is counted before the task first runs.
        self._ctx.active[shard.number] = shard
        self._tasks.start_soon(self._carry, shard)

    async def _carry(self, shard: Shard) -> None:
        if _is_direct(shard):
            shard = await self._ask_directly(shard)
        else:
            shard, _ = await self._carrier.carry(shard)
        self._given_up.discard(shard.number)
        self._ends += 1
        if shard.state is not ShardState.DONE:
            await self._put_down(shard)
        self._ctx.wake()
        self.on_end()

    async def _ask_directly(self, shard: Shard) -> Shard:
        try:
            shard, _ = await self._pools[shard.org].carry(shard)
            return shard
        finally:
            del self._ctx.active[shard.number]

    async def _put_down(self, shard: Shard) -> None:
        """Give a shard back that came to rest before its end, or that others should go on with."""
        org: OrgLink | None = self._ctx.org_of(shard)
        unsent = shard.state is ShardState.PLANNED
        barred = org is not None and (org.shut or (unsent and org.stop is not None))
        handed = shard.number in self._handed
        self._handed.discard(shard.number)
        await self._store.put_down(
            self._ctx.lease, shard.number, rested=not (barred or handed or unsent)
        )

    def _hands_over(self, shard: Shard) -> bool:
        """Let another process read an ended batch where this one has more than it can read."""
        busy = self._count(ShardState.ENDED) > READERS
        if busy and len(self.living) > 1:
            self._handed.add(shard.number)
            return True
        return False

    async def _read_open(self) -> Sequence[Shard]:
        return [one.shard for one in await self._store.read_open(self._ctx.run_id)]

    async def _send_parts(self, parent: Shard, parts: Sequence[Sequence[int]]) -> None:
        """Carry the parts of a refused shard as shards of their own."""
        for shard in await plan_parts(self._ctx, self._store, parent, parts):
            self._start(shard)


def _is_direct(shard: Shard) -> bool:
    return shard.facts.get(PATH) == "sync"


def _sends(worker: Worker) -> bool:
    """Tell whether a worker can send through some org, as far as it has said."""
    note = worker.note
    return not note or bool({*note["orgs"]} - {*note["stopped"]})
