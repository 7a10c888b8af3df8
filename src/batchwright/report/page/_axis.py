"""
The time axis that the charts of a page share.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from batchwright.report.model import RunReport

#: Steps between two ticks, in seconds, with the unit they are told in: what people count time in.
_STEPS: Final = tuple(
    (count * size, size, word)
    for size, word, counts in (
        (1, "s", (1, 2, 5, 10, 15, 30)),
        (60, "min", (1, 2, 5, 10, 15)),
        (3_600, "h", (0.5, 1, 2, 3, 6, 12)),
        (86_400, "d", (1, 2, 7, 14, 28)),
    )
    for count in counts
)
#: Most ticks on an axis.
_TICKS: Final = 7


@dataclass(frozen=True, slots=True, kw_only=True)
class Axis:
    """A stretch of time. `start` and `seconds` are all of it."""

    start: datetime
    seconds: float

    def at(self, when: datetime) -> float:
        """Return where a moment lies, in per cent; what lies outside is put at the edge."""
        part = (when - self.start).total_seconds() / self.seconds
        return 100.0 * min(max(part, 0.0), 1.0)

    def holds(self, when: datetime) -> bool:
        """Tell whether a moment lies on the axis."""
        return 0.0 <= (when - self.start).total_seconds() <= self.seconds

    def ticks(self) -> list[tuple[float, str]]:
        """Return places in per cent with the time since the start."""
        fitting = (one for one in _STEPS if self.seconds / one[0] <= _TICKS)
        step, size, word = next(fitting, (self.seconds / _TICKS, 86_400, "d"))
        places = [n * step for n in range(int(self.seconds / step) + 1)]
        return [
            (100.0 * at / self.seconds, f"{at / size:.3g} {word}" if at else "0") for at in places
        ]


def axis_of(report: RunReport) -> Axis:
    """Return the stretch from the first thing sent to the last thing read, or to the report."""
    starts = list(_starts(report)) or [report.created_at]
    start = min(starts)
    end = max([start, *_ends(report)])
    return Axis(start=start, seconds=max((end - start) / timedelta(seconds=1), 1.0))


def _starts(report: RunReport) -> Iterator[datetime]:
    # What this machine's clock says, unlike the server's, counts only where nothing else does.
    sent = [batch.sent_at or batch.created_at for batch in report.batches]
    if any(sent):
        yield from (at for at in sent if at is not None)
        return
    yield from (batch.planned_at for batch in report.batches)
    if report.direct is not None and report.direct.first_at is not None:
        yield report.direct.first_at


def _ends(report: RunReport) -> Iterator[datetime]:
    for batch in report.batches:
        yield from (at for at in (batch.created_at, batch.ended_at, batch.done_at) if at)
        if batch.state in {"live", "sending"}:
            yield report.reported_at
    yield from (switch.decided_at for switch in report.switches)
    yield from (point.at for point in report.over_time)
    direct = report.direct
    if direct is not None:
        at = direct.last_at if not report.in_flight else report.reported_at
        yield from [at] if at is not None else []
