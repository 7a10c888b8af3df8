"""
The planted bugs: what a hurried author of such a library might well have written.

Each is a patch of the library, in force while one scenario is played.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any
from unittest import mock

from batchwright import BatchRunner, _poll, _settle, _submit
from batchwright._clock import clock
from batchwright._context import RunContext
from batchwright._doubt import Finding, Next
from batchwright._faults import Fault, classify
from batchwright._harvest import Harvest
from batchwright._org import OrgLink
from batchwright._settle import Settling
from batchwright.store import ItemState, ShardState
from batchwright.stores.memory import MemoryStore

Patch = Any


def _local_now(_: OrgLink) -> datetime:
    return clock().now()


BUGS: dict[str, Callable[[], Sequence[Patch]]] = {}


def _bug(make: Callable[[], Sequence[Patch]]) -> Callable[[], Sequence[Patch]]:
    BUGS[make.__name__.strip("_")] = make
    return make


@contextlib.contextmanager
def plant(name: str) -> Iterator[None]:
    """Put the bug of that name into the library; none for an empty name."""
    with contextlib.ExitStack() as patches:
        for patch in BUGS[name]() if name else ():
            patches.enter_context(patch)
        yield


@_bug
def _no_intent() -> Sequence[Patch]:
    """The intent to send is not written down before the POST."""
    real = RunContext.move

    async def move(self: Any, shard: Any, to: Any, *expect: Any, **more: Any) -> Any:
        if to is ShardState.SENDING:
            return replace(shard, state=to, sent_at=more.get("sent_at"))
        return await real(self, shard, to, *(expect or (shard.state, ShardState.PLANNED)), **more)

    return [mock.patch.object(RunContext, "move", move)]


@_bug
def _late_record() -> Sequence[Patch]:
    """The batch id is written down only with the next change, after the first looks."""
    real = RunContext.move
    kept: dict[int, dict[str, Any]] = {}

    async def move(self: Any, shard: Any, to: Any, *expect: Any, **more: Any) -> Any:
        if to is ShardState.LIVE and shard.state is ShardState.SENDING:
            more.pop("rest", None)
            kept[shard.number] = more
            facts = {**shard.facts, **(more.get("facts") or {})}
            return replace(shard, state=to, **{**more, "facts": facts})
        held = kept.pop(shard.number, {})
        expected = expect or (shard.state, ShardState.SENDING)
        return await real(self, shard, to, *expected, **{**held, **more})

    return [mock.patch.object(RunContext, "move", move)]


@_bug
def _blind_retry() -> Sequence[Patch]:
    """A create without an answer is sent again, as an ordinary client does."""

    def judge(failure: Any) -> Fault:
        fault = classify(failure)
        return Fault.MOMENT if fault is Fault.UNKNOWN else fault

    return [mock.patch.object(_submit, "classify", judge)]


@_bug
def _done_before_settle() -> Sequence[Patch]:
    """A shard is closed before its answers are stored."""
    real = Harvest.run

    async def run(self: Any) -> Any:
        self.shard = await self._ctx.move(self.shard, ShardState.DONE)
        return await real(self)

    return [mock.patch.object(Harvest, "run", run)]


@_bug
def _trust_counts() -> Sequence[Patch]:
    """A batch in which nothing has succeeded after a while is taken for stuck, and canceled."""
    real = _poll.Watch._seen

    async def seen(self: Any, batch: Any, reply: Any) -> Any:
        end = await real(self, batch, reply)
        age = self._org.now() - (self.shard.created_at or self._org.now())
        stuck = not batch.counts.get("succeeded") and age > timedelta(seconds=30)
        if end is None and stuck and not self.shard.cancel:
            await self.cancel("drain")
        return end

    return [mock.patch.object(_poll.Watch, "_seen", seen)]


@_bug
def _ignore_short() -> Sequence[Patch]:
    """Results that lack lines count as read."""
    return [mock.patch.object(Harvest, "_missing", return_value=[])]


@_bug
def _whole_shard() -> Sequence[Patch]:
    """Where one item is to be tried again its whole shard is."""
    real = RunContext.settle

    async def settle(self: Any, shard: Any, settlements: Any, members: Any) -> Any:
        if any(said.state is ItemState.PENDING for said in settlements):
            settlements = [
                replace(said, state=ItemState.PENDING, reason="again", raw=None, tokens=None)
                for said in settlements
            ]
        return await real(self, shard, settlements, members)

    return [mock.patch.object(RunContext, "settle", settle)]


@_bug
def _wall_deadline() -> Sequence[Patch]:
    """Deadlines are told from the machine's own clock."""
    return [mock.patch.object(OrgLink, "now", _local_now)]


@_bug
def _no_deadline() -> Sequence[Patch]:
    """A batch is waited for long beyond its own end."""
    far = timedelta(days=2)

    def deadline(expires_at: Any, created_at: Any, grace: float) -> Any:
        return created_at + far

    return [mock.patch.object(_poll, "deadline_of", deadline)]


@_bug
def _hasty_poller() -> Sequence[Patch]:
    """A batch is looked at as often as it answers."""
    return [mock.patch.object(_poll, "poll_gap", return_value=0.2)]


@_bug
def _cancel_swallowed() -> Sequence[Patch]:
    """Being told to stop is taken for one more error to recover from."""
    real = BatchRunner.run

    async def run(self: Any, *args: Any, **more: Any) -> Any:
        while True:
            try:
                return await real(self, *args, **more)
            except asyncio.CancelledError:
                current = asyncio.current_task()
                assert current is not None
                current.uncancel()

    return [mock.patch.object(BatchRunner, "run", run)]


@_bug
def _no_fence() -> Sequence[Patch]:
    """Whoever once owned a run may write to it for ever."""

    def fence(self: Any, lease: Any) -> Any:
        return self._runs[lease.run_id]

    return [mock.patch.object(MemoryStore, "_fence", fence)]


@_bug
def _no_freshness() -> Sequence[Patch]:
    """Whoever was stopped and has woken up sends on, without a look at who owns the run."""

    async def stay_owner(self: Any) -> None:
        """Believe it."""

    return [mock.patch.object(RunContext, "stay_owner", stay_owner)]


@_bug
def _adopt_by_count() -> Sequence[Patch]:
    """A lost create is taken to be the first batch of the same size."""

    def assess(doubt: Any, listing: Any) -> Finding:
        for batch in listing.batches:
            if batch.total == doubt.count and batch.id not in listing.known:
                return Finding(Next.ADOPT, (batch,))
        return Finding(Next.ABSENT)

    async def prove(self: Any, shard: Any) -> bool:
        return True

    return [
        mock.patch.object(_settle, "assess", assess),
        mock.patch.object(Settling, "prove", prove),
    ]
