"""
The charts of a page, as SVG whose places are per cent: they fit any width, and their text stays as
large as all other text.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from batchwright.report.model import PointReport, RunReport
from batchwright.report.page import _words as words
from batchwright.report.page._axis import Axis
from batchwright.report.page._html import Child, Markup, el, join
from batchwright.report.page._lanes import Bar, Kind, Lane

#: Heights in pixels; `page.css` knows those of rows too.
TOP: Final = 22
ROW: Final = 22
DENSE_ROW: Final = 8
NAME_ROW: Final = 28
BOTTOM: Final = 26
CURVE: Final = 190
#: With more sub-batches than this their rows are narrow and carry no text.
MANY: Final = 40
#: No bar is narrower, in per cent.
_THIN: Final = 0.35
#: Beyond this place the text beside a mark stands left of it.
_RIGHT: Final = 80.0
#: Most steps between the lines of the curve's scale.
_SCALE: Final = 5

CLASS_OF: Final = {
    Kind.SUCCEEDED: "succeeded",
    Kind.MIXED: "mixed",
    Kind.EXPIRED: "expired",
    Kind.CANCELED: "canceled",
    Kind.HELD: "held",
    Kind.LIVE: "live",
    Kind.UNSENT: "unsent",
    Kind.DIRECT: "direct",
}


def stack(parts: Sequence[tuple[str, int]], label: str) -> Markup:
    """Return a bar in pieces, each a class and a count; small ones stay visible."""
    total = sum(count for _, count in parts) or 1
    sizes = [max(100.0 * count / total, 0.6) if count else 0.0 for _, count in parts]
    scale = 100.0 / max(sum(sizes), 1e-9)
    pieces: list[Child] = []
    at = 0.0
    for (name, count), size in zip(parts, sizes, strict=True):
        if count:
            pieces.append(_rect(name, at, size * scale, 0, 14))
        at += size * scale
    return el("svg", *pieces, class_="stack", height=14, role="img", aria_label=label)


def meter(part: float, name: str) -> Markup:
    """Return a small bar for a share from 0 to 1; what it says stands beside it in words."""
    rect = _rect(name, 0, max(100 * part, 0.6), 0, 8) if part > 0 else None
    return el("svg", rect, class_="meter", height=8, aria_hidden="true")


# -- the timeline ---------------------------------------------------------------------------------


def is_dense(lanes: Sequence[Lane]) -> bool:
    """Tell whether there are too many rows for text beside each."""
    return sum(len(lane.bars) for lane in lanes) > MANY


def timeline(report: RunReport, lanes: Sequence[Lane], axis: Axis, told: str) -> Markup:
    """Return the sub-batches over time."""
    row = DENSE_ROW if is_dense(lanes) else ROW
    height = TOP + sum(NAME_ROW + row * len(lane.bars) for lane in lanes) + BOTTOM
    parts: list[Child] = [_grid(axis, height), _switches(report, axis, height)]
    y = TOP
    for lane in lanes:
        edge = f"{y + 0.5:g}"
        parts.append(el("line", class_="lane", x1="0%", x2="100%", y1=edge, y2=edge))
        y += NAME_ROW
        for bar in lane.bars:
            parts.append(_bar(bar, y, row))
            y += row
    return el("svg", *parts, class_="plot", height=height, role="img", aria_label=told)


def _bar(bar: Bar, y: int, row: int) -> Markup:
    thick = row - (10 if row == ROW else 2)
    top = y + (row - thick) / 2
    middle = f"{y + row / 2:g}"
    name = CLASS_OF[bar.kind]
    width = max(bar.end - bar.start, _THIN)
    start = min(bar.start, 100.0 - width)
    parts: list[Child] = [
        el("title", bar.told),
        el(
            "line",
            class_=f"reach {name}",
            x1=_percent(bar.lead),
            x2=_percent(bar.tail),
            y1=middle,
            y2=middle,
        ),
        _rect(name, start, width, top, thick),
    ]
    if bar.expires is not None:
        at = _percent(bar.expires)
        parts.append(
            el("line", class_="expiry", x1=at, x2=at, y1=f"{top - 3:g}", y2=f"{top + thick + 3:g}")
        )
    return el("g", *parts)


def _switches(report: RunReport, axis: Axis, height: int) -> Iterator[Markup]:
    for switch in report.switches:
        yield _mark(axis.at(switch.decided_at), "switch", height)


def _mark(at: float, text: str, height: int) -> Markup:
    place = _percent(at)
    left = at > _RIGHT
    return el(
        "g",
        el("line", class_="switch", x1=place, x2=place, y1=4, y2=height - BOTTOM),
        el(
            "text",
            text,
            class_="mark",
            x=place,
            y=13,
            dx=-6 if left else 6,
            text_anchor="end" if left else "start",
        ),
    )


def _grid(axis: Axis, height: int) -> Iterator[Markup]:
    """Yield the lines and the words of the time axis."""
    foot = height - BOTTOM
    for at, text in axis.ticks():
        place = _percent(at)
        anchor = "start" if at == 0 else ("end" if at > 97 else "middle")
        yield el("line", class_="tick", x1=place, x2=place, y1=TOP, y2=foot)
        yield el("text", text, class_="scale", x=place, y=height - 8, text_anchor=anchor)


# -- answers over time ----------------------------------------------------------------------------


def curve(report: RunReport, axis: Axis, told: str) -> Markup:
    """Return the answers by path over time, one area upon the other."""
    points = report.over_time
    most = max(report.items, *(point.batch + point.sync for point in points), 1)
    height = TOP + CURVE + BOTTOM
    batch = [(axis.at(point.at), point.batch) for point in points]
    both = [(axis.at(point.at), point.batch + point.sync) for point in points]
    areas = el(
        "svg",
        el("path", class_="area direct", d=_area(both, most)) if _any_sync(points) else None,
        el("path", class_="area succeeded", d=_area(batch, most)),
        x=0,
        y=TOP,
        width="100%",
        height=CURVE,
        viewBox="0 0 100 100",
        preserveAspectRatio="none",
    )
    switches = _switches(report, axis, height)
    parts = [areas, *_grid(axis, height), *_levels(most), *switches]
    return el("svg", *parts, class_="plot", height=height, role="img", aria_label=told)


def _any_sync(points: Sequence[PointReport]) -> bool:
    return any(point.sync for point in points)


def _area(points: Sequence[tuple[float, int]], most: int) -> str:
    """Return the outline of what lies below a row of steps, to the right edge."""
    parts = []
    for number, (x, count) in enumerate(points):
        y = 100.0 - 100.0 * count / most
        parts.append(f"M{x:.2f} 100V{y:.2f}" if number == 0 else f"H{x:.2f}V{y:.2f}")
    return "".join([*parts, "H100V100Z"])


def _levels(most: int) -> Iterator[Markup]:
    for level in levels(most):
        y = TOP + CURVE * (1 - level / most)
        yield el("line", class_="tick", x1="0%", x2="100%", y1=f"{y:.1f}", y2=f"{y:.1f}")
        if level:
            text = words.number(level)
            yield el("text", text, class_="scale level", x=4, y=f"{y + 12:.1f}")


def levels(most: int) -> list[int]:
    """Return round counts from 0 to *most*, and *most* itself."""
    step = next(
        size * 10**power
        for power in range(12)
        for size in (1, 2, 5)
        if most / (size * 10**power) <= _SCALE
    )
    found = list(range(0, most + 1, step))
    # The last round one would stand in the text of the whole.
    return [*(level for level in found if most - level >= 0.6 * step), most]


# -- parts ----------------------------------------------------------------------------------------


def _rect(name: str, x: float, width: float, y: float, height: float) -> Markup:
    return el(
        "rect",
        class_=name,
        x=_percent(x),
        width=_percent(width),
        y=f"{y:g}",
        height=f"{height:g}",
    )


def _percent(value: float) -> str:
    return f"{value:.2f}%"


def swatch(name: str) -> Markup:
    """Return the little square of a legend."""
    rect = el("rect", class_=name, width=12, height=12, rx=2)
    return el("svg", rect, class_="swatch", width=12, height=12, aria_hidden="true")


def key(entries: Sequence[tuple[Markup, str]]) -> Markup:
    """Return a legend."""
    return el("ul", *(el("li", join(sign, text)) for sign, text in entries), class_="key")


def line_swatch(name: str) -> Markup:
    """Return the little line of a legend."""
    line = el("line", class_=name, x1=6, x2=6, y1=0, y2=12)
    return el("svg", line, class_="swatch", width=12, height=12, aria_hidden="true")


def reach_swatch() -> Markup:
    """Return the thin line of a legend."""
    line = el("line", class_="reach unsent", x1=0, x2=12, y1=6, y2=6)
    return el("svg", line, class_="swatch", width=12, height=12, aria_hidden="true")
