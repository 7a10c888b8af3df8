"""The batch path, end to end over HTTP, beside a floor and beside the plain loop over the SDK."""

from __future__ import annotations

from collections.abc import Iterator

from tests.benchmarks.setting import Setting, median, ratios
from tests.benchmarks.table import Line, at_least, at_most


def measure(setting: Setting) -> Iterator[Line]:
    """Yield CPU and wall beside both."""
    costs = setting.turns(["floor", "ours", "sdk"])
    floor, ours, sdk = costs["floor"], costs["ours"], costs["sdk"]
    for name, of in costs.items():
        assert all(cost.count == setting.items for cost in of), f"{name} lost answers"
        each = median([cost.cpu for cost in of]) / setting.items * 1e6
        yield Line(row="a", what=f"CPU for one item, {name}", figure=f"{each:.0f} µs")
    yield at_most("a", "CPU, times that of the floor", ratios(ours, floor, "cpu"), 2.0)
    yield at_least("a", "CPU of the SDK loop, times ours", ratios(sdk, ours, "cpu"), 5.0)
    best = f"{ratios(sdk, floor, 'cpu'):.2f}"
    yield Line(row="a", what="CPU of the SDK loop, times the floor's", figure=best)
    for name, others in (("floor", floor), ("SDK loop", sdk)):
        figure = f"{ratios(ours, others, 'wall'):.2f}"
        yield Line(row="a", what=f"wall, times that of the {name}", figure=figure)
