"""The sync path beside the plain loop over the SDK and beside bare aiohttp."""

from __future__ import annotations

from collections.abc import Iterator

from tests.benchmarks.setting import Setting, median, ratios
from tests.benchmarks.table import Line, at_least

#: Calls under way at once.
WIDTH = 200
#: Bytes of a judge's question.
SIZE = 950
NAMES = {"direct_bare": "bare aiohttp", "direct_ours": "ours", "direct_sdk": "SDK loop"}


def measure(setting: Setting) -> Iterator[Line]:
    """Yield the rates, and ours beside both."""
    count = max(setting.items // 10, 1)
    costs = setting.turns(
        list(NAMES), script="serve_direct.py", items=count, size=SIZE, width=WIDTH
    )
    for key, name in NAMES.items():
        assert all(cost.count == count for cost in costs[key]), f"{name} lost answers"
        rate = median([count / cost.wall for cost in costs[key]])
        yield Line(row="b", what=f"answers a second, {name}", figure=f"{rate:,.0f}")
    bare, ours, sdk = (costs[key] for key in NAMES)
    yield at_least("b", "throughput, times the SDK loop's", ratios(sdk, ours, "wall"), 4.0)
    yield Line(
        row="b", what="CPU of the SDK loop, times ours", figure=f"{ratios(sdk, ours, 'cpu'):.2f}"
    )
    yield Line(
        row="b", what="CPU, times that of bare aiohttp", figure=f"{ratios(ours, bare, 'cpu'):.2f}"
    )
