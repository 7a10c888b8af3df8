"""A resume that sends a thousandth of a large run, beside its first run."""

from __future__ import annotations

from collections.abc import Iterator

from tests.benchmarks.questions import FAILING
from tests.benchmarks.setting import Setting
from tests.benchmarks.table import Line, at_most


def measure(setting: Setting) -> Iterator[Line]:
    """Yield CPU and wall of the resume, in percent of the first run."""
    count = setting.sizes[-1]
    first = setting.run_of(count)
    missing = count - first.count
    assert missing == count // FAILING, "the first run leaves the items that fail"
    again = setting.contend(
        "ours_resumed", items=count, flags=["--failing"], folder=setting.run_folder(count)
    )
    assert again.count == count, "the resume brings the rest"
    what = f"resume of {count:,} items with {missing:,} missing"
    yield at_most("c", f"{what}: CPU, of the first run's", again.cpu / first.cpu, 0.03, "{:.1%}")
    yield at_most("c", f"{what}: wall", again.wall / first.wall, 0.03, "{:.1%}")
