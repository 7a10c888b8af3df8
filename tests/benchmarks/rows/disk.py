"""Bytes on disk for one item, beside the bytes that were sent and received for it."""

from __future__ import annotations

from collections.abc import Iterator

import orjson
from tests.benchmarks.questions import items
from tests.benchmarks.setting import Setting
from tests.benchmarks.table import Line


def measure(setting: Setting) -> Iterator[Line]:
    """Yield them."""
    count = setting.sizes[1]
    _, body = next(items(1, setting.bytes))
    sent = len(orjson.dumps(body))
    stored = setting.run_of(count).disk / count
    what = f"bytes on disk for an item of {sent:,} bytes and its answer"
    yield Line(row="disk", what=what, figure=f"{stored:,.0f}")
