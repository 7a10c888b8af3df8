"""
One call of the runner on one run: take it over, read items, conduct the wave, tell the result.
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from batchwright import _lease
from batchwright._api import Gateway
from batchwright._backlog import Backlog
from batchwright._cache import unproven
from batchwright._canary import settle_answers, try_shapes
from batchwright._carry import adopt_by_hand
from batchwright._clock import clock
from batchwright._feed import Feed
from batchwright._ingest import Ingest, Items
from batchwright._intake import IntakeRules
from batchwright._job import Job, only
from batchwright._narrate import report_of
from batchwright._options import Options
from batchwright._org import OrgLink
from batchwright._prelude import cancel_waiting, greet, is_unfinished, take_back_unsent
from batchwright._recover import NOT_RECOVERED, Recovery
from batchwright._roll import be_alone, is_left, is_open, wait_for_items
from batchwright._shift import Shift
from batchwright._standing import read_status
from batchwright._stop import request_cancels
from batchwright._wave import Wave
from batchwright.config import Org
from batchwright.errors import ConfigurationError, IntakeError
from batchwright.events import Event, RunFailed, Talking
from batchwright.result import (
    OutcomeReader,
    RunResult,
    collect_result,
    pages,
    told,
)
from batchwright.shared import SharedStore
from batchwright.status import CancelsRequested, RunStatus
from batchwright.store import (
    CheckpointStore,
    ItemState,
    Lease,
    RunInfo,
    Settlement,
)
from batchwright.stream import Deliver
from batchwright.types import Outcome

if TYPE_CHECKING:
    from batchwright.report import RunReport

#: The report in a result lists so many items: a longer list would hold up the loop.
LISTED_AT_THE_END = 10_000


@dataclass(frozen=True, slots=True)
class _Done:
    """How a wave ended."""

    stopped: tuple[tuple[str, str], ...]
    passed: Ingest | None


class Session:
    """One call on one run."""

    def __init__(
        self,
        *,
        run_id: str,
        store: CheckpointStore,
        reopen: Callable[[], CheckpointStore],
        reopened: bool,
        gateways: Callable[[], Mapping[str, tuple[Org, Gateway]]],
        options: Options,
        emit: Callable[[Event], None],
    ) -> None:
        self._run_id = run_id
        self._store = store
        self._reopen = reopen
        self._reopened = reopened
        self._gateways = gateways
        self._options = options
        self._emit = emit
        self._predecessor_dead = True

    # -- the calls ----------------------------------------------------------------------------

    async def run(self, items: Items, *, collect: bool) -> RunResult:
        """Read *items*, conduct a wave, return the result for the items passed."""
        async with self._owned() as lease:
            job = self._job()
            ingest = await self._ingest(items, lease, job)
            done = await self._wave(lease, job, passed=ingest)
            return await self._result(done, collect=collect)

    async def load(self, items: Items) -> RunStatus:
        """Read *items* into the store, and send nothing."""
        async with self._owned() as lease:
            await self._ingest(items, lease, self._job(), canary=False)
        return await self.status()

    async def work(self, wait: float, *, collect: bool) -> RunResult:
        """Work on a run together with other processes until it is over for all."""
        store = self._store
        assert isinstance(store, SharedStore), "the runner has seen to it"
        await wait_for_items(store, self._run_id, wait)
        info = await self._known()
        if not info.intake_complete:
            raise ConfigurationError(
                f"the items of run {self._run_id!r} are not read to the end, and nobody reads them "
                "now: put them in with `batchwright load` or `batchwright run`"
            )
        stops = await Shift(self._job(), store).run() if is_left(info) or is_open(info) else ()
        return await self._result(_Done(stops, None), collect=collect)

    async def resume(
        self,
        *,
        resubmit: frozenset[str] = frozenset(),
        adopt: Mapping[str, int] | None = None,
        collect: bool = True,
        cancel: bool = False,
    ) -> RunResult:
        """Conduct a wave from the store alone; with *cancel*, one that ends the run."""
        info = await self._known()
        if not info.intake_complete:
            raise IntakeError(
                f"run {self._run_id!r} was interrupted while its items were being read, before "
                "anything was sent; run it again with the items"
            )
        async with self._owned() as lease:
            job = self._job()
            for batch_id, number in (adopt or {}).items():
                await adopt_by_hand(self._store, lease, batch_id, number)
            done = await self._wave(lease, job, resubmit=resubmit, cancel=cancel)
            return await self._result(done, collect=collect)

    async def recover(self, items: Items, *, collect: bool) -> RunResult:
        """Read *items* and look for their answers among the batches on the server."""
        began = clock().monotonic()
        async with self._owned() as lease:
            job = self._job()
            ingest = await self._ingest(items, lease, job, canary=False)
            ctx = job.context(lease)
            await take_back_unsent(ctx)
            groups = await self._store.start_wave(lease, frozenset())
            info = await job.info()
            await job.note_asked(lease, info)
            job.tell_started(info, waiting=Backlog.of(groups, began).waiting, live=0)
            ctx.wave = info.wave
            for org in job.orgs.values():
                await greet(ctx, org)
            recovery = Recovery(ctx, groups)
            await recovery.run()
            await job.tell_finished(clock().monotonic() - began)
            stops = [org.stop for org in job.orgs.values() if org.shut and org.stop is not None]
            told = [(stop.reason, stop.message) for stop in stops]
            told += [(NOT_RECOVERED, text) for text in recovery.left]
            await job.note_stops(ctx.lease, [message for _, message in told])
            return await self._result(_Done(tuple(told), ingest), collect=collect)

    async def request_cancel(self, timeout: float) -> CancelsRequested:  # noqa: ASYNC109
        """Ask the server to cancel every live batch, and return without waiting for the ends."""
        await self._known()
        async with self._owned() as lease:
            return await request_cancels(self._job().context(lease), timeout)

    async def stream(self, items: Items, deliver: Deliver) -> None:
        """Read *items*, conduct a wave, and hand over each outcome once."""
        async with self._owned() as lease:
            job = self._job()
            ingest = await self._ingest(items, lease, job)
            intake = ingest.number
            info = await self._known()
            # Others of the run may be carried along; only then must those passed be remembered.
            passed: set[str] | None = set() if info.items != ingest.passed else None

            async def hand(outcomes: Sequence[Outcome]) -> None:
                await deliver([o for o in outcomes if passed is None or o.id in passed])

            async for row in pages(self._store, self._run_id, intake=intake):
                if passed is not None:
                    passed.add(row.outcome.id)
                if row.outcome.status != "unresolved":
                    await deliver([row.outcome])
            done = await self._wave(lease, job, passed=ingest, deliver=hand)
            reason = _open_reason(done.stopped)
            left = pages(self._store, self._run_id, intake=intake, succeeded=False, raw=False)
            async for row in left:
                # What became final in the wave was handed over when it did.
                if row.outcome.status == "unresolved":
                    await deliver([told(row, reason)])

    async def feed(self, feed: Feed) -> None:
        """Carry the calls of *feed*, wave after wave, until none of them waits."""
        async with self._owned() as lease:
            # By this process alone: a call is told by whoever settles it.
            while feed.is_wanted():
                await self._wave(lease, self._job(), feed=feed)

    async def wish(self, name: str) -> None:
        """Leave a wish for whoever owns the run, this process or another one."""
        await self._known()
        await self._store.put_wish(self._run_id, name, {"at": clock().now().isoformat()})

    async def status(self) -> RunStatus:
        """Return what stands, from the store alone."""
        return await read_status(self._store, await self._known())

    async def outcomes(self) -> AsyncIterator[Outcome]:
        """Yield the outcomes as they stand."""
        await self._known()
        async for row in pages(self._store, self._run_id):
            yield told(row, "in_flight" if row.state is ItemState.IN_FLIGHT else "waiting")

    async def report(
        self,
        *,
        open_reason: str | None = None,
        listed: int | None = None,
    ) -> RunReport:
        """Return the report as it stands."""
        await self._known()
        return await report_of(
            self._store,
            self._run_id,
            # Where a run never began, the store does not tell what would have been asked.
            asked=self._options.asked({}, ()),
            open_reason=open_reason,
            listed=listed,
        )

    # -- taking over --------------------------------------------------------------------------

    async def _known(self) -> RunInfo:
        info = await self._store.read_run(self._run_id)
        if info is None:
            known = await self._store.list_runs()
            held = ", ".join(map(repr, known[:10])) or "no run yet"
            raise ConfigurationError(
                f"there is no run {self._run_id!r} in {self._options.store_name}; it holds {held}"
            )
        return info

    @contextlib.asynccontextmanager
    async def _owned(self) -> AsyncIterator[Lease]:
        lease, self._predecessor_dead = await _lease.take(self._store, self._run_id, self._emit)
        async with _lease.kept(self._store, lease):
            if isinstance(self._store, SharedStore):
                await be_alone(self._store, lease, self._emit)
            try:
                yield lease
            except Exception as error:
                self._emit(RunFailed(run_id=self._run_id, error=type(error).__name__))
                raise

    def _job(self) -> Job:
        options = self._options
        gateways = self._gateways()
        talking = tuple(
            Talking(org=label, base_url=gateway.base_url, api_version=gateway.api_version)
            for label, (_, gateway) in gateways.items()
        )
        orgs = {
            label: OrgLink(
                org,
                gateway,
                run_id=self._run_id,
                polling=options.polling,
                retry=options.retry,
                emit=self._emit,
            )
            for label, (org, gateway) in gateways.items()
        }
        return Job(
            run_id=self._run_id,
            store=self._store,
            orgs=orgs,
            talking=talking,
            options=options,
            emit=self._emit,
            predecessor_dead=self._predecessor_dead,
        )

    async def _ingest(self, items: Items, lease: Lease, job: Job, *, canary: bool = True) -> Ingest:
        """Read the items into the store."""
        rules = IntakeRules(
            run_id=self._run_id,
            max_bytes=self._options.limits.max_bytes,
            # An item may go through any org, so the strictest version decides what is refused.
            api_version=max(org.gateway.api_version for org in job.orgs.values()),
        )
        ingest = Ingest(self._store, lease, rules, self._options.on_changed, self._emit)
        before = await self._known()
        answers: list[Settlement] = []

        async def approve() -> None:
            if canary and before.items == 0 and 0 < self._options.canary < ingest.passed:
                org = next(iter(job.orgs.values()))
                firsts = ingest.firsts
                if self._options.cache:
                    firsts = await unproven(self._store, self._run_id, job.orgs.values(), firsts)
                answers.extend(await try_shapes(org, firsts, ingest.passed))

        await ingest.run(items, before, approve)
        if answers:
            await settle_answers(job.context(lease), ingest.firsts, answers)
        return ingest

    # -- the wave -----------------------------------------------------------------------------

    async def _wave(
        self,
        lease: Lease,
        job: Job,
        *,
        passed: Ingest | None = None,
        resubmit: frozenset[str] = frozenset(),
        cancel: bool = False,
        deliver: Deliver | None = None,
        feed: Feed | None = None,
    ) -> _Done:
        store = self._store
        alone = cancel or deliver is not None or feed is not None
        if not alone and isinstance(store, SharedStore) and store.is_shared:
            return _Done(await Shift(job, store).run(lease, resubmit), passed)
        began = clock().monotonic()
        ctx = job.context(lease, deliver)
        await job.prepare(ctx, cache=not cancel and feed is None)
        if feed is not None:
            await feed.open(ctx)
        groups = await self._store.start_wave(lease, resubmit)
        if cancel:
            await cancel_waiting(ctx)
            groups = []
        backlog = Backlog.of(groups, clock().monotonic())
        shards = [s for s in await self._store.read_shards(self._run_id) if is_unfinished(s)]
        info = await job.info()
        await job.note_asked(lease, info)
        job.tell_started(info, waiting=backlog.waiting, live=len(shards))
        ctx.wave = info.wave
        if backlog.waiting or shards:
            await job.greet(ctx)
        wave = Wave(ctx, self._options.policy, self._options.sync, cancel=cancel)
        try:
            end = await wave.run(backlog, shards)
        except BaseException as error:
            await job.tell_interrupted(error)
            raise only(error) from None
        if cancel:
            # What came back meanwhile, to be tried again, is not: the run has ended.
            await cancel_waiting(ctx)
        if feed is not None:
            await feed.close(end.stops)
        stopped = tuple((stop.reason, stop.message) for stop in end.stops)
        await job.note_stops(ctx.lease, [message for _, message in stopped])
        await job.tell_finished(clock().monotonic() - began)
        return _Done(stopped, passed)

    async def _result(self, done: _Done, *, collect: bool) -> RunResult:
        reason = _open_reason(done.stopped)
        passed = done.passed
        intake = None if passed is None else passed.number
        items = (await self._known()).items if passed is None else passed.passed
        reader = OutcomeReader(
            self._reopen,
            self._run_id,
            intake=intake,
            open_reason=reason,
            closes=self._reopened,
        )
        report = await self.report(
            open_reason=reason,
            listed=LISTED_AT_THE_END,
        )
        return await collect_result(
            self._store,
            reader,
            report,
            intake=intake,
            items=items,
            open_reason=reason,
            collect=collect,
            stopped=done.stopped,
        )


def _open_reason(stopped: Sequence[tuple[str, str]]) -> str:
    """Return with which reason items are told that still wait or travel when a wave returns."""
    return "account" if any(reason == "account" for reason, _ in stopped) else "interrupted"
