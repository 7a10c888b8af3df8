"""Limits on how much a workspace may ask for: requests per minute, and spending."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil

from batchwright.simulator._time import rfc3339
from batchwright.simulator.problems import ApiProblem, invalid

_MINUTE = 60.0
#: Shown in the headers when no limit is set: the Scale tier's.
_SHOWN_LIMIT = 4000


@dataclass(slots=True)
class TokenBucket:
    """Requests (or tokens) per minute with continuous refill, as the API's limiter works.

    Attributes:
        rpm: Units that flow in per world minute; None never refuses.
        burst: How many can be saved up; None is one minute's worth.
        what: The unit's name in headers: `requests`, `input-tokens`.
    """

    rpm: float | None
    burst: float | None
    what: str = "requests"
    _level: float = 0.0
    _seen_at: float | None = None

    def take(self, now: float, amount: float = 1) -> None:
        """Take an amount out; one above the bucket's whole size waits for a full bucket.

        Raises:
            ApiProblem: 429 `rate_limit_error` with `retry-after` in whole seconds.
        """
        if self.rpm is None:
            return
        amount = min(amount, self._refill(now))
        if self._level < amount:
            wait = max(1, ceil((amount - self._level) * _MINUTE / self.rpm))
            raise ApiProblem(
                429,
                "rate_limit_error",
                "This request would exceed your organization's rate limit of "
                f"{self.rpm:g} {self.what.replace('-', ' ')} per minute.",
                headers={"retry-after": str(wait)},
            )
        self._level -= amount

    def _refill(self, now: float) -> float:
        """Let flow in what is due; return the bucket's size."""
        assert self.rpm is not None, "no limit, no bucket"
        size = self.rpm if self.burst is None else self.burst
        if self._seen_at is None:
            self._level = size
        else:
            self._level = min(size, self._level + (now - self._seen_at) * self.rpm / _MINUTE)
        self._seen_at = now
        return size

    def headers(self, now: float) -> dict[str, str]:
        """Return the `anthropic-ratelimit-*` headers of this bucket."""
        limit = _SHOWN_LIMIT if self.rpm is None else int(self.rpm)
        left = limit if self.rpm is None or self._seen_at is None else int(self._level)
        wait = 0.0 if self.rpm is None else (limit - left) * _MINUTE / self.rpm
        return {
            f"anthropic-ratelimit-{self.what}-limit": str(limit),
            f"anthropic-ratelimit-{self.what}-remaining": str(left),
            f"anthropic-ratelimit-{self.what}-reset": rfc3339(int(now + wait))[:19] + "Z",
        }


def check_spend(spend: str | None) -> None:
    """Refuse what costs money when a spending limit is reached.

    Raises:
        ApiProblem: 429 without `retry-after` for the tier's monthly cap, 400 for the limit
            that the customer has set.
    """
    if spend == "cap":
        raise ApiProblem(
            429,
            "rate_limit_error",
            "You have reached your monthly spend limit.",
            error_code="enforced_spend_limit_reached",
        )
    if spend == "limit":
        raise invalid(
            "You have reached your specified API usage limits. You will regain access on the "
            "first day of next month."
        )


def check_queue(queued: int, new: int, most: int | None) -> None:
    """Refuse a batch that does not fit into the workspace's processing queue.

    Raises:
        ApiProblem: 429 `rate_limit_error` with `retry-after`.
    """
    if most is not None and queued + new > most:
        raise ApiProblem(
            429,
            "rate_limit_error",
            f"This batch would exceed your organization's limit of {most} batch requests in the "
            "processing queue.",
            headers={"retry-after": "60"},
        )
