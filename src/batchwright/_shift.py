"""
The time of one process at work on a run that several processes work on.

It joins, claims and carries; where nobody conducts the run, it conducts as well. It returns when
the run is over for all, or when others have to go on without it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from datetime import datetime
from functools import partial
from typing import Any

import anyio

from batchwright import _lease
from batchwright._backlog import Backlog
from batchwright._clock import clock
from batchwright._context import RunContext
from batchwright._hand import GIVE_UP, Hand
from batchwright._job import Job, only
from batchwright._muster import Muster
from batchwright._roll import Roll, is_left, is_open, turn_of
from batchwright._submit import MAX_BYTES
from batchwright._wave import Wave
from batchwright.errors import RunLocked
from batchwright.events import Conducting, WorkerJoined
from batchwright.shared import UNSURE, WORK_FACT, SharedStore
from batchwright.store import ItemState, Lease, ShardState

Stops = tuple[tuple[str, str], ...]


class Shift:
    """One call's time at work."""

    def __init__(self, job: Job, store: SharedStore) -> None:
        self._job = job
        self._store = store
        self._roll = Roll(store, job.run_id, job.emit)
        self._greeted = False
        self._told_to_stop = False

    async def run(
        self, lease: Lease | None = None, resubmit: frozenset[str] = frozenset()
    ) -> Stops:
        """
        Work until the run is over; return why accounts were stopped.

        With *lease*, that of the run, a new wave begins, and this process conducts at first.

        Raises:
            StoreError: The store cannot be used any more.
        """
        began = clock().monotonic()
        if lease is not None:
            await self._greet(self._job.context(lease))
            await self._begin(lease, resubmit, dead=self._job.predecessor_dead)
        await self._tell_started()
        try:
            stops = await self._until_over(lease)
        except BaseException as error:
            await self._job.tell_interrupted(error, "work")
            raise only(error) from None
        await self._job.tell_finished(clock().monotonic() - began)
        return stops

    async def _greet(self, ctx: RunContext) -> None:
        """Prove the credentials, once."""
        if not self._greeted:
            await self._job.greet(ctx)
        self._greeted = True

    async def _tell_started(self) -> None:
        info = await self._job.info()
        states = info.states
        opened = await self._store.read_open(self._job.run_id)
        live = sum(one.shard.state is ShardState.LIVE for one in opened)
        self._job.tell_started(info, waiting=states[ItemState.PENDING], live=live)

    async def _until_over(self, lease: Lease | None) -> Stops:
        while True:
            try:
                return await self._once(lease)
            except BaseException as error:
                if not isinstance(only(error), RunLocked):
                    raise
                if self._told_to_stop:
                    raise asyncio.CancelledError from error
                # Stopped for so long that others took over what this process had: it joins anew.
                lease = None

    async def _once(self, lease: Lease | None) -> Stops:
        """Be one worker."""
        own = await self._store.join(self._job.run_id, self._roll.here, clock().now())
        async with _lease.kept(self._store, own):
            ctx = self._job.context(own)
            # Of what others left each shard tells by itself whether they may still be sending.
            ctx.predecessor_dead = True
            hand = Hand(ctx, self._store, self._job.options, self._roll)
            await self._greet(ctx)
            info = await hand.look()
            ctx.wave = info.wave
            others = len(hand.living) - 1
            self._job.emit(WorkerJoined(run_id=info.run_id, worker=own.worker, others=others))
            await self._work(hand, lease)
            return await self._stops(hand)

    async def _work(self, hand: Hand, lease: Lease | None) -> None:
        """Work, and conduct in turn, until it is over."""
        over = anyio.Event()

        async def work() -> None:
            await hand.work()
            over.set()

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._conduct_in_turn, hand, lease)
            tasks.start_soon(work)
            try:
                # Nothing but this in the caller's task: a cancel of his is seen here, whatever
                # time limits pass inside, and whatever fails below while it unwinds.
                await over.wait()
            except asyncio.CancelledError:
                self._told_to_stop = not tasks.cancel_scope.cancel_called
                raise
            tasks.cancel_scope.cancel()

    async def _stops(self, hand: Hand) -> Stops:
        """Return why accounts were stopped: for all, or for this process alone."""
        info = await self._job.info()
        told = info.facts[WORK_FACT].get("stops", []) if not is_open(info) else []
        own = [(stop.reason, stop.message) for stop in hand.stops]
        return tuple((reason, message) for reason, message in told) or tuple(own)

    # -- conducting ---------------------------------------------------------------------------

    async def _conduct_in_turn(self, hand: Hand, lease: Lease | None) -> None:
        """Conduct whenever nobody else does."""
        if lease is not None:
            await self._conduct(hand, lease)
        while True:
            found = await self._roll.succeed()
            if found is not None:
                lease, dead = found
                async with _lease.kept(self._store, lease):
                    await self._conduct(hand, lease, dead=dead)
            await clock().sleep(hand.tick)

    async def _conduct(self, hand: Hand, lease: Lease, *, dead: bool = True) -> None:
        """Conduct until the run is over, or somebody else does."""
        hand.conducts = True
        try:
            info = await self._job.info()
            if hand.is_over(info):
                return
            if not is_open(info) and is_left(info):
                await self._begin(lease, frozenset(), dead=dead)
            await self._wave(hand, lease)
        except BaseException as error:
            if not isinstance(only(error), RunLocked):
                raise
        finally:
            hand.conducts = False

    async def _begin(self, lease: Lease, resubmit: frozenset[str], *, dead: bool) -> None:
        """Begin a wave, and open the run for work."""
        job, store = self._job, self._store
        ctx = job.context(lease)
        if not dead:
            await self._mark_unsure(ctx)
        await job.prepare(ctx)
        await store.start_wave(lease, resubmit)
        info = await job.info()
        await job.note_asked(lease, info)
        work = {
            "open": True,
            "wave": info.wave,
            "turn": turn_of(info),
            "started_at": self._now().isoformat(),
        }
        # What an earlier wave learned of the server may be true no more.
        anew = dict.fromkeys(f"{MAX_BYTES}{label}" for label in job.orgs)
        await store.put_facts(lease, {**anew, WORK_FACT: work, GIVE_UP: None})

    def _now(self) -> datetime:
        """Return the time on the server, which is the same for all."""
        return next(iter(self._job.orgs.values())).now()

    def _ago(self, moment: datetime) -> float:
        return max((self._now() - moment).total_seconds(), 0.0)

    async def _mark_unsure(self, ctx: RunContext) -> None:
        """Mark what an owner was sending who may not be dead, and may still be sending."""
        for one in await self._store.read_open(ctx.run_id):
            if one.shard.state is ShardState.SENDING and one.worker is None:
                await ctx.move(one.shard, ShardState.SENDING, facts={UNSURE: True})

    async def _wave(self, hand: Hand, lease: Lease) -> None:
        job, store = self._job, self._store
        ctx = job.context(lease)
        info = await job.info()
        ctx.wave = info.wave
        work: Mapping[str, Any] = info.facts.get(WORK_FACT) or {}
        stops: list[list[str]] = []
        if is_open(info):
            job.emit(Conducting(run_id=job.run_id, wave=info.wave))
            wave = Wave(
                ctx,
                job.options.policy,
                job.options.sync,
                began_ago=self._ago(datetime.fromisoformat(work["started_at"])),
                make_crew=partial(Muster, store, hand),
            )
            groups = await store.read_groups(job.run_id)
            end = await wave.run(Backlog.of(groups, clock().monotonic()), ())
            stops = [[stop.reason, stop.message] for stop in end.stops]
        over = {**work, "open": False, "turn": turn_of(info) + 1, "stops": stops}
        await store.put_facts(lease, {WORK_FACT: over, GIVE_UP: None})
        hand.look_now()
