"""
One sub-batch from where it stands to its end: submit, watch, read.

Whatever happens to it stays with it: its siblings, and the other orgs, go on.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import anyio

from batchwright._api import CallFailed
from batchwright._batches import read_batch
from batchwright._clock import clock
from batchwright._context import REMEDIES, RunContext, is_foreign
from batchwright._faults import Fault, classify
from batchwright._harvest import Got, Harvest
from batchwright._org import OrgLink
from batchwright._pace import backoff
from batchwright._poll import End, Watch
from batchwright._settle import CHUNK, Settling
from batchwright._submit import Submission
from batchwright.errors import BatchwrightError, ConfigurationError, StoreError
from batchwright.events import ShardFailed, ShardHeld
from batchwright.shared import UNSURE
from batchwright.status import RETENTION
from batchwright.store import (
    CheckpointStore,
    ItemState,
    Lease,
    Rest,
    Settlement,
    Shard,
    ShardState,
)
from batchwright.types import ItemError

#: Most results read at once: each holds a connection and a chunk of lines.
READERS = 4
#: Reasons for which a batch was held that end when the server shows it.
_FOUND_AGAIN = frozenset({"foreign", "not_found"})


def is_doubtful(shard: Shard) -> bool:
    """Tell whether the server may have a batch of this shard that we have no id of."""
    held = shard.state is ShardState.HELD and shard.reason == "ambiguous"
    return shard.batch_id is None and (shard.state is ShardState.SENDING or held)


async def adopt_by_hand(store: CheckpointStore, lease: Lease, batch_id: str, number: int) -> None:
    """
    Take a person's word for the batch that a lost create made; its lines must prove it.

    Raises:
        ConfigurationError: There is no such sub-batch, or it is not in doubt.
    """
    shards = {shard.number: shard for shard in await store.read_shards(lease.run_id)}
    shard = shards.get(number)
    if shard is None or not is_doubtful(shard):
        doubtful = [str(n) for n, shard in shards.items() if is_doubtful(shard)]
        raise ConfigurationError(
            f"sub-batch {number} of run {lease.run_id!r} is not in doubt, so no batch can be "
            f"adopted for it; in doubt are: {', '.join(doubtful) or 'none'}"
        )
    await store.move_shard(
        lease,
        number,
        expect=frozenset({shard.state}),
        to=ShardState.LIVE,
        reason=None,
        batch_id=batch_id,
        facts={"adopted": True},
    )


def came_back(shard: Shard) -> bool:
    """Tell whether the items of *shard* wait again because the server never took it."""
    return shard.state is ShardState.DONE and shard.batch_id is None and shard.reason != "absent"


class Carrier:
    """Carries shards; `uploads` and `readers` bound what happens at once."""

    def __init__(self, ctx: RunContext) -> None:
        self._ctx = ctx
        self._uploads = anyio.CapacityLimiter(ctx.limits.concurrency)
        self._readers = anyio.CapacityLimiter(READERS)
        self.cancel_all = False
        self._watches: dict[int, Watch] = {}
        self._to_give_up: dict[int, bool] = {}

    async def carry(self, shard: Shard) -> tuple[Shard, Sequence[Sequence[int]]]:
        """Return the shard where it came to rest, and parts of it to be sent on their own."""
        self._ctx.active[shard.number] = shard
        try:
            return await self._carry(shard)
        except BatchwrightError:
            # The store or the lease is gone: nothing can be recorded, so everything stops.
            raise
        except Exception as error:
            self._ctx.emit(
                ShardFailed(
                    run_id=self._ctx.run_id,
                    shard=shard.number,
                    org=shard.org,
                    batch_id=self._ctx.active[shard.number].batch_id,
                    why=f"{type(error).__name__}: {error}",
                )
            )
            return self._ctx.active[shard.number], ()
        finally:
            del self._ctx.active[shard.number]
            self._ctx.seen.pop(shard.number, None)
            self._ctx.wake()

    async def _carry(self, shard: Shard) -> tuple[Shard, Sequence[Sequence[int]]]:
        org = self._ctx.org_of(shard)
        if org is None or (is_doubtful(shard) and is_foreign(shard, org)):
            # Of a lost create another workspace's list tells nothing: not even its absence.
            return await self._without_org(shard), ()
        if org.label != shard.org:
            shard = await self._ctx.move(shard, shard.state, org=org.label)
            self._ctx.active[shard.number] = shard
        parts: Sequence[Sequence[int]] = ()
        fresh = shard.state is ShardState.PLANNED
        if fresh:
            shard, parts = await self._submit(org, shard)
        shard = await self._settle(org, shard, own=fresh)
        if shard.batch_id is not None and shard.state in {ShardState.LIVE, ShardState.HELD}:
            shard = await self._watch(org, shard, at_once=not fresh)
        if shard.state is ShardState.ENDED:
            shard = await self._read(org, shard)
        return shard, parts

    async def give_up(self, number: int, race: bool) -> None:
        """
        Cancel a live batch for the sync path; with *race* its items wait for that at once.

        Without it they wait again only when the batch has ended and its lines said so.
        """
        watch = self._watches.get(number)
        if watch is None:
            # It is about to be watched, by a task that has not come to it yet.
            self._to_give_up[number] = race
            return
        try:
            await watch.cancel("drain")
        except StoreError:
            # It ended at this very moment: its lines tell what became of its items.
            return
        if race:
            await self._release(watch.shard)

    async def _release(self, shard: Shard) -> None:
        """Let the items of a batch that may still answer wait again; the first answer wins."""
        members = await self._ctx.store.read_members(self._ctx.run_id, shard.number)
        back = [
            Settlement(seq=m.seq, state=ItemState.PENDING, charge=0)
            for m in members
            if m.shard == shard.number and m.state is ItemState.IN_FLIGHT
        ]
        by_seq = {member.seq: member for member in members}
        for start in range(0, len(back), CHUNK):
            await self._ctx.settle(shard, back[start : start + CHUNK], by_seq)
        self._ctx.wake()

    # -- the three legs -----------------------------------------------------------------------

    async def _submit(self, org: OrgLink, shard: Shard) -> tuple[Shard, Sequence[Sequence[int]]]:
        async with self._uploads:
            submission = Submission(self._ctx, org, shard)
            shard = await submission.run()
        self._ctx.active[shard.number] = shard
        self._ctx.wake()
        return shard, submission.parts

    async def _settle(
        self, org: OrgLink, shard: Shard, *, own: bool, settling: Settling | None = None
    ) -> Shard:
        """Look up a create that got no answer; hold the shard where that decides nothing."""
        if not is_doubtful(shard):
            return shard
        self._ctx.doubtful.add(shard.number)
        self._ctx.active[shard.number] = shard
        certain = self._ctx.predecessor_dead and not shard.facts.get(UNSURE)
        dead = own or certain
        try:
            work = settling or Settling(self._ctx, org, shard, dead=dead)
            shard = await work.run()
        finally:
            self._ctx.doubtful.discard(shard.number)
        self._ctx.active[shard.number] = shard
        if shard.state is ShardState.SENDING and not org.shut:
            return await self._hold(shard, "ambiguous", charge=0)
        return shard

    async def _prove(self, org: OrgLink, shard: Shard) -> Shard:
        """Make sure that an adopted batch is ours before its lines mean anything."""
        settling = Settling(self._ctx, org, shard, dead=True)
        try:
            if await self._proved(settling, shard):
                return await self._ctx.move(shard, shard.state, facts={"adopted": False})
        except CallFailed as failed:
            # Unproved, its lines mean nothing: it stays as it is for the next wave.
            why = {"unreadable": str(failed.failure)}
            return await self._ctx.move(shard, ShardState.ENDED, reason="unreadable", facts=why)
        doubtful = settling.shard
        shard = await self._settle(org, doubtful, own=True, settling=settling)
        if shard.state is ShardState.LIVE:
            shard = await self._watch(org, shard, at_once=True)
        trial = shard.state is ShardState.ENDED and shard.facts.get("adopted")
        return await self._prove(org, shard) if trial else shard

    async def _proved(self, settling: Settling, shard: Shard) -> bool:
        """Try the proof as often as any call is tried."""
        retry = self._ctx.retry
        for attempt in range(1, retry.call_attempts):
            try:
                return await settling.prove(shard)
            except CallFailed:
                await clock().sleep(backoff(attempt, retry, clock().random()))
        return await settling.prove(shard)

    async def _watch(self, org: OrgLink, shard: Shard, *, at_once: bool) -> Shard:
        once = shard.state is ShardState.HELD
        watch = self._watches[shard.number] = Watch(self._ctx, org, shard)
        org.queued += 0 if once else shard.count
        try:
            if self.cancel_all and not once:
                await watch.cancel("user")
            if shard.number in self._to_give_up:
                await self.give_up(shard.number, self._to_give_up.pop(shard.number))
            end = await watch.run(at_once=at_once, once=once)
            if end is End.NOT_YET and shard.reason in _FOUND_AGAIN:
                # The server does know it, or the right key is back: it is waited for like others.
                end = await watch.run(at_once=False)
        finally:
            org.queued -= 0 if once else shard.count
            del self._watches[shard.number]
        self._ctx.active[shard.number] = watch.shard
        if end is End.ENDED and watch.batch is not None and watch.batch.archived_at is not None:
            return await self._read(org, watch.shard, archived=True)
        if end is End.OVERDUE:
            return await self._read_overdue(org, watch)
        if end is End.FOREIGN:
            return await self._hold(watch.shard, "foreign", charge=0, **watch.told())
        if end is End.NOT_FOUND and not once:
            return await self._hold(watch.shard, "not_found", charge=1, **watch.told())
        return watch.shard

    async def _read(self, org: OrgLink, shard: Shard, *, archived: bool = False) -> Shard:
        if shard.facts.get("adopted"):
            shard = await self._prove(org, shard)
            if shard.state is not ShardState.ENDED or shard.facts.get("adopted"):
                return shard
        if self._ctx.hands_over is not None and self._ctx.hands_over(shard):
            return shard
        async with self._readers:
            harvest = Harvest(self._ctx, org, shard)
            got = await harvest.run()
            if got is Got.NOTHING:
                gone = "archived" if archived else await self._why_gone(org, shard)
                if gone is not None:
                    return await self._hold(harvest.shard, gone, charge=1)
            if got in {Got.NOTHING, Got.BROKEN}:
                await harvest.leave_unread()
        return harvest.shard

    async def _why_gone(self, org: OrgLink, shard: Shard) -> str | None:
        """
        Return why the results of an ended batch will never come; `None` where they still may.

        A 404 has many meanings; the batch object tells which, and without it the calendar.
        """
        if is_foreign(shard, org):
            return "foreign"
        batch_id = shard.batch_id or ""
        try:
            reply = await org.call("retrieve", lambda: org.gateway.retrieve(batch_id))
        except CallFailed as failed:
            if classify(failed.failure) is not Fault.NOT_FOUND:
                return None
            old = shard.created_at is not None and org.now() >= shard.created_at + RETENTION
            return "archived" if old else "not_found"
        batch = read_batch(reply.data)
        return "archived" if batch is not None and batch.archived_at is not None else None

    async def _read_overdue(self, org: OrgLink, watch: Watch) -> Shard:
        """Read what there is of a batch that did not end; keep the rest for a person."""
        async with self._readers:
            harvest = Harvest(self._ctx, org, watch.shard)
            await harvest.peek()
        looks = watch.told()
        facts = {**looks.pop("facts"), **harvest.facts()}
        return await self._hold(harvest.shard, "overdue", charge=1, facts=facts, **looks)

    # -- where it cannot go on ----------------------------------------------------------------

    async def _without_org(self, shard: Shard) -> Shard:
        if is_doubtful(shard):
            return await self._hold(shard, "ambiguous", charge=0)
        return await self._hold(shard, "foreign", charge=0)

    async def _hold(
        self,
        shard: Shard,
        reason: str,
        *,
        charge: int,
        facts: Mapping[str, Any] | None = None,
        **more: Any,
    ) -> Shard:
        """Keep the items without an answer until a person decides."""
        if shard.state is ShardState.HELD and shard.reason == reason:
            return shard
        error = ItemError(type=reason, message=REMEDIES[reason])
        rest = Rest(state=ItemState.UNRESOLVED, reason=reason, error=error, charge=charge)
        held = await self._ctx.move(
            shard,
            ShardState.HELD,
            reason=reason,
            rest=rest,
            facts={**(facts or {}), "charged": charge > 0},
            **more,
        )
        self._ctx.emit(
            ShardHeld(
                run_id=self._ctx.run_id,
                shard=held.number,
                org=held.org,
                batch_id=held.batch_id,
                count=held.count,
                reason=reason,
                remedy=REMEDIES[reason],
            )
        )
        return held
