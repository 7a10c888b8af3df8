"""
What the sections of a page are made of.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Final

from batchwright.report.model import RunReport
from batchwright.report.page import _words as words
from batchwright.report.page._html import Child, Markup, el

#: Rows of a table that may be long.
TABLE_ROWS: Final = 500


def section(name: str, title: str, *children: Child) -> Markup:
    """Return a section of its own name, with a heading that names it."""
    heading = el("h2", title, id=f"{name}-title")
    return el("section", heading, *children, id=name, aria_labelledby=f"{name}-title")


def table(
    caption: str, heads: Sequence[str], rows: Iterable[Sequence[Child]], numeric: str
) -> Markup:
    """
    Return a table in a region that scrolls by itself.

    The first cell of a row is its heading. *numeric* has a mark for each column: `1` is a number.
    """
    shades = ["number" if mark == "1" else None for mark in numeric]
    head = [el("th", text, scope="col", class_=c) for text, c in zip(heads, shades, strict=True)]
    body = [el("tr", *_cells(row, shades)) for row in rows]
    made = el("table", el("caption", caption), el("thead", el("tr", *head)), el("tbody", *body))
    return el("div", made, class_="scroll", tabindex=0, role="region", aria_label=caption)


def _cells(row: Sequence[Child], shades: Sequence[str | None]) -> list[Markup]:
    first, *others = zip(row, shades, strict=True)
    heading = el("th", first[0], scope="row", class_=first[1])
    return [heading, *(el("td", child, class_=shade) for child, shade in others)]


def first_of(count: int) -> str:
    """Return what to add to the caption of a table that shows at most `TABLE_ROWS` of so many."""
    return f" (the first {TABLE_ROWS:,} of {count:,})" if count > TABLE_ROWS else ""


def facts(rows: Sequence[tuple[str, Child]]) -> Markup:
    """Return names with what they stand for."""
    pairs = (el("div", el("dt", name), el("dd", value)) for name, value in rows)
    return el("dl", *pairs, class_="facts")


def time(at: datetime) -> Markup:
    """Return a moment."""
    return el("time", words.moment(at), datetime=at.astimezone(UTC).isoformat(timespec="seconds"))


def command(report: RunReport, name: str, more: str = "") -> str:
    """Return a command line for this run."""
    run_id, store = shlex.quote(report.run_id), shlex.quote(report.options.store)
    return f"batchwright {name} --run-id {run_id} --store {store} {more}".rstrip()
