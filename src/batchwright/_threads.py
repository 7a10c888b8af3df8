"""
The only file that starts threads.

Databases block, so each connection lives on one thread of its own and its calls are taken in order.
Every call is counted while it runs (`busy`), so that a virtual clock can hold still meanwhile.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

T = TypeVar("T")

_lock = threading.Lock()
_busy = 0


def busy() -> int:
    """Return how many calls are out in threads now."""
    return _busy


def _count(change: int) -> None:
    global _busy  # noqa: PLW0603 - one number for the whole process is what is meant
    with _lock:
        _busy += change


class Worker:
    """One thread; calls run on it one after another, in the order in which they were made."""

    def __init__(self, name: str) -> None:
        self._pool = ThreadPoolExecutor(max_workers=1, thread_name_prefix=name)

    async def call(self, work: Callable[[], T]) -> T:
        """
        Run *work* on the thread and return what it returns.

        Work that has begun is always finished, also when the caller is cancelled meanwhile: a
        transaction is either whole or not begun.
        """
        _count(+1)
        try:
            future = asyncio.get_running_loop().run_in_executor(self._pool, work)
        except BaseException:
            _count(-1)
            raise
        future.add_done_callback(lambda _: _count(-1))
        return await future

    async def finish(self, work: Callable[[], T], abandon: Callable[[], None]) -> T:
        """
        Do as `call` does, but let a cancelled caller go only when what has begun has ended.

        *abandon* is called as soon as the caller is cancelled, so that *work* may end early. Work
        that has not begun by then never will.
        """
        _count(+1)
        try:
            begun = self._pool.submit(work)
        except BaseException:
            _count(-1)
            raise
        begun.add_done_callback(lambda _: _count(-1))
        told = asyncio.wrap_future(begun)
        try:
            return await asyncio.shield(told)
        except asyncio.CancelledError:
            abandon()
            if not begun.cancel():
                await _outlast(told)
            raise

    def stop(self) -> None:
        """Finish what was begun and end the thread."""
        self._pool.shutdown(wait=True)


async def _outlast(told: asyncio.Future[Any]) -> None:
    """Return when *told* is done, however often the caller is cancelled meanwhile."""
    while not told.done():
        try:
            await asyncio.wait([told])
        except asyncio.CancelledError:
            continue
    if not told.cancelled():
        # Nobody is there to be told of an error; it must not be taken for a forgotten one.
        told.exception()


def pause(seconds: float) -> None:
    """Wait on a thread that is not an event loop's."""
    threading.Event().wait(seconds)


async def call_aside(work: Callable[[], T]) -> T:
    """Run *work* once, on a thread for it alone, so that the loop goes on meanwhile."""
    worker = Worker("batchwright-aside")
    try:
        return await worker.call(work)
    finally:
        worker.stop()


def run_blocking(make: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """
    Run a coroutine to its end on a loop of its own, in a thread, and wait for it.

    For synchronous methods that are called while the caller's own loop is running.
    """
    with ThreadPoolExecutor(max_workers=1, thread_name_prefix="batchwright-blocking") as pool:
        return pool.submit(lambda: asyncio.run(make())).result()
