"""
How a run went over time, and the switch in it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from batchwright.report.model import BatchReport, ProjectionReport, RunReport, SwitchReport
from batchwright.report.page import _charts as charts
from batchwright.report.page import _words as words
from batchwright.report.page._axis import Axis
from batchwright.report.page._html import Child, Markup, el, join
from batchwright.report.page._lanes import DRAWN, Lane, kind_of, kinds_in, lanes_of, note_of
from batchwright.report.page._parts import (
    TABLE_ROWS,
    command,
    facts,
    first_of,
    section,
    table,
    time,
)


def over_time(report: RunReport, axis: Axis) -> Markup:
    """Return the two charts that share a time axis."""
    lanes = lanes_of(report, axis)
    if not lanes:
        return section("time", "Over time", el("p", "Nothing was sent yet.", class_="muted"))
    return section(
        "time",
        "Over time",
        el("p", "Time since ", time(axis.start), ".", class_="muted"),
        el("h3", "Sub-batches"),
        _legend(report, lanes),
        _timeline(report, lanes, axis),
        _left_out(report),
        el(
            "details",
            el("summary", "The sub-batches as a table"),
            _batch_table(report),
        ),
        *_curve(report, axis),
    )


def _legend(report: RunReport, lanes: list[Lane]) -> Markup:
    keys = [(charts.swatch(charts.CLASS_OF[kind]), kind.value) for kind in kinds_in(lanes)]
    bars = [bar for lane in lanes for bar in lane.bars]
    if any(bar.start - bar.lead > 1 or bar.tail - bar.end > 1 for bar in bars):
        keys.append((charts.reach_swatch(), "being sent, being read"))
    if any(bar.expires is not None for bar in bars):
        keys.append((charts.line_swatch("expiry"), "expires here"))
    if report.switches:
        keys.append((charts.line_swatch("switch"), "switch to direct calls"))
    return charts.key(keys)


def _timeline(report: RunReport, lanes: list[Lane], axis: Axis) -> Markup:
    dense = " dense" if charts.is_dense(lanes) else ""
    labels: list[Markup] = []
    notes: list[Markup] = []
    for lane in lanes:
        labels.append(el("li", lane.name, class_="name"))
        notes.append(el("li", class_="name"))
        labels += [el("li", bar.label) for bar in lane.bars]
        notes += [el("li", bar.note) for bar in lane.bars]
    count = sum(len(lane.bars) for lane in lanes)
    told = f"{count} bars over {words.span(axis.seconds)}; the table below says the same in words"
    return el(
        "div",
        # What the chart shows stands in the table, so these are for the eye alone.
        el("ul", *labels, class_="labels", aria_hidden="true"),
        charts.timeline(report, lanes, axis, f"Timeline of the sub-batches: {told}"),
        el("ul", *notes, class_="notes", aria_hidden="true"),
        class_=f"chart{dense}",
    )


def _left_out(report: RunReport) -> Markup | None:
    left = len(report.batches) - DRAWN
    if left <= 0:
        return None
    told = f"{left:,} more sub-batches are not drawn; the report has them all: "
    return el("p", told, el("code", command(report, "report")), class_="muted")


def _batch_table(report: RunReport) -> Markup:
    heads = ("Sub-batch", "Org", "Batch", "Items", "Sent", "Took", "Looks", "What became of it")
    rows = (_batch_row(batch) for batch in report.batches[:TABLE_ROWS])
    return table("Sub-batches" + first_of(len(report.batches)), heads, rows, "00010110")


def _batch_row(batch: BatchReport) -> Sequence[Child]:
    sent = batch.created_at or batch.sent_at
    took = (batch.ended_at - sent).total_seconds() if batch.ended_at and sent else None
    return (
        f"#{batch.shard}",
        batch.org,
        el("code", batch.batch_id) if batch.batch_id else "none",
        words.number(batch.count),
        time(sent) if sent else "not yet",
        words.span(max(took, 0.0)) if took is not None else "",
        words.number(batch.polls),
        _became(batch),
    )


def _became(batch: BatchReport) -> str:
    kind, note = kind_of(batch).value, note_of(batch)
    return note if kind in note else f"{kind}: {note}"


def _curve(report: RunReport, axis: Axis) -> Iterator[Markup]:
    points = report.over_time
    if not points:
        return
    last = points[-1]
    keys = [(charts.swatch("succeeded"), f"by batches ({last.batch:,})")]
    if last.sync:
        keys.append((charts.swatch("direct"), f"by direct calls ({last.sync:,})"))
    told = (
        f"Answers over time: {last.batch + last.sync:,} of {report.items:,} after "
        f"{words.span(axis.seconds)}; the table below has the steps"
    )
    rows = (
        (
            words.span(max((point.at - axis.start).total_seconds(), 0.0)),
            words.number(point.batch),
            words.number(point.sync),
        )
        for point in points
    )
    yield el("h3", "Answers")
    yield charts.key(keys)
    yield el(
        "div",
        el("span", class_="labels"),
        charts.curve(report, axis, told),
        el("span", class_="notes"),
        class_="chart",
    )
    yield el(
        "details",
        el("summary", "The answers as a table"),
        table("Answers up to each moment", ("After", "By batches", "By direct calls"), rows, "011"),
    )


def switches(report: RunReport) -> Markup | None:
    """Return why and on which terms a wave was moved to direct calls."""
    if not report.switches:
        return None
    return section("switch", "The switch to direct calls", *map(_switch, report.switches))


def _switch(switch: SwitchReport) -> Markup:
    part = "all of them" if switch.share >= 1 else f"{switch.share:.0%} of them"
    told: list[tuple[str, Child]] = [
        ("Decided", join(time(switch.decided_at), f", in wave {switch.wave}")),
        ("Because", switch.reason),
        ("Moved", f"{words.items(switch.remaining)} without an outcome, {part}"),
        ("Batches then", f"{switch.live:,} on the server, {switch.ended:,} had ended"),
        ("By batches", _projection(switch.batch_finish)),
        ("By direct calls", _projection(switch.sync_finish)),
        ("Extra cost", f"{words.money(switch.premium)}, as estimated then"),
    ]
    return facts(told)


def _projection(told: ProjectionReport) -> str:
    if told.likely is None:
        return f"unknown ({told.source})"
    between = ""
    if told.low is not None and told.high is not None:
        between = f", between {words.span(told.low)} and {words.span(told.high)}"
    return f"{words.span(told.likely)} more{between} ({told.source})"
