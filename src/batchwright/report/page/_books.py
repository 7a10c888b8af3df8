"""
What a run cost, and how it adds up.
"""

from __future__ import annotations

from typing import Final

from batchwright.report.model import RunReport
from batchwright.report.page import _charts as charts
from batchwright.report.page import _words as words
from batchwright.report.page._html import Child, Markup, el
from batchwright.report.page._parts import TABLE_ROWS, first_of, section, table

_PATHS: Final = {"batch": "batches", "sync": "direct calls", "cache": "earlier runs"}


def cost(report: RunReport) -> Markup:
    """Return tokens and money by path and model."""
    if not report.tokens:
        return section("cost", "Cost", el("p", "No answer was paid for.", class_="muted"))
    return section("cost", "Cost", el("p", _cost_line(report)), _by_path(report), _by_model(report))


def _cost_line(report: RunReport) -> str:
    cost = report.cost
    if cost.usd is None:
        known = words.money(cost.known_usd)
        models = ", ".join(cost.unknown_models)
        return f"{known} without the answers of {models}, for which no price is known."
    line = f"All answers: {words.money(cost.usd)}"
    if report.waste:
        line += f", of it {words.money(cost.waste_usd)} for answers that came after another one"
    if cost.direct_usd is not None:
        line += f". The same answers by direct calls: {words.money(cost.direct_usd)}"
    return line + ". List prices; the bill may differ."


def _by_path(report: RunReport) -> Markup:
    paths = report.cost.by_path
    whole = sum(path.usd or 0.0 for path in paths.values())
    rows = (
        (
            _PATHS[name],
            words.number(path.answers),
            words.money(path.usd),
            _share(path.usd, whole, "direct" if name == "sync" else "succeeded"),
        )
        for name, path in paths.items()
    )
    return table("Cost by path", ("Path", "Answers", "Cost", "Share"), rows, "0110")


def _share(usd: float | None, whole: float, name: str) -> Child:
    if usd is None or not whole:
        return "unknown"
    part = usd / whole
    return el("div", el("span", f"{part:.1%}"), charts.meter(part, name), class_="share")


def _by_model(report: RunReport) -> Markup:
    heads = (
        *("Model", "Path", "Answers", "Tokens in", "Tokens out"),
        *("Cache written", "Cache read", "Cost"),
    )
    spent = [("", row) for row in report.tokens] + [(", late", row) for row in report.waste]
    rows = (
        (
            row.model or "unknown",
            _PATHS[row.via] + late,
            *map(words.number, (row.answers, row.input, row.output)),
            *map(words.number, (row.cache_write, row.cache_read)),
            words.money(row.usd),
        )
        for late, row in spent
    )
    return table("Tokens and cost by model", heads, rows, "00111111")


# -- the books ------------------------------------------------------------------------------------


def books(report: RunReport) -> Markup:
    """Return how the run adds up, what was tried again, and what should not be."""
    stopped = "; ".join(report.stopped_by)
    return section(
        "books",
        "The books",
        _evidence(report),
        _put_back(report) if report.put_back else None,
        _anomalies(report) if report.anomalies else None,
        el("p", f"Stopped by: {stopped}") if stopped else None,
    )


def _evidence(report: RunReport) -> Markup:
    rows = (
        (
            claim.claim,
            "yes" if claim.holds else el("strong", "NO"),
            words.number(claim.found),
            f"{'' if claim.relation == 'equal' else 'at most '}{claim.expected:,}",
        )
        for claim in report.evidence
    )
    return table("How they balance", ("Claim", "Holds", "Found", "Expected"), rows, "0011")


def _put_back(report: RunReport) -> Markup:
    rows = (
        (
            row.reason or "given back for the other path",
            words.number(row.after),
            words.number(row.items),
        )
        for row in report.put_back
    )
    heads = ("Why", "Tries used", "Items")
    return table("Items put back to be sent again", heads, rows, "011")


def _anomalies(report: RunReport) -> Markup:
    rows = (
        (f"#{one.shard}", one.kind, words.number(one.count), ", ".join(one.examples))
        for one in report.anomalies[:TABLE_ROWS]
    )
    heads = ("Sub-batch", "Kind", "Count", "Examples")
    caption = "What was odd about results" + first_of(len(report.anomalies))
    return table(caption, heads, rows, "0010")
