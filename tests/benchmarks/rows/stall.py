"""The longest time for which the event loop gave no turn to others."""

from __future__ import annotations

from collections.abc import Iterator

from tests.benchmarks.setting import Setting
from tests.benchmarks.table import Line, at_most


def measure(setting: Setting) -> Iterator[Line]:
    """Yield the longest stall at each size, and what of it was work of the loop's own thread."""
    for count in setting.sizes[1:]:
        cost = setting.run_of(count)
        own = f"longest stall at {count:,} items ({cost.busy * 1e3:.0f} ms of it our own CPU)"
        yield at_most("e", own, cost.stall * 1e3, 100, "{:.0f} ms")
