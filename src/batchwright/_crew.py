"""
Who carries the shards that the conductor of a wave cuts.

Here it is this process alone; where several processes work on a run the conductor gives its shards
to all of them (`_muster`).
"""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol, TypeAlias

from anyio.abc import TaskGroup

from batchwright._backlog import Backlog
from batchwright._carry import Carrier, came_back
from batchwright._context import RunContext
from batchwright._dispatch import Dispatch
from batchwright.store import Shard

#: Sends a part of a refused shard on its own.
SendPart: TypeAlias = Callable[[Shard, Sequence[int]], Awaitable[None]]


class Crew(Protocol):
    """What the conductor asks of those who carry."""

    @property
    def running(self) -> int:
        """Number of shards that are under way."""

    @property
    def width(self) -> int:
        """Number of processes that carry."""

    @property
    def tick(self) -> float:
        """Seconds after which it is to be looked at anew even where nothing was heard."""

    def begin(self, tasks: TaskGroup, backlog: Backlog, /) -> None:
        """Start work; what comes back is noted in *backlog*."""

    async def refresh(self) -> None:
        """Learn what has changed elsewhere."""

    def start(self, shard: Shard) -> None:
        """Take one more shard."""

    def give_up(self, shard: Shard, *, race: bool) -> None:
        """Start the cancel of a live shard for the sync path."""


class LocalCrew:
    """This process, one task for each shard."""

    width = 1
    tick = math.inf

    def __init__(
        self, ctx: RunContext, dispatch: Dispatch, send_part: SendPart, *, cancel_all: bool = False
    ) -> None:
        """
        Prepare to carry.

        Args:
            ctx: The run.
            dispatch: The switch, with the pools of the sync path.
            send_part: Sends a part of a refused shard on its own.
            cancel_all: Cancel every live batch that is carried.
        """
        self._ctx = ctx
        self._dispatch = dispatch
        self._send_part = send_part
        self._carrier = Carrier(ctx)
        self._carrier.cancel_all = cancel_all
        self._backlog = Backlog()
        self._tasks: TaskGroup | None = None
        self._running = 0

    @property
    def running(self) -> int:
        """See `Crew.running`."""
        return self._running

    def begin(self, tasks: TaskGroup, backlog: Backlog, /) -> None:
        """See `Crew.begin`."""
        self._tasks, self._backlog = tasks, backlog
        for pool in self._dispatch.pools.values():
            tasks.start_soon(pool.linger)

    async def refresh(self) -> None:
        """See `Crew.refresh`: nothing happens elsewhere."""

    def start(self, shard: Shard) -> None:
        """See `Crew.start`."""
        assert self._tasks is not None, "a crew begins before it is given anything"
        # Entered here and not in the task, so that room is counted before the task first runs.
        self._ctx.active[shard.number] = shard
        self._running += 1
        self._tasks.start_soon(self._carry, shard)

    def give_up(self, shard: Shard, *, race: bool) -> None:
        """See `Crew.give_up`."""
        assert self._tasks is not None, "a crew begins before it gives anything up"
        self._tasks.start_soon(self._carrier.give_up, shard.number, race)

    async def _carry(self, shard: Shard) -> None:
        try:
            if shard.number in self._dispatch.shards:
                await self._ask_directly(shard)
                return
            shard, parts = await self._carrier.carry(shard)
            if came_back(shard):
                count = sum(map(len, parts)) if parts else shard.count
                self._backlog.give_back(shard.headers, count)
            for seqs in parts:
                await self._send_part(shard, seqs)
        finally:
            # Counted off only here: the parts are part of what is under way.
            self._running -= 1
            self._ctx.wake()

    async def _ask_directly(self, shard: Shard) -> None:
        try:
            _, unasked = await self._dispatch.pools[shard.org].carry(shard)
            self._backlog.give_back(shard.headers, unasked)
            self._dispatch.came_back(shard, unasked)
        finally:
            del self._ctx.active[shard.number]
            self._dispatch.shards.discard(shard.number)
