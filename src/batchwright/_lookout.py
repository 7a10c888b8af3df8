"""
Looking at many batches of one org for the price of few requests.

The API's rate limit counts every request to a batch endpoint, and one page of `list` shows up to
1,000 batches. So while many are watched, a page answers for all of them. Where others make batches
in the same workspace, pages begin at the newest of ours; where ours lie so thinly among theirs that
pages do not pay, single reads are used.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import anyio

from batchwright._api import CallFailed, Reply
from batchwright._clock import clock
from batchwright._org import OrgLink

#: From so many watched batches on a page is tried.
WORTH_LISTING = 8
#: Batches of one page.
PAGE = 1_000
#: A page must answer for at least so many of ours, or single reads are cheaper.
WORTH_A_PAGE = 4
#: After a listing that did not pay, so many intervals pass before the next one.
REST_INTERVALS = 20


class Lookout:
    """The one source of batch states for all watches of an org."""

    def __init__(self, org: OrgLink, interval: float) -> None:
        self._org = org
        self._interval = interval
        self._watched: dict[str, datetime] = {}
        #: Whether pages begin at our newest, since the newest of all are others'.
        self._crowded = False
        self._seen: dict[str, dict[str, Any]] = {}
        self._read_at = float("-inf")
        self._rest_until = float("-inf")
        self._lock = anyio.Lock()

    def watch(self, batch_id: str, created_at: datetime | None) -> None:
        """Count a batch in, with the time at which it was made."""
        self._watched[batch_id] = created_at or datetime.min.replace(tzinfo=UTC)

    def forget(self, batch_id: str) -> None:
        """Count a batch out."""
        self._watched.pop(batch_id, None)
        self._seen.pop(batch_id, None)

    async def look(self, batch_id: str, *, directly: bool = False) -> Reply:
        """
        Return the batch object, at most half an interval old, or fresh where *directly*.

        Raises:
            CallFailed: It could not be read.
        """
        if not directly and len(self._watched) >= WORTH_LISTING:
            data = await self._listed(batch_id)
            if data is not None:
                return Reply(data=data)
        return await self._org.call("retrieve", lambda: self._org.gateway.retrieve(batch_id))

    async def _listed(self, batch_id: str) -> dict[str, Any] | None:
        async with self._lock:
            now = clock().monotonic()
            if now - self._read_at > self._interval / 2 and now >= self._rest_until:
                await self._read(now)
            fresh = clock().monotonic() - self._read_at <= self._interval / 2
            # Each answer is used once: the next look is due at another time, and sees anew.
            return self._seen.pop(batch_id, None) if fresh else None

    async def _read(self, now: float) -> None:
        """Read pages while they pay."""
        self._seen.clear()
        missing = set(self._watched)
        cursor = self._newest(missing) if self._crowded else None
        while missing:
            try:
                reply = await self._org.call("list", self._page(cursor))
            except CallFailed:
                break
            rows = [row for row in _rows(reply) if isinstance(row.get("id"), str)]
            # Meanwhile some may have been counted out.
            missing &= self._watched.keys()
            ours = {row["id"]: row for row in rows if row["id"] in missing}
            self._seen.update(ours)
            missing -= ours.keys()
            if len(ours) < min(WORTH_A_PAGE, len(missing) + len(ours)):
                if cursor is None:
                    self._crowded = True
                    cursor = self._newest(missing)
                    continue
                self._crowded = False
                self._rest_until = now + REST_INTERVALS * self._interval
                break
            if not reply.data.get("has_more") or not rows:
                break
            cursor = rows[-1]["id"]
        self._read_at = clock().monotonic()

    def _newest(self, missing: set[str]) -> str:
        """Return the newest of the *missing*, and count it out: its page begins behind it."""
        newest = max(missing, key=self._watched.__getitem__)
        missing.discard(newest)
        return newest

    def _page(self, after: str | None) -> Callable[[], Any]:
        return lambda: self._org.gateway.list(limit=PAGE, after_id=after)


def _rows(reply: Reply) -> list[dict[str, Any]]:
    data = reply.data.get("data")
    return [row for row in data if isinstance(row, dict)] if isinstance(data, list) else []
