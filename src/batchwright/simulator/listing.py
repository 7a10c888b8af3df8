"""Pages of `GET /v1/messages/batches`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from batchwright.simulator.batches import Batch
from batchwright.simulator.problems import invalid

_DEFAULT_LIMIT = 20
_MOST = 1000


def list_page(
    newest_first: Sequence[Batch], query: Mapping[str, str], now: float, base_url: str
) -> dict[str, Any]:
    """Return one page; `has_more` is about the direction asked for.

    Raises:
        ApiProblem: 400 for a bad limit, an unknown cursor, or both cursors at once.
    """
    limit = _limit(query.get("limit"))
    after, before = query.get("after_id"), query.get("before_id")
    if after and before:
        raise invalid("Only one of `after_id` and `before_id` can be given.")
    total = len(newest_first)
    if before:
        end = _place(newest_first, "before_id", before)
        start = max(0, end - limit)
        has_more = start > 0
    else:
        start = _place(newest_first, "after_id", after) + 1 if after else 0
        end = min(total, start + limit)
        has_more = end < total
    page = [batch.public(now, base_url) for batch in newest_first[start:end]]
    return {
        "data": page,
        "has_more": has_more,
        "first_id": page[0]["id"] if page else None,
        "last_id": page[-1]["id"] if page else None,
    }


def _limit(text: str | None) -> int:
    if text is None:
        return _DEFAULT_LIMIT
    if not text.isascii() or not text.isdigit():
        raise invalid("limit: Input should be a valid integer")
    limit = int(text)
    if limit < 1:
        raise invalid("limit: Input should be greater than or equal to 1")
    if limit > _MOST:
        raise invalid(f"limit: Input should be less than or equal to {_MOST}")
    return limit


def _place(batches: Sequence[Batch], name: str, batch_id: str) -> int:
    for place, batch in enumerate(batches):
        if batch.id == batch_id:
            return place
    raise invalid(f"{name}: Message Batch {batch_id} not found.")
