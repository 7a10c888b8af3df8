"""
The rows of a page's table of what did not succeed: bounded, and each text kept once.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from batchwright.report.model import ItemReport, RunReport

#: Rows that a page holds at most.
MOST_ROWS: Final = 10_000
#: Bytes of all rows together: a page stays well below two megabytes.
MOST_BYTES: Final = 1_200_000
#: Characters of an id and of an error's message that are shown.
LONGEST: Final = 240


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One item as shown."""

    id: str
    status: str
    reason: str
    error: str
    attempts: int
    where: str


def shown(report: RunReport) -> list[Row]:
    """
    Return the rows that the page holds, in the order of the items.

    Where there are too many, each reason keeps its share, so that a rare one is not crowded out.
    """
    listed = report.not_succeeded.listed
    rows = [_row(item) for item in listed]
    if len(rows) > MOST_ROWS:
        rows = [rows[index] for index in _fair(listed, MOST_ROWS)]
    return _within(rows, MOST_BYTES)


def _row(item: ItemReport) -> Row:
    error = item.error
    return Row(
        id=_cut(item.id),
        status=item.status,
        reason=item.reason,
        error="" if error is None else _cut(f"{error.type}: {error.message}"),
        attempts=item.attempts,
        where=item.batch_id or ("direct call" if item.via == "sync" else ""),
    )


def _cut(text: str) -> str:
    return text if len(text) <= LONGEST else text[:LONGEST] + "…"


def _fair(listed: Sequence[ItemReport], most: int) -> list[int]:
    """Return which places to keep: of each reason at least an equal part of *most*."""
    quota = most // max(len({item.reason for item in listed}), 1)
    taken: Counter[str] = Counter()
    first: list[int] = []
    others: list[int] = []
    for place, item in enumerate(listed):
        taken[item.reason] += 1
        (first if taken[item.reason] <= quota else others).append(place)
    return sorted([*first, *others[: most - len(first)]])


def _within(rows: list[Row], most: int) -> list[Row]:
    """Return as many of the first rows as fit into *most* bytes."""
    size = 0
    seen: set[str] = set()
    for count, row in enumerate(rows):
        new = {row.error, row.where} - seen
        seen |= new
        # The numbers of a row take about 40; a character may be written as six.
        size += 40 + sum(len(json.dumps(text)) for text in (row.id, *new))
        if size > most:
            return rows[:count]
    return rows


def packed(rows: Sequence[Row]) -> dict[str, Any]:
    """Return the rows as a script reads them: texts once, and rows of numbers into them."""
    texts: dict[str, int] = {}

    def place(text: str) -> int:
        return texts.setdefault(text, len(texts))

    # Ids differ, all else repeats.
    table = [[row.id, *map(place, _texts(row)), row.attempts] for row in rows]
    return {"texts": list(texts), "rows": table}


def _texts(row: Row) -> tuple[str, ...]:
    """Return what repeats in a row, in the order that `page.js` reads."""
    return (row.status, row.reason, row.error, row.where)


def embedded(value: Any) -> str:
    """Return JSON that may stand inside a `script` element, whatever texts it holds."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    for mark in "<>&\u2028\u2029":
        text = text.replace(mark, f"\\u{ord(mark):04x}")
    return text


def reasons_of(report: RunReport) -> list[tuple[str, int]]:
    """Return every reason of the listed items with their number, the most frequent first."""
    counts = Counter(item.reason for item in report.not_succeeded.listed)
    return sorted(counts.items(), key=lambda pair: (-pair[1], pair[0]))
