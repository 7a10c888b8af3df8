"""
A report as one page of HTML that needs nothing but itself.

The page is drawn from the report alone: its text and its charts stand in it, and a small script
filters the table of what did not succeed. Nothing is loaded from anywhere, and a policy in the page
forbids it.
"""

from __future__ import annotations

from base64 import b64encode
from hashlib import sha256
from importlib import resources
from string import Template

from batchwright.report.model import RunReport
from batchwright.report.page._axis import axis_of
from batchwright.report.page._books import books, cost
from batchwright.report.page._course import over_time, switches
from batchwright.report.page._head import footer, header, headline
from batchwright.report.page._html import Markup, el, join
from batchwright.report.page._missed import not_succeeded
from batchwright.report.page._rows import Row, embedded, packed, shown

__all__ = ["render_html"]


def render_html(report: RunReport) -> str:
    """
    Return *report* as a page of HTML, below 2 MB whatever the size of the run.

    Of very many items that did not succeed it holds some of each reason, says how many are left
    out, and which command prints them all. Prompts and answers are not in a report, nor here.
    """
    rows = shown(report)
    style, script = _asset("page.css"), _asset("page.js")
    return Template(_asset("page.html")).substitute(
        title=join(f"{report.run_id} - batchwright report"),
        policy=join(_policy(style, script)),
        style=style,
        script=script,
        body=_body(report, rows),
        data=embedded(packed(rows)),
    )


def _asset(name: str) -> str:
    return resources.files(__name__).joinpath(name).read_text("utf-8")


def _policy(style: str, script: str) -> str:
    """Return what the page may do: apply its own style, run its own script, and nothing else."""
    return "; ".join(
        (
            "default-src 'none'",
            f"style-src {_hash(style)}",
            f"script-src {_hash(script)}",
            "img-src data:",
            "base-uri 'none'",
            "form-action 'none'",
        )
    )


def _hash(text: str) -> str:
    return f"'sha256-{b64encode(sha256(text.encode()).digest()).decode()}'"


def _body(report: RunReport, rows: list[Row]) -> Markup:
    axis = axis_of(report)
    skip = el("a", "Skip to the numbers", href="#main", class_="skip")
    main = el(
        "main",
        headline(report, axis),
        over_time(report, axis),
        switches(report),
        cost(report),
        not_succeeded(report, rows),
        books(report),
        id="main",
    )
    return join(skip, header(report), main, footer(report))
