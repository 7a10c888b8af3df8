"""Where the CPU of the batch path goes, of each contender."""

from __future__ import annotations

from collections.abc import Iterator

from tests.benchmarks.setting import Setting
from tests.benchmarks.table import Line

NAMES = {"floor": "floor", "sdk": "SDK loop", "ours_parts": "ours"}


def measure(setting: Setting) -> Iterator[Line]:
    """Yield the CPU of one item by parts; telling them apart costs ours a little."""
    for key, name in NAMES.items():
        cost = setting.contend(key)
        for part, seconds in cost.parts.items():
            each = f"{seconds / setting.items * 1e6:.1f} µs"
            yield Line(row="parts", what=f"{name}: {part}", figure=each)
