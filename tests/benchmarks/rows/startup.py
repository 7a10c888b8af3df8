"""From the start of the process to the first batch: imports, and the first create."""

from __future__ import annotations

import time
from collections.abc import Iterator

from tests.benchmarks.setting import Setting, last_line, median
from tests.benchmarks.table import Line, at_most

_IMPORT = "import time; began = time.process_time(); {}; print(time.process_time() - began)"
#: Turns of each import.
TURNS = 7
#: Items of the first batch.
ITEMS = 1_000


def measure(setting: Setting) -> Iterator[Line]:
    """Yield import time beside the SDK's, and the time to the first create beside it."""
    theirs, ours = [], []
    for _ in range(1 if setting.quick else TURNS):
        theirs.append(float(last_line(["-c", _IMPORT.format("import anthropic")])))
        ours.append(float(last_line(["-c", _IMPORT.format("from batchwright import BatchRunner")])))
    ratio = median([a / b for a, b in zip(ours, theirs, strict=True)])
    yield at_most("g", "import of BatchRunner, times `import anthropic`", ratio, 1.5)
    for name in ("first_ours", "first_sdk"):
        seconds = [_to_first_batch(setting, name) for _ in range(setting.rounds)]
        what = f"start of Python to the first batch of {ITEMS:,}, {name.removeprefix('first_')}"
        yield Line(row="g", what=what, figure=f"{median(seconds):.2f} s")


def _to_first_batch(setting: Setting, name: str) -> float:
    began = time.time()
    argv = ["-m", f"tests.benchmarks.contenders.{name}", setting.server("serve.py")]
    return float(last_line([*argv, str(ITEMS), str(setting.bytes)])) - began
