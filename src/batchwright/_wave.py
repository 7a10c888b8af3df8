"""
The conductor of one wave: cuts shards while there is room, starts a task for each, asks the
policy, and ends when nothing is under way and nothing can be sent.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType
from typing import TypeAlias

import anyio
from anyio.abc import TaskGroup

from batchwright._backlog import Backlog, Heap
from batchwright._clock import clock
from batchwright._context import RunContext
from batchwright._crew import Crew, LocalCrew, SendPart
from batchwright._dispatch import CLAIM, WISH, Dispatch
from batchwright._forecast import Forecast
from batchwright._lease import HEARTBEAT
from batchwright._org import OrgLink, Stop
from batchwright._shards import Cut, Waiting, cut, leaves_now, next_count
from batchwright._wire import body_size
from batchwright.config import SyncLimits
from batchwright.errors import NotWaiting
from batchwright.events import ShardPlanned
from batchwright.policy import DispatchPolicy
from batchwright.shared import PATH
from batchwright.status import progress_of
from batchwright.store import ItemState, Pending, RunInfo, Shard, ShardPlan, ShardState

#: Retries leave at the latest after so many polling intervals.
GATHER_INTERVALS = 5
#: Progress is told at most this often, in seconds, except at the end.
PROGRESS_EVERY = 0.2

_UNSENT = frozenset({ShardState.PLANNED, ShardState.SENDING})
_ALIVE = frozenset({ShardState.PLANNED, ShardState.SENDING, ShardState.LIVE})

#: Makes the crew of a wave from what it shares with its conductor.
MakeCrew: TypeAlias = Callable[[RunContext, Dispatch, SendPart], Crew]


@dataclass(frozen=True, slots=True)
class WaveEnd:
    """How a wave ended: the orgs that were stopped, and why."""

    stops: tuple[Stop, ...]


class Wave:
    """One call of `run` or `resume`, with its retries."""

    def __init__(
        self,
        ctx: RunContext,
        policy: DispatchPolicy,
        limits: SyncLimits,
        *,
        cancel: bool = False,
        began_ago: float = 0.0,
        make_crew: MakeCrew | None = None,
    ) -> None:
        """
        Prepare a wave.

        Args:
            ctx: The run.
            policy: Decides the switch.
            limits: Bounds of the sync path.
            cancel: Cancel what is alive, send nothing, and end the run.
            began_ago: Seconds since another process began this wave.
            make_crew: Makes those who carry; this process alone where it is left out.
        """
        self._ctx = ctx
        self._dispatch = Dispatch(ctx, policy, limits, self._give_up)
        self._forecast = Forecast(ctx, self._dispatch, limits, began_ago=began_ago)
        if make_crew is None:
            make_crew = partial(LocalCrew, cancel_all=cancel)
        self._crew: Crew = make_crew(ctx, self._dispatch, self._send_part)
        self._backlog = Backlog()
        self._cancel = cancel
        self._told_at = -PROGRESS_EVERY
        self._ticked_at: float | None = None
        # Between reading what waits and planning it nobody else may plan.
        self._planning = anyio.Lock()
        ctx.on_retry = self._retry
        ctx.may_switch = self._dispatch.may_switch

    def _retry(self, shard: Shard, count: int) -> None:
        self._backlog.retry(shard.headers, count, clock().monotonic())
        self._dispatch.came_back(shard, count)

    async def run(self, backlog: Backlog, shards: Sequence[Shard]) -> WaveEnd:
        """Carry the open *shards* and everything in *backlog* to an end."""
        self._backlog = backlog
        await self._restore()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._beat)
            self._crew.begin(tasks, backlog)
            for shard in shards:
                self._crew.start(shard)
            # Not here, in the caller's task: a cancel of his that fell on the same moment as a time
            # limit inside would carry the limit's name, and be taken for the end of the wave.
            tasks.start_soon(self._conduct_to_end, tasks)
        await self._forecast.remember()
        await self._dispatch.finish()
        await self._tell_progress(force=True)
        stops = [org.stop for org in self._ctx.orgs.values() if org.stop is not None]
        if not stops and self._backlog.waiting and not self._cancel:
            stops.append(Stop("account", "no account may make batches, and these fit nothing else"))
        return WaveEnd(tuple(stops))

    async def _restore(self) -> None:
        """Go on with a switch of an earlier process."""
        info = await self._ctx.store.read_run(self._ctx.run_id)
        assert info is not None, "the run exists while we hold its lease"
        remaining = info.states[ItemState.PENDING] + info.states[ItemState.IN_FLIGHT]
        self._dispatch.restore(info.facts, remaining)
        await self._forecast.prepare()

    def _give_up(self, shard: Shard) -> None:
        """Start the cancel of a live shard for the sync path."""
        self._ctx.given_up_at[shard.number] = clock().now().timestamp()
        self._crew.give_up(shard, race=self._dispatch.races)

    async def _beat(self) -> None:
        """Keep the lease; when somebody took it over, everything here stops."""
        while True:
            await clock().sleep(HEARTBEAT)
            await self._ctx.prove_owner()

    async def _conduct_to_end(self, tasks: TaskGroup) -> None:
        await self._conduct()
        tasks.cancel_scope.cancel()

    async def _conduct(self) -> None:
        while True:
            self._ctx.changed = anyio.Event()
            await self._crew.refresh()
            await self._take_in()
            await self._tell_progress()
            while await self._send_next():
                pass
            self._dispatch.drain(self._backlog.waiting)
            if not self._crew.running and not self._can_send():
                return
            with anyio.move_on_after(self._patience()):
                await self._ctx.changed.wait()

    async def _take_in(self) -> None:
        """Let what has come meanwhile wait with the others."""
        if self._ctx.join is not None:
            for headers, count in (await self._ctx.join()).items():
                self._backlog.give_back(headers, count)

    def _can_send(self) -> bool:
        """Tell whether something waits that may still leave in this wave."""
        if self._cancel:
            return False
        return any(self._has_path(*group) for group in self._backlog.groups().items())

    def _has_path(self, headers: str, heap: Heap) -> bool:
        """Tell whether items of a group may still leave by either path."""
        orgs = self._open_orgs()
        if not orgs or any(not org.no_batches for org in orgs):
            return bool(orgs)
        return self._dispatch.is_undecided() or (
            self._dispatch.takes(headers) and not heap.batch_only
        )

    def _open_orgs(self) -> list[OrgLink]:
        return [org for org in self._ctx.orgs.values() if org.stop is None]

    def _patience(self) -> float:
        """Return the seconds until something may be due even if nothing changes."""
        interval = self._ctx.polling.interval
        now = clock().monotonic()
        alone = not self._ctx.active or self._dispatch.decision is not None
        wait = self._ctx.retry.backoff if alone else GATHER_INTERVALS * interval
        dues = [heap.due(wait) - now for heap in self._backlog.groups().values()]
        # What is overdue is held back for another reason, whose end will wake us.
        return min([interval, self._crew.tick, *(due for due in dues if due > 0)])

    # -- sending ------------------------------------------------------------------------------

    async def _send_next(self) -> bool:
        """Plan and start one more shard, if one should leave and there is room; tell whether."""
        if not self._can_send():
            return False
        if await self._claim_next():
            return True
        orgs = [org for org in self._open_orgs() if not org.no_batches]
        if not orgs or not self._has_room():
            return False
        # One org without room, or one group that is held back, does not hold up the others.
        for org in sorted(orgs, key=self._load):
            for headers, heap in self._backlog.groups().items():
                direct = self._dispatch.takes(headers) and not heap.batch_only
                if direct or not leaves_now(self._waiting(heap)):
                    continue
                async with self._planning:
                    if await self._plan(org, headers, heap):
                        return True
        return False

    async def _claim_next(self) -> bool:
        """Claim items for the sync path, if the wave has switched and a pool has room."""
        org = self._dispatch.org_for(self._open_orgs())
        if org is None:
            return False
        now, backoff = clock().monotonic(), self._ctx.retry.backoff
        for headers, heap in self._backlog.groups().items():
            direct = self._dispatch.takes(headers) and not heap.batch_only
            if direct and heap.has_rested(now, backoff):
                async with self._planning:
                    return await self._claim(org, headers, heap)
        return False

    async def _claim(self, org: OrgLink, headers: str, heap: Heap) -> bool:
        items = await self._ctx.store.read_pending(self._ctx.run_id, headers, heap.skip, CLAIM)
        if not items and heap.skip < 0:
            self._backlog.emptied(headers)
            return True
        fit = self._dispatch.fitting(items)
        if not fit:
            # Too large for a direct call, so far or all of them: those stay on the batch path.
            heap.skip = items[-1].seq if items else heap.skip
            heap.batch_only = not items
            return True
        size = body_size(len(fit), sum(item.size for item in fit))
        piece = Cut(tuple(item.seq for item in fit), size)
        shard = await self._plan_cut(org, headers, piece, facts={PATH: "sync"})
        if shard is not None:
            self._dispatch.claim(shard)
            self._crew.start(shard)
        return True

    def _has_room(self) -> bool:
        active = self._batch_shards()
        doubtful = self._ctx.doubtful
        uploading = sum(s.state in _UNSENT and s.number not in doubtful for s in active)
        alive = sum(shard.state in _ALIVE for shard in active)
        limits = self._ctx.limits
        return uploading < limits.concurrency * self._crew.width and (
            limits.max_live is None or alive < limits.max_live
        )

    def _batch_shards(self) -> list[Shard]:
        """Return the shards under way on the batch path."""
        sync = self._dispatch.shards
        return [s for number, s in self._ctx.active.items() if number not in sync]

    def _load(self, org: OrgLink) -> int:
        """Return the requests that are in, or on their way into, live batches of *org*."""
        active = self._batch_shards()
        return sum(s.count for s in active if s.org == org.label and s.state in _ALIVE)

    def _waiting(self, heap: Heap) -> Waiting:
        now = clock().monotonic()
        return Waiting(
            fresh=heap.fresh,
            again=heap.again,
            live=len(self._ctx.active),
            gathering_for=now - heap.since if heap.since is not None else 0.0,
            backoff=self._ctx.retry.backoff,
            gather=GATHER_INTERVALS * self._ctx.polling.interval,
            max_requests=self._ctx.limits.max_requests,
        )

    async def _plan(self, org: OrgLink, headers: str, heap: Heap) -> bool:
        most = self._most(org)
        # Looked at anew under the lock: another part may have taken what waited.
        if most < 1 or heap.waiting < 1:
            return False
        doubtful = {s.count for s in self._batch_shards() if s.state in _UNSENT}
        count = self._unlike_doubtful(org, next_count(heap.waiting, most, doubtful))
        if count < 1:
            return False
        items = await self._ctx.store.read_pending(self._ctx.run_id, headers, -1, count)
        if not items:
            self._backlog.emptied(headers)
            return True
        piece = cut(items, max_requests=count, max_bytes=self._ctx.max_bytes)
        await self._start_cut(org, headers, piece)
        return True

    def _unlike_doubtful(self, org: OrgLink, count: int) -> int:
        """
        Return the largest count up to *count* that no lost create of *org* has, 0 for none.

        A create is rather held back than made like one that is being looked up by its count.
        """
        taken = {
            shard.count
            for shard in self._ctx.active.values()
            if shard.number in self._ctx.doubtful and shard.org == org.label
        }
        while count in taken:
            count -= 1
        return count

    def _most(self, org: OrgLink) -> int:
        """Return the most items that the next shard of *org* may hold."""
        most = self._ctx.limits.max_requests
        load = self._load(org)
        if org.max_queued is not None:
            most = min(most, org.max_queued - load)
        if org.full_at is None or load < org.full_at:
            return most
        # Beyond what the queue took before only one shard at a time finds out whether it has grown.
        probing = any(s.org == org.label and s.state in _UNSENT for s in self._batch_shards())
        return 0 if probing else most

    async def _start_cut(self, org: OrgLink, headers: str, piece: Cut) -> None:
        shard = await self._plan_cut(org, headers, piece)
        if shard is None:
            return
        self._ctx.emit(
            ShardPlanned(
                run_id=self._ctx.run_id,
                shard=shard.number,
                org=org.label,
                count=shard.count,
                size=shard.size,
            )
        )
        self._crew.start(shard)

    async def _plan_cut(
        self,
        org: OrgLink,
        headers: str,
        piece: Cut,
        facts: Mapping[str, str] = MappingProxyType({}),
    ) -> Shard | None:
        """Create the shard; `None` where an answer came meanwhile for something in it."""
        plan = ShardPlan(
            spans=piece.spans,
            count=piece.count,
            size=piece.size,
            headers=headers,
            org=org.label,
            wave=self._ctx.wave,
            planned_at=clock().now(),
            facts=facts,
        )
        try:
            shard = await self._ctx.plan(plan)
        except NotWaiting:
            return None
        self._backlog.take(headers, piece.count)
        return shard

    async def _send_part(self, parent: Shard, seqs: Sequence[int]) -> None:
        """Send a part of a refused shard on its own; what left otherwise meanwhile is left out."""
        org = self._ctx.orgs[parent.org]
        async with self._planning:
            found = await self._still_waiting(parent.headers, seqs)
            if found:
                size = body_size(len(found), sum(item.size for item in found))
                piece = Cut(tuple(item.seq for item in found), size)
                await self._start_cut(org, parent.headers, piece)

    async def _still_waiting(self, headers: str, seqs: Sequence[int]) -> list[Pending]:
        wanted = set(seqs)
        page = await self._ctx.store.read_pending(
            self._ctx.run_id, headers, seqs[0] - 1, seqs[-1] - seqs[0] + 1
        )
        return [item for item in page if item.seq in wanted]

    # -- telling and asking -------------------------------------------------------------------

    async def _tell_progress(self, *, force: bool = False) -> None:
        now = clock().monotonic()
        if not force and now - self._told_at < PROGRESS_EVERY:
            return
        self._told_at = now
        info = await self._ctx.store.read_run(self._ctx.run_id)
        assert info is not None, "the run exists while we hold its lease"
        self._ctx.emit(progress_of(info, self._ctx.live(), clock().now()))
        await self._ask_policy(info)

    async def _ask_policy(self, info: RunInfo) -> None:
        """Ask the policy once per polling interval of the wave, not per batch."""
        now = clock().monotonic()
        first = self._ticked_at is None
        forbidden = any(org.no_batches for org in self._ctx.orgs.values())
        wished = WISH in info.facts and info.facts[WISH] is not None
        due = self._ticked_at is None or now - self._ticked_at >= self._ctx.polling.interval
        if self._cancel or not (due or wished or forbidden):
            return
        self._ticked_at = now
        snapshot = await self._forecast.snapshot(info, self._ctx.live(), start=first)
        if self._dispatch.wants_probe(snapshot) and await self._forecast.probe(info):
            snapshot = await self._forecast.snapshot(info, self._ctx.live(), start=first)
        await self._dispatch.ask(snapshot, wished=wished)
