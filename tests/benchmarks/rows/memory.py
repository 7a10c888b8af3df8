"""Peak memory of the client's process, and how it grows with the job."""

from __future__ import annotations

from collections.abc import Iterator

from tests.benchmarks.setting import Setting
from tests.benchmarks.table import Line, at_most


def measure(setting: Setting) -> Iterator[Line]:
    """Yield the peaks of the middle and the large size, and their ratio."""
    counts = setting.sizes[1:]
    peaks = [setting.run_of(count).peak / 1e6 for count in counts]
    for count, peak in zip(counts, peaks, strict=True):
        yield at_most("d", f"peak memory at {count:,} items", peak, 300, "{:.0f} MB")
    yield at_most("d", "growth of the peak", peaks[1] / peaks[0] - 1, 0.15, "{:.1%}")
