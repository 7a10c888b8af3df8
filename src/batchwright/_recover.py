"""
A lost store, rebuilt from what the API still keeps.

The workspace's batches of the last 29 days are read back, oldest first. The code in a `custom_id`
proves that an answer belongs to exactly this question of this run, so nothing is guessed, and
nothing is sent.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace
from datetime import datetime

import anyio

from batchwright._api import CallFailed
from batchwright._batches import BatchObject, oldest
from batchwright._clock import clock
from batchwright._context import RunContext
from batchwright._faults import Fault, classify
from batchwright._harvest import Got, Harvest
from batchwright._lease import HEARTBEAT
from batchwright._org import OrgLink
from batchwright._shards import spans_of
from batchwright._shelf import custom_ids, list_page
from batchwright._wire import body_size
from batchwright.events import BatchRecovered, BatchSkipped
from batchwright.result import pages
from batchwright.status import RETENTION
from batchwright.store import Group, ItemState, Shard, ShardPlan, ShardState

#: Pages of one workspace that are looked through at most.
MAX_PAGES = 200
#: Waiting items read from the store at once.
CHUNK = 10_000
#: A batch whose first lines hold no id of ours is somebody else's.
FIRST_LINES = 50
#: Why a batch is named in the result's `stopped`.
NOT_RECOVERED = "not recovered"
#: Tries were counted when they were made; recovering them must not use the budget up.
_NO_LIMIT = 1_000_000_000


@dataclass(frozen=True, slots=True)
class _Waiting:
    """An item without an answer: its place, its bytes on the wire, its headers."""

    seq: int
    size: int
    headers: str


class Recovery:
    """One search for the answers of a run; `left` says what could not be told, in sentences."""

    def __init__(self, ctx: RunContext, groups: Sequence[Group]) -> None:
        self._ctx = ctx
        self._groups = groups
        self._waiting: dict[str, _Waiting] = {}
        self._ours: set[str] = set()
        self.left: list[str] = []
        ctx.retry = replace(ctx.retry, max_attempts=_NO_LIMIT)

    async def run(self) -> None:
        """Read every ended batch that is ours; name those that still run."""
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._beat)
            await self._read_items()
            for org, batch in await self._found():
                await self._take(org, batch)
            tasks.cancel_scope.cancel()

    async def _beat(self) -> None:
        while True:
            await clock().sleep(HEARTBEAT)
            self._ctx.lease = await self._ctx.store.renew(self._ctx.lease, clock().now())

    async def _read_items(self) -> None:
        """Learn which `custom_id`s are ours, and which of them wait for an answer."""
        store, run_id = self._ctx.store, self._ctx.run_id
        waiting: dict[int, _Waiting] = {}
        for group in self._groups:
            after = -1
            while page := await store.read_pending(run_id, group.headers, after, CHUNK):
                waiting.update((p.seq, _Waiting(p.seq, p.size, group.headers)) for p in page)
                after = page[-1].seq
        async for row in pages(store, run_id):
            self._ours.add(row.outcome.custom_id)
            if row.seq in waiting:
                self._waiting[row.outcome.custom_id] = waiting[row.seq]

    # -- the workspaces -----------------------------------------------------------------------

    async def _found(self) -> list[tuple[OrgLink, BatchObject]]:
        """Return all batches that no run of this store knows, oldest first, each once."""
        known = set().union(*await self._ctx.known_batches(None))
        found: list[tuple[datetime, OrgLink, BatchObject]] = []
        for org in self._ctx.orgs.values():
            for batch in [] if org.shut else await self._listed(org):
                if batch.id not in known:
                    known.add(batch.id)
                    found.append((batch.created_at or org.now(), org, batch))
        found.sort(key=lambda one: one[0])
        return [(org, batch) for _, org, batch in found]

    async def _listed(self, org: OrgLink) -> list[BatchObject]:
        since = org.now() - RETENTION
        found: list[BatchObject] = []
        cursor: str | None = None
        for _ in range(MAX_PAGES):
            try:
                page, cursor = await list_page(org, cursor)
            except CallFailed as failed:
                self._fail(org, failed)
                self.left.append(f"the batches of org {org.label} were not all listed: {failed}")
                return found
            found += [b for b in page if b.created_at is None or b.created_at >= since]
            earliest = oldest(page)
            if cursor is None or (earliest is not None and earliest < since):
                return found
        self.left.append(f"org {org.label} has more than {len(found):,} batches; older ones remain")
        return found

    def _fail(self, org: OrgLink, failed: CallFailed) -> None:
        if classify(failed.failure) is Fault.ACCOUNT:
            org.shut = True
            self._ctx.halt(org, "account", str(failed.failure), failed.failure.kind)

    # -- one batch ----------------------------------------------------------------------------

    async def _take(self, org: OrgLink, batch: BatchObject) -> None:
        if not self._waiting or org.shut or batch.archived_at is not None:
            return
        if not batch.ended:
            self._skip(org, batch, "still runs; recover again when it has ended")
            return
        try:
            ids = await self._ids(org, batch)
        except CallFailed as failed:
            self._fail(org, failed)
            self._skip(org, batch, f"could not be read: {failed}")
            return
        items = sorted((self._waiting[i] for i in ids if i in self._waiting), key=lambda w: w.seq)
        if items:
            await self._harvest(org, batch, items)

    async def _ids(self, org: OrgLink, batch: BatchObject) -> set[str]:
        """Return all ids of the batch's results, or none as soon as it shows as a stranger's."""
        ids: set[str] = set()
        lines = 0
        async with aclosing(custom_ids(org, batch.id)) as found:
            async for custom_id in found:
                lines += 1
                if custom_id in self._ours:
                    ids.add(custom_id)
                elif not ids and lines >= FIRST_LINES:
                    break
        return ids

    async def _harvest(self, org: OrgLink, batch: BatchObject, items: Sequence[_Waiting]) -> None:
        shard = await self._shard(org, batch, items)
        harvest = Harvest(self._ctx, org, shard)
        got = await harvest.run()
        if got in {Got.NOTHING, Got.BROKEN}:
            await harvest.leave_unread()
            self._skip(org, batch, "is ours and broke off while it was read; resume reads it on")
        await self._count_off(shard)
        self._ctx.emit(
            BatchRecovered(
                run_id=self._ctx.run_id,
                shard=shard.number,
                org=org.label,
                batch_id=batch.id,
                count=shard.count,
            )
        )

    async def _shard(self, org: OrgLink, batch: BatchObject, items: Sequence[_Waiting]) -> Shard:
        """Enter the batch as if it had been sent from here: a crash in between is settled so."""
        created = batch.created_at or org.now()
        plan = ShardPlan(
            spans=spans_of(item.seq for item in items),
            count=len(items),
            size=body_size(len(items), sum(item.size for item in items)),
            headers=items[0].headers,
            org=org.label,
            wave=self._ctx.wave,
            planned_at=created,
        )
        facts = {"server_clock": True, "workspace": org.workspace, "recovered": True}
        shard = await self._ctx.plan(plan)
        shard = await self._ctx.move(shard, ShardState.SENDING, sent_at=created, facts=facts)
        shard = await self._ctx.move(
            shard,
            ShardState.LIVE,
            batch_id=batch.id,
            created_at=created,
            expires_at=batch.expires_at,
        )
        return await self._ctx.move(
            shard,
            ShardState.ENDED,
            ended_at=batch.ended_at or org.now(),
            counts=dict(batch.counts),
        )

    async def _count_off(self, shard: Shard) -> None:
        """Strike the items that wait no more; what failed may have been answered later."""
        members = await self._ctx.store.read_members(self._ctx.run_id, shard.number)
        self._strike(m.custom_id for m in members if m.state is not ItemState.PENDING)

    def _strike(self, done: Iterable[str]) -> None:
        for custom_id in done:
            self._waiting.pop(custom_id, None)

    def _skip(self, org: OrgLink, batch: BatchObject, why: str) -> None:
        self.left.append(f"batch {batch.id} ({batch.total:,} requests) {why}")
        self._ctx.emit(
            BatchSkipped(run_id=self._ctx.run_id, org=org.label, batch_id=batch.id, why=why)
        )
