"""
The head of a page, its numbers, and its foot.
"""

from __future__ import annotations

from batchwright.report.model import RunReport, TalkingReport
from batchwright.report.page import _charts as charts
from batchwright.report.page import _words as words
from batchwright.report.page._axis import Axis
from batchwright.report.page._html import Child, Markup, el
from batchwright.report.page._parts import command, facts, section, time


def header(report: RunReport) -> Markup:
    """Return the head of the page: which run, how it stands, with whom it talked."""
    talked = "; ".join(dict.fromkeys(talk.base_url for talk in report.talking_to)) or "nobody yet"
    begun, reported = time(report.created_at), time(report.reported_at)
    more = f". Talked to {talked}. Policy {report.policy}."
    return el(
        "header",
        el("p", "Run report", class_="eyebrow"),
        el("h1", report.run_id),
        el("p", _standing(report), class_=f"standing {_tone(report)}"),
        el("p", "Begun ", begun, ", reported ", reported, more, class_="muted"),
    )


def _open(report: RunReport) -> int:
    return report.waiting + report.in_flight


def _missed(report: RunReport) -> int:
    """Return how many items ended without success."""
    return report.items - report.outcomes.get("succeeded", 0) - _open(report)


def _tone(report: RunReport) -> str:
    if _open(report) or not report.items:
        return "open"
    return "good" if report.complete else "short"


def _standing(report: RunReport) -> str:
    if not report.items:
        return "There are no items in this run."
    if still := _open(report):
        return (
            f"Not at its end: {words.items(still)} without an outcome yet "
            f"({report.in_flight:,} under way, {report.waiting:,} waiting)."
        )
    if report.complete:
        return "Complete: every item succeeded."
    return f"Finished: {_missed(report):,} of {words.items(report.items)} did not succeed."


# -- headline numbers -----------------------------------------------------------------------------


def headline(report: RunReport, axis: Axis) -> Markup:
    """Return the numbers that come first."""
    succeeded = report.outcomes.get("succeeded", 0)
    began = report.batches or report.direct is not None
    took = words.span(axis.seconds) if began else "no time"
    open_figure = _figure("No outcome yet", words.number(_open(report)), "")
    figures = [
        _figure("Items", words.number(report.items), _models(report)),
        _figure("Succeeded", words.share(succeeded, report.items), words.items(succeeded)),
        _figure("Did not succeed", words.number(_missed(report)), _blemishes(report)),
        open_figure if _open(report) else None,
        _figure("So far" if _open(report) else "Took", took, _sent(report)),
        _figure("Cost", words.money(report.cost.usd), _saved(report)),
    ]
    parts = _parts(report)
    told = ", ".join(f"{count:,} {name}" for _, name, count in parts)
    pieces = [(shade, count) for shade, _, count in parts]
    return section(
        "numbers",
        "In numbers",
        el("dl", *figures, class_="figures"),
        charts.stack(pieces, f"Outcomes of the items: {told}"),
        charts.key([(charts.swatch(shade), f"{count:,} {name}") for shade, name, count in parts]),
    )


def _parts(report: RunReport) -> list[tuple[str, str, int]]:
    """Return the shade, the name and the number of the items of each outcome, and of none."""
    counts = {name: report.outcomes.get(name, 0) for name in report.outcomes}
    parts = [
        ("succeeded", "succeeded", counts.get("succeeded", 0)),
        ("held", "quarantined", counts.get("quarantined", 0)),
        ("canceled", "rejected", counts.get("rejected", 0)),
        ("mixed", "unresolved", counts.get("unresolved", 0) - _open(report)),
    ]
    return [*parts, ("live", "without an outcome yet", _open(report))] if _open(report) else parts


def _figure(name: str, value: str, more: str) -> Markup:
    value_line, more_line = el("dd", value, class_="value"), el("dd", more, class_="more")
    return el("div", el("dt", name), value_line, more_line if more else None)


def _models(report: RunReport) -> str:
    models = list(report.asked.models)
    if len(models) == 1:
        return models[0]
    return f"{len(models)} models" if models else ""


def _blemishes(report: RunReport) -> str:
    """Return what is not whole about answers that succeeded."""
    told = []
    if report.truncated:
        told.append(f"{report.truncated:,} cut off")
    if report.refused:
        told.append(f"{report.refused:,} declined")
    return f"of the others {', '.join(told)}" if told else ""


def _sent(report: RunReport) -> str:
    batches = len(report.batches)
    told = "1 sub-batch" if batches == 1 else f"{batches:,} sub-batches"
    return told if report.waves < 2 else f"{told}, {report.waves} waves"


def _saved(report: RunReport) -> str:
    cost = report.cost
    if cost.usd is None:
        return f"{words.money(cost.known_usd)} known; no price for {', '.join(cost.unknown_models)}"
    if cost.direct_usd is None or cost.direct_usd <= cost.usd:
        return "as by direct calls" if report.tokens else ""
    return f"{words.money(cost.direct_usd - cost.usd)} less than by direct calls"


# -- the foot -------------------------------------------------------------------------------------


def footer(report: RunReport) -> Markup:
    """Return the foot of the page: what was asked, and where to read on."""
    limits, retry = report.options.limits, report.options.retry
    models = ", ".join(f"{model} ({count:,})" for model, count in report.asked.models.items())
    told: list[tuple[str, Child]] = [
        ("Store", report.options.store),
        ("Models asked", models or "none"),
        ("Sub-batches", f"at most {limits.max_requests:,} requests and {limits.max_bytes:,} bytes"),
        ("Tries", f"{report.asked.attempt_cap} for an item, {retry.call_attempts} for a call"),
        ("Talked to", ", ".join(map(_talked, report.talking_to)) or "nobody yet"),
    ]
    if report.results_kept_until is not None:
        told.append(("The API keeps results until", time(report.results_kept_until)))
    told.append(("Everything as JSON", el("code", command(report, "report"))))
    return el("footer", el("h2", "As asked"), facts(told))


def _talked(talk: TalkingReport) -> str:
    return f"{talk.base_url} as {talk.org} (API version {talk.api_version})"
