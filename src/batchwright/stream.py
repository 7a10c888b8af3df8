"""
`OutcomeStream`: outcomes as they become durable, with the run going on behind.
"""

from __future__ import annotations

import asyncio
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
        self._closed = False

    async def __aenter__(self) -> Self:
        """Return itself; leaving the block stops the run."""
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    def __aiter__(self) -> OutcomeStream:
        return self

    async def __anext__(self) -> Outcome:
        if self._closed:
            raise StopAsyncIteration
        if self._queue is None:
            self._queue = asyncio.Queue(BUFFER)
            self._task = asyncio.create_task(self._work(self._queue))
        outcome = await self._queue.get()
        if outcome is not None:
            return outcome
        self._closed = True
        assert self._task is not None
        await self._task
        raise StopAsyncIteration

    async def aclose(self) -> None:
        """Stop the run, if it still runs, with its state saved."""
        self._closed = True
        if self._task is None:
            return
        self._drain()
        self._task.cancel()
        # Waited for and not awaited: its being cancelled is not ours, ours is passed on.
        await asyncio.wait([self._task])
        if not self._task.cancelled() and (error := self._task.exception()) is not None:
            raise error

    def _drain(self) -> None:
        """Read the queue empty, so that nobody waits for a reader who has gone."""
        assert self._queue is not None
        while not self._queue.empty():
            self._queue.get_nowait()

    async def _work(self, queue: asyncio.Queue[Outcome | None]) -> None:
        async def deliver(outcomes: Sequence[Outcome]) -> None:
            for outcome in outcomes:
                if self._closed:
                    return
                await queue.put(outcome)

        try:
            await self._drive(deliver)
        finally:
            # The reader must learn of the end; while he reads, a full queue empties.
            if self._closed:
                self._drain()
            await queue.put(None)
