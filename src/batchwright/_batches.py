"""
Reading a batch object, whatever this server put into it: pure.

The terminal test is `processing_status == "ended"` alone; counts before the end say nothing. A
status this version does not know is waited out, and results that have an address are read.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

KNOWN_STATUSES = frozenset({"in_progress", "canceling", "ended"})
COUNTS = ("processing", "succeeded", "errored", "canceled", "expired")

#: The API's processing window, where a batch does not name its own end.
WINDOW = timedelta(hours=24)


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchObject:
    """The fields of a `message_batch` that decide something."""

    id: str
    status: str
    created_at: datetime | None
    expires_at: datetime | None
    ended_at: datetime | None
    cancel_initiated_at: datetime | None
    archived_at: datetime | None
    results_url: str | None
    counts: Mapping[str, int]

    @property
    def ended(self) -> bool:
        """Whether the server has finished with it, also under a status not known here."""
        if self.status == "ended":
            return True
        unknown = self.status not in KNOWN_STATUSES
        return unknown and (self.ended_at is not None or self.results_url is not None)

    @property
    def total(self) -> int:
        """How many requests it holds: the five counts always sum to it."""
        return sum(self.counts.values())


def read_batch(data: Mapping[str, Any]) -> BatchObject | None:
    """Return the batch that *data* describes, or `None` where it describes none."""
    batch_id, status = data.get("id"), data.get("processing_status")
    if not isinstance(batch_id, str) or not batch_id or not isinstance(status, str):
        return None
    counts = data.get("request_counts")
    numbers = counts if isinstance(counts, dict) else {}
    url = data.get("results_url")
    return BatchObject(
        id=batch_id,
        status=status,
        created_at=read_time(data.get("created_at")),
        expires_at=read_time(data.get("expires_at")),
        ended_at=read_time(data.get("ended_at")),
        cancel_initiated_at=read_time(data.get("cancel_initiated_at")),
        archived_at=read_time(data.get("archived_at")),
        results_url=url if isinstance(url, str) else None,
        counts={key: n for key in COUNTS if isinstance(n := numbers.get(key), int)},
    )


def read_time(value: Any) -> datetime | None:
    """Return an RFC 3339 time as aware UTC; the API writes both `Z` and `+00:00`."""
    if not isinstance(value, str):
        return None
    try:
        time = datetime.fromisoformat(value)
        return time.replace(tzinfo=UTC) if time.tzinfo is None else time.astimezone(UTC)
    except (ValueError, OverflowError):
        return None


def deadline_of(expires_at: datetime | None, created_at: datetime, grace: float) -> datetime:
    """Return when a batch is given up: its own expiry (or 24 h after its creation) plus grace."""
    end = expires_at if expires_at is not None else created_at + WINDOW
    try:
        # An absurd grace must not overflow the calendar, nor an absurd expiry.
        return end + timedelta(seconds=min(grace, 3.0e8))
    except OverflowError:
        return end


def oldest(batches: Iterable[BatchObject]) -> datetime | None:
    """Return the earliest creation time among *batches*."""
    times = [batch.created_at for batch in batches if batch.created_at is not None]
    return min(times, default=None)
