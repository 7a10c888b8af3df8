"""
What did not succeed: a table with a filter.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from batchwright.report.model import RunReport
from batchwright.report.page import _words as words
from batchwright.report.page._html import Markup, el
from batchwright.report.page._parts import command, section, table
from batchwright.report.page._rows import Row, reasons_of

#: Rows that stand in the page itself; the script adds the others.
FIRST_ROWS: Final = 100
_TITLE: Final = "What did not succeed"


def not_succeeded(report: RunReport, rows: Sequence[Row]) -> Markup:
    """Return the table of what did not succeed, with its filter."""
    if not report.not_succeeded.total:
        nothing = "Nothing: every item has its answer." if report.items else "There was nothing."
        return section("missed", _TITLE, el("p", nothing, class_="muted"))
    first = rows[:FIRST_ROWS]
    told = f"{len(first):,} of {len(rows):,} shown"
    return section(
        "missed",
        _TITLE,
        _filter(report),
        el("p", told, id="shown", role="status"),
        _table(first),
        el("p", el("button", "Show more", type="button", id="more", hidden=True)),
        _not_here(report, len(rows)),
    )


def _filter(report: RunReport) -> Markup:
    """Return the two fields of the filter, hidden until the script is there to use them."""
    listed = len(report.not_succeeded.listed)
    reasons = [(f"{reason} ({count:,})", reason) for reason, count in reasons_of(report)]
    options = [
        el("option", text, value=value) for text, value in [(f"all ({listed:,})", ""), *reasons]
    ]
    search = el(
        "input",
        type="search",
        id="text",
        autocomplete="off",
        spellcheck="false",
        placeholder="id, error or batch",
    )
    return el(
        "div",
        el("p", el("label", "Search", for_="text"), search),
        el("p", el("label", "Reason", for_="reason"), el("select", *options, id="reason")),
        role="search",
        aria_label="Items that did not succeed",
        class_="filter",
        id="filter",
        hidden=True,
    )


def _table(rows: Sequence[Row]) -> Markup:
    heads = ("Item", "Outcome", "Reason", "Error", "Tries", "Where")
    told = (
        (
            el("code", row.id),
            row.status,
            row.reason,
            row.error,
            words.number(row.attempts),
            el("code", row.where),
        )
        for row in rows
    )
    return table("Items that did not succeed", heads, told, "000010")


def _not_here(report: RunReport, count: int) -> Markup | None:
    left = report.not_succeeded.total - count
    if left <= 0:
        return None
    return el(
        "p",
        f"{words.items(left)} more are not in this page. All of them, with their errors: ",
        el("code", command(report, "export", "--out all.jsonl --partial")),
        class_="muted",
    )
