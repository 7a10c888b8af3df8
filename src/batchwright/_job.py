"""
What the parts of one call share: the run, its store and orgs, the options, and how a wave is told.
"""

from __future__ import annotations

import contextlib
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass

import anyio

from batchwright._cache import answer_from_earlier
from batchwright._clock import clock
from batchwright._context import RunContext
from batchwright._options import Options
from batchwright._org import OrgLink
from batchwright._prelude import greet, judge_again, take_back_unsent
from batchwright.errors import BatchwrightError
from batchwright.events import Event, RunFinished, RunInterrupted, RunStarted, Talking
from batchwright.status import progress_of
from batchwright.store import CheckpointStore, Lease, RunInfo, ShardState
from batchwright.stream import Deliver


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """
    One call on a run.

    Attributes:
        run_id: Name of the run.
        store: Where it lives.
        orgs: The accounts that this process was given.
        talking: What they talk to.
        options: As the caller gave them.
        emit: Takes the events.
        predecessor_dead: Whether whoever owned the run before certainly sends no more.
    """

    run_id: str
    store: CheckpointStore
    orgs: Mapping[str, OrgLink]
    talking: tuple[Talking, ...]
    options: Options
    emit: Callable[[Event], None]
    predecessor_dead: bool = True

    def context(self, lease: Lease, deliver: Deliver | None = None) -> RunContext:
        """Return what the parts of a wave share under *lease*."""
        options = self.options
        return RunContext(
            run_id=self.run_id,
            store=self.store,
            lease=lease,
            orgs=self.orgs,
            emit=self.emit,
            limits=options.limits,
            polling=options.polling,
            retry=options.retry,
            judge=options.judge,
            retry_rejected=options.retry_rejected,
            deliver=deliver,
            predecessor_dead=self.predecessor_dead,
        )

    async def info(self) -> RunInfo:
        """Return what stands about the run."""
        info = await self.store.read_run(self.run_id)
        assert info is not None, "the run exists once it was owned"
        return info

    # -- before a wave ------------------------------------------------------------------------

    async def prepare(self, ctx: RunContext, *, cache: bool = True) -> None:
        """Do what comes before a wave: nothing of it is sent."""
        await take_back_unsent(ctx)
        # First what was answered already: what is refused then waits with the others.
        await judge_again(ctx)
        if self.options.cache and cache:
            await answer_from_earlier(ctx)

    async def greet(self, ctx: RunContext) -> None:
        """Prove the credentials, unless the caller does without."""
        if self.options.preflight:
            for org in self.orgs.values():
                await greet(ctx, org)

    # -- telling ------------------------------------------------------------------------------

    async def note_asked(self, lease: Lease, info: RunInfo) -> None:
        """Remember what is asked and of whom, for the report."""
        talking = [asdict(one) for one in self.talking]
        await self.store.put_facts(lease, self.options.asked(info.facts, talking))

    async def note_stops(self, lease: Lease, messages: Sequence[str]) -> None:
        """Remember why the wave stopped early, for the report."""
        if messages:
            await self.store.put_facts(lease, {"stopped_by": list(messages)})

    def tell_started(self, info: RunInfo, *, waiting: int, live: int) -> None:
        """Say that a wave begins, or that this process joins one."""
        self.emit(
            RunStarted(
                run_id=self.run_id,
                wave=info.wave,
                items=info.items,
                waiting=waiting,
                live=live,
                policy=self.options.policy_name,
                store=self.options.store_name,
                talking_to=self.talking,
            )
        )

    async def tell_interrupted(self, error: BaseException, command: str = "resume") -> None:
        """Say what still runs on the server, and how to go on; the state is saved already."""
        if isinstance(error, Exception):
            return
        with anyio.CancelScope(shield=True), contextlib.suppress(BatchwrightError):
            shards = await self.store.read_shards(self.run_id)
            live = sum(shard.state is ShardState.LIVE for shard in shards)
            run_id, store = shlex.quote(self.run_id), shlex.quote(self.options.store_name)
            advice = f"batchwright {command} --run-id {run_id} --store {store}"
            self.emit(RunInterrupted(run_id=self.run_id, live=live, advice=advice))

    async def tell_finished(self, elapsed: float) -> None:
        """Say what the run came to; *elapsed* in seconds."""
        info = await self.info()
        progress = progress_of(info, (), clock().now())
        self.emit(
            RunFinished(
                run_id=self.run_id,
                wave=info.wave,
                items=info.items,
                succeeded=progress.succeeded,
                quarantined=progress.quarantined,
                rejected=progress.rejected,
                unresolved=progress.unresolved + progress.waiting + progress.in_flight,
                reasons=info.reasons,
                elapsed=elapsed,
            )
        )


def only(error: BaseException) -> BaseException:
    """Return the one error that a task group wrapped, where there is one that matters."""
    while isinstance(error, BaseExceptionGroup):
        ours = error.subgroup(BatchwrightError)
        error = (ours or error).exceptions[0]
    return error
