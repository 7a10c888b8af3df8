"""The simulator's clocks: the only file of this package that knows real time."""

from __future__ import annotations

import asyncio
import time
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import Protocol


class WorldClock(Protocol):
    """What the world needs of a clock: one number that never goes back."""

    def now(self) -> float:
        """Return the world's time in seconds since the Unix epoch."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Wait until `seconds` of world time have passed."""
        ...


class ScaledClock:
    """World time that runs `speed` times as fast as real time.

    Args:
        speed: World seconds per real second; above zero. At 3600 the 24 hours of a batch
            take 24 real seconds.
        start: World time at the first moment, in seconds since the epoch. Default: real now.
    """

    def __init__(self, speed: float = 1.0, *, start: float | None = None) -> None:
        if speed <= 0:
            raise ValueError(f"speed must be above zero, not {speed}")
        self.speed = speed
        self._start = time.time() if start is None else start  # noqa: TID251
        self._zero = time.monotonic()  # noqa: TID251

    def now(self) -> float:
        """Return the world's time in seconds since the Unix epoch."""
        return self._start + (time.monotonic() - self._zero) * self.speed  # noqa: TID251

    async def sleep(self, seconds: float) -> None:
        """Wait until `seconds` of world time have passed."""
        await real_sleep(seconds / self.speed)


class ManualClock:
    """World time that moves only when told to.

    Args:
        start: World time at the first moment, in seconds since the epoch. Default: real now.
    """

    #: Real seconds between two looks of a sleeper at the clock.
    LOOK = 0.002

    def __init__(self, start: float | None = None) -> None:
        self._now = time.time() if start is None else start  # noqa: TID251

    def now(self) -> float:
        """Return the world's time in seconds since the Unix epoch."""
        return self._now

    def advance(self, seconds: float) -> None:
        """Move the world's time forward by `seconds`."""
        if seconds < 0:
            raise ValueError("time does not go back")
        self._now += seconds

    async def sleep(self, seconds: float) -> None:
        """Wait until somebody has advanced the clock by `seconds`."""
        until = self._now + seconds
        while self._now < until:
            await real_sleep(self.LOOK)


async def real_sleep(seconds: float) -> None:
    """Sleep real seconds; zero lets other tasks run."""
    await asyncio.sleep(max(0.0, seconds))  # noqa: TID251


class Budget:
    """Tells a long loop when it has held the event loop long enough."""

    def __init__(self, seconds: float = 0.004) -> None:
        self._seconds = seconds
        self._until = time.monotonic() + seconds  # noqa: TID251

    async def breathe(self) -> None:
        """Let other tasks run, but only if the budget is used up."""
        if time.monotonic() >= self._until:  # noqa: TID251
            await real_sleep(0)
            self._until = time.monotonic() + self._seconds  # noqa: TID251


def rfc3339(moment: float, suffix: str = "Z") -> str:
    """Write a world time as the API does: six fractional digits, UTC."""
    # Rounded once, as an integer, so that created_at + 24 h is exactly expires_at on the wire.
    stamp = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=round(moment * 1e6))
    return stamp.strftime("%Y-%m-%dT%H:%M:%S.%f") + suffix


def http_date(moment: float) -> str:
    """Write a world time as an HTTP `Date` header."""
    return format_datetime(datetime.fromtimestamp(moment, UTC), usegmt=True)
