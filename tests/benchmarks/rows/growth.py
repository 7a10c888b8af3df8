"""What one item costs at three sizes of a job: it is to be the same."""

from __future__ import annotations

from collections.abc import Iterator

from tests.benchmarks.setting import Setting
from tests.benchmarks.table import Line


def measure(setting: Setting) -> Iterator[Line]:
    """Yield CPU and wall of one item at each size."""
    for count in setting.sizes:
        cost = setting.run_of(count)
        cpu, wall = cost.cpu / count * 1e6, cost.wall / count * 1e6
        what = f"one of {count:,} items: CPU, wall"
        yield Line(row="growth", what=what, figure=f"{cpu:.0f} µs, {wall:.0f} µs")
