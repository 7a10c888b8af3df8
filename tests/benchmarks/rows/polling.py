"""Requests that a day of watching many live batches costs, beside the lowest rate limit."""

from __future__ import annotations

from collections.abc import Iterator

from tests.benchmarks.setting import Setting, last_line
from tests.benchmarks.table import Line, at_most

#: Batches that are watched, and where it has to be quick.
BATCHES, FEW = 200, 2
#: Requests a minute of the lowest tier that was ever documented, all batch endpoints together.
LOWEST_RPM = 50


def measure(setting: Setting) -> Iterator[Line]:
    """Yield the requests of a day on virtual time, by the library's own polling."""
    count = FEW if setting.quick else BATCHES
    argv = ["-m", "tests.benchmarks.contenders.day_of_polling", str(count)]
    alone, crowded = map(int, last_line(argv).split())
    yield Line(row="f", what=f"requests of a day, {count} live batches", figure=f"{alone:,}")
    share = alone / (LOWEST_RPM * 24 * 60)
    yield at_most("f", f"share of {LOWEST_RPM} requests a minute", share, 0.20, "{:.1%}")
    what = "the same in a workspace full of others' batches"
    yield Line(row="f", what=what, figure=f"{crowded:,}")
