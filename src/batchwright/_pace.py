"""
How long to wait: pure, every number in seconds.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from email.utils import parsedate_to_datetime

from batchwright.config import Polling, RetryBudget
from batchwright.types import Tokens

#: The server's own polling hint (`retry-after` on a 200) where it gives none.
DEFAULT_HINT = 10.0
#: How fast the gap between two looks grows from the hint to the interval.
GROWTH = 1.5
#: Waits are jittered by at most this share, downwards never below the hint.
JITTER = 0.1
#: A `retry-after` longer than this parks the org instead of sleeping.
PARK_ABOVE = 900.0
#: Answers over which the average use of tokens follows a job whose questions change.
MEMORY = 200


def poll_gap(looks: int, hint: float | None, polling: Polling, chance: float) -> float:
    """
    Return the wait before the next look after *looks* looks.

    From the server's hint it grows to the set interval. The hint is never undercut, except by an
    interval that the caller set below it on purpose. *chance* in [0, 1) spreads the looks.
    """
    floor = min(hint if hint is not None else DEFAULT_HINT, polling.interval)
    grown = floor * GROWTH ** min(looks, 64)
    gap = min(max(grown, floor), polling.interval)
    return gap * (1.0 + JITTER * chance)


def backoff(tries: int, budget: RetryBudget, chance: float) -> float:
    """Return the wait after *tries* failed tries: doubled each time, capped, jittered by half."""
    longest = min(budget.backoff * 2.0 ** min(max(tries - 1, 0), 64), budget.max_backoff)
    return longest * (0.5 + 0.5 * chance)


def retry_wait(tries: int, retry_after: float | None, budget: RetryBudget, chance: float) -> float:
    """Return the wait before another try; the server's `retry-after` is never undercut."""
    own = backoff(tries, budget, chance)
    return own if retry_after is None else max(own, retry_after * (1.0 + JITTER * chance))


def parse_retry_after(value: str | None, server_now: datetime) -> float | None:
    """Return the seconds a `retry-after` header asks for: a number or an HTTP date."""
    if not value:
        return None
    try:
        seconds = float(value)
    except ValueError:
        return _until(value, server_now)
    return max(seconds, 0.0) if math.isfinite(seconds) else None


def _until(date: str, server_now: datetime) -> float | None:
    try:
        return max((parsedate_to_datetime(date) - server_now).total_seconds(), 0.0)
    except (TypeError, ValueError):
        return None


@dataclass(slots=True)
class ServerClock:
    """
    The server's time, told from the `Date` header of its answers.

    Deadlines are the server's (`expires_at`), so they are measured on its clock. Between two
    answers it is carried on by a clock that counts sleep and that nobody sets: a laptop that is
    hours off, was asleep, or has its time corrected does not give up a batch that is fine.
    """

    _server: datetime | None = None
    _awake: float = 0.0

    @property
    def known(self) -> bool:
        """Whether the server ever told its time."""
        return self._server is not None

    def learn(self, server: datetime | None, awake: float) -> None:
        """Take in one `Date` header; its second is cut off, so half a second is added."""
        if server is not None:
            self._server = server + timedelta(milliseconds=500)
            self._awake = awake

    def at(self, awake: float, local: datetime) -> datetime:
        """Return the server's time now; *local*, our wall clock, where it never told it."""
        if self._server is None:
            return local
        return self._server + timedelta(seconds=awake - self._awake)


@dataclass(slots=True)
class RequestBudget:
    """
    A token bucket for one org's calls to the batch endpoints, in requests.

    The API counts create, retrieve, list, cancel, delete and results together, per minute, and
    refills continuously: short bursts can be refused even below the minute's rate.
    """

    rpm: float
    burst: float = 10.0
    _level: float = field(default=math.inf)
    _at: float = 0.0

    def take(self, now: float) -> float:
        """Take one request; return the seconds to wait before it may leave (0 for now)."""
        rate = self.rpm / 60.0
        self._level = min(self.burst, self._level + (now - self._at) * rate)
        self._at = now
        self._level -= 1.0
        return 0.0 if self._level >= 0 else -self._level / rate


@dataclass(slots=True)
class AverageUse:
    """
    Tokens that one answer used on average, the recent ones counting most.

    The API limits tokens a minute as well as requests; how many requests that is, only the answers
    tell.
    """

    _count: int = 0
    _input: float = 0.0
    _output: float = 0.0

    def add(self, used: Tokens | None) -> None:
        """Take in what one answer used; tokens read from the cache are not limited."""
        if used is None:
            return
        self._count = min(self._count + 1, MEMORY)
        self._input += (used.input + used.cache_write - self._input) / self._count
        self._output += (used.output - self._output) / self._count

    @property
    def average(self) -> Tokens | None:
        """Return the average, rounded up; `None` before the first answer."""
        if not self._count:
            return None
        return Tokens(input=math.ceil(self._input), output=math.ceil(self._output))
