"""
The options a caller may turn, as small frozen values that check themselves.

All durations are seconds, all sizes bytes.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, cast

from batchwright.errors import ConfigurationError

if TYPE_CHECKING:
    from anthropic import AsyncAnthropic

#: The API takes 1 to 100,000 requests in one batch.
API_MAX_REQUESTS = 100_000
#: The API refuses bodies above 256 MB; whether decimal or binary is not documented, so the
#: library stays at 250,000,000 bytes and never above.
API_MAX_BYTES = 250_000_000
#: The Messages API refuses bodies above 32 MB.
API_MAX_MESSAGE_BYTES = 32_000_000


def _whole(name: str, value: object, low: int, high: int | None = None) -> None:
    """Refuse *value* unless it is a whole number in [low, high]."""
    fits = isinstance(value, int) and not isinstance(value, bool) and value >= low
    if not fits or (high is not None and isinstance(value, int) and value > high):
        span = f"from {low} to {high:,}" if high is not None else f"of at least {low}"
        raise ConfigurationError(f"{name} must be a whole number {span}, not {value!r}")


def _positive(name: str, value: object, *, zero: bool = False) -> None:
    """Refuse *value* unless it is a finite number above zero (or zero where allowed)."""
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if number and math.isfinite(value) and (value > 0 or (zero and value == 0)):  # type: ignore[arg-type, operator]
        return
    least = "zero or more" if zero else "above zero"
    raise ConfigurationError(f"{name} must be a number of seconds {least}, not {value!r}")


@dataclass(frozen=True, slots=True)
class ShardLimits:
    """
    How items are cut into sub-batches.

    Attributes:
        max_requests: Most requests in one sub-batch (the API takes 100,000).
        max_bytes: Largest request body in bytes (the API refuses above 256 MB).
        max_live: Most batches alive at once; `None` leaves it to the API's queue.
        concurrency: Most uploads at once.
    """

    max_requests: int = 8_000
    max_bytes: int = API_MAX_BYTES
    max_live: int | None = None
    concurrency: int = 8

    def __post_init__(self) -> None:
        _whole("max_requests", self.max_requests, 1, API_MAX_REQUESTS)
        _whole("max_bytes", self.max_bytes, 1, API_MAX_BYTES)
        _whole("concurrency", self.concurrency, 1)
        if self.max_live is not None:
            _whole("max_live", self.max_live, 1)


@dataclass(frozen=True, slots=True)
class Polling:
    """
    How often a batch is looked at, and how long it may take.

    Attributes:
        interval: Seconds between two looks at one batch, reached by growing from the server's
            own hint (10 s). A smaller interval than the hint is taken at its word.
        grace: Seconds after the batch's `expires_at` before it is given up.
    """

    interval: float = 60.0
    grace: float = 1_800.0

    def __post_init__(self) -> None:
        _positive("poll interval", self.interval)
        _positive("grace", self.grace, zero=True)


@dataclass(frozen=True, slots=True)
class Gathering:
    """
    When calls that were gathered leave together; see `AsyncAnthropic`.

    Attributes:
        size: So many calls leave at once.
        quiet: Seconds without a further call after which the others leave.
        longest: Seconds after which the first call leaves, whatever comes.
    """

    size: int = 8_000
    quiet: float = 2.0
    longest: float = 60.0

    def __post_init__(self) -> None:
        _whole("gather size", self.size, 1, API_MAX_REQUESTS)
        _positive("gather quiet", self.quiet, zero=True)
        _positive("gather longest", self.longest, zero=True)


@dataclass(frozen=True, slots=True)
class RetryBudget:
    """
    How often things are tried.

    Attributes:
        max_attempts: Tries of one item over all waves, paths and restarts; at least 1.
        call_attempts: Tries of one API call; at least 1.
        backoff: First wait between two tries, seconds; doubles, jittered.
        max_backoff: Longest such wait, seconds. A `retry-after` of the server counts beyond it.
    """

    max_attempts: int = 3
    call_attempts: int = 5
    backoff: float = 1.0
    max_backoff: float = 60.0

    def __post_init__(self) -> None:
        _whole("max_attempts", self.max_attempts, 1)
        _whole("call_attempts", self.call_attempts, 1)
        _positive("backoff", self.backoff, zero=True)
        _positive("max_backoff", self.max_backoff, zero=True)


@dataclass(frozen=True, slots=True)
class SyncLimits:
    """
    Bounds of the sync worker pool, per org.

    Attributes:
        concurrency: Most direct calls at once.
        max_bytes: Largest request sent directly (the Messages API refuses above 32 MB).
        rpm: Requests a minute; `None` follows the rate-limit headers.
    """

    concurrency: int = 64
    max_bytes: int = 32_000_000
    rpm: int | None = None

    def __post_init__(self) -> None:
        _whole("sync concurrency", self.concurrency, 1)
        _whole("sync max_bytes", self.max_bytes, 1, API_MAX_MESSAGE_BYTES)
        if self.rpm is not None:
            _whole("sync rpm", self.rpm, 1)


@dataclass(frozen=True, slots=True)
class Org:
    """
    One account: a label and the SDK client that carries its credential.

    The store remembers the label, the base URL and the organization and workspace ids of the
    response headers, never the key.

    Attributes:
        label: Short name, unique among the orgs of a runner; it stands in logs and reports.
        client: An `anthropic.AsyncAnthropic`. Its own retries are turned off for our calls.
        max_queued: Most requests inside live batches of this org; `None` learns it.
        rpm: Batch API requests a minute for this org; `None` follows the response headers.
    """

    label: str
    client: AsyncAnthropic = field(repr=False)
    max_queued: int | None = field(default=None, kw_only=True)
    rpm: int | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        label: Any = self.label
        if not isinstance(label, str) or not label.strip():
            raise ConfigurationError(f"an Org needs a label of at least one letter, not {label!r}")
        if self.max_queued is not None:
            _whole("max_queued", self.max_queued, 1)
        if self.rpm is not None:
            _whole("rpm", self.rpm, 1)


def check_orgs(orgs: Sequence[Org]) -> None:
    """
    Refuse an empty list, strangers in it, and labels that do not differ.

    Raises:
        ConfigurationError: The message says which.
    """
    if not orgs:
        raise ConfigurationError("orgs is empty; give at least one Org, or leave it out")
    for org in orgs:
        if not isinstance(cast("object", org), Org):
            raise ConfigurationError(f"orgs must hold Org(label, client) values, not {org!r}")
    labels = [org.label for org in orgs]
    if len(set(labels)) < len(labels):
        raise ConfigurationError(f"the labels of orgs must differ: {labels}")
