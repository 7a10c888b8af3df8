"""
`OutcomeStream`: outcomes as they become durable, with the run going on behind.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Self

from batchwright.types import Outcome

Deliver = Callable[[Sequence[Outcome]], Awaitable[None]]

#: Outcomes that may wait for the reader; a slow reader slows the harvest, not the memory down.
BUFFER = 2_000


class OutcomeStream(AsyncIterator[Outcome]):
    """
    An asynchronous iterator over the outcomes of a run.

    The run begins with the first step and ends with the last; an error of the run is raised where
    the iteration stands.
    """

    def __init__(self, drive: Callable[[Deliver], Awaitable[None]]) -> None:
        self._drive = drive
        self._task: asyncio.Task[None] | None = None
        self._queue: asyncio.Queue[Outcome | None] | None = None

    async def __aenter__(self) -> Self:
        """Return itself; leaving the block stops the run."""
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    def __aiter__(self) -> OutcomeStream:
        return self

    async def __anext__(self) -> Outcome:
        if self._queue is None:
            self._queue = asyncio.Queue(BUFFER)
            self._task = asyncio.create_task(self._work(self._queue))
        outcome = await self._queue.get()
        if outcome is not None:
            return outcome
        await self._queue.put(None)
        assert self._task is not None
        await self._task
        raise StopAsyncIteration

    async def aclose(self) -> None:
        """Stop the run, if it still runs, with its state saved."""
        if self._task is not None:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task

    async def _work(self, queue: asyncio.Queue[Outcome | None]) -> None:
        async def deliver(outcomes: Sequence[Outcome]) -> None:
            for outcome in outcomes:
                await queue.put(outcome)

        try:
            await self._drive(deliver)
        finally:
            # The reader must learn of the end; a full queue is read empty before.
            self._end(queue)

    def _end(self, queue: asyncio.Queue[Outcome | None]) -> None:
        with contextlib.suppress(asyncio.QueueFull):
            queue.put_nowait(None)
            return
        self._waker = asyncio.ensure_future(queue.put(None))
