"""
The one place that knows the time, chance and new ids.

Everything else asks the clock in force, so that a test or a simulation can put its own in place
with `use_clock` and drive days in milliseconds.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import time
import uuid
from contextvars import ContextVar
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterator

#: Longest single sleep, seconds. Timers beyond some weeks overflow in the event loop's selector,
#: and a suspended laptop is noticed only when a sleep returns.
MAX_SLEEP = 3_600.0


class Clock(Protocol):
    """What the library asks of time and chance; durations are seconds."""

    def now(self) -> datetime:
        """Return the wall-clock time, aware, in UTC."""

    def monotonic(self) -> float:
        """Return seconds on a clock that never goes back."""

    def awake(self) -> float:
        """Return seconds on a clock that never goes back and goes on while the machine sleeps."""

    async def sleep(self, seconds: float) -> None:
        """Wait at least *seconds*, at most `MAX_SLEEP`."""

    def random(self) -> float:
        """Return a number in [0, 1) for jitter."""

    def new_id(self) -> str:
        """Return a fresh unique token of 32 hexadecimal characters."""


class SystemClock:
    """The machine's own time."""

    def __init__(self) -> None:
        self._random = random.Random()

    def now(self) -> datetime:
        """Return the machine's wall-clock time."""
        return datetime.now(UTC)

    def monotonic(self) -> float:
        """Return the running loop's time, so that a virtual loop is followed."""
        try:
            return asyncio.get_running_loop().time()
        except RuntimeError:
            return time.monotonic()

    def awake(self) -> float:
        """Return the time since boot, sleep included, where the system tells it."""
        boottime = getattr(time, "CLOCK_BOOTTIME", None)
        return time.time() if boottime is None else time.clock_gettime(boottime)

    async def sleep(self, seconds: float) -> None:
        """Wait on the event loop."""
        await asyncio.sleep(min(max(seconds, 0.0), MAX_SLEEP))

    def random(self) -> float:
        """Return an unseeded number in [0, 1)."""
        return self._random.random()

    def new_id(self) -> str:
        """Return a random UUID's digits."""
        return uuid.uuid4().hex


_current: ContextVar[Clock | None] = ContextVar("batchwright_clock", default=None)
_system = SystemClock()


def clock() -> Clock:
    """Return the clock in force in this context."""
    return _current.get() or _system


@contextlib.contextmanager
def use_clock(replacement: Clock) -> Iterator[Clock]:
    """Put *replacement* in force within the `with` block and in the tasks started from it."""
    token = _current.set(replacement)
    try:
        yield replacement
    finally:
        _current.reset(token)


def thread_clock() -> float:
    """Return seconds for measuring work done off the loop (never for deadlines)."""
    return time.perf_counter()
