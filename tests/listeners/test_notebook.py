"""Progress in a notebook, in a real kernel against a simulated API."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from batchwright.simulator import Simulator

KERNEL = Path(__file__).with_name("kernel.py")

SETUP = """
import batchwright
from batchwright import BatchRunner, Polling, RetryBudget, show_progress

def asked(*numbers, **more):
    messages = [{"role": "user", "content": "a question"}]
    params = {"model": "claude-haiku-5-5", "max_tokens": 9, "messages": messages, **more}
    return [(f"doc-{n}", params) for n in numbers]

options = {"polling": Polling(interval=0.05), "retry": RetryBudget(backoff=0.01)}
runner = BatchRunner(store="nb.db", on_event=show_progress(), **options)
"""


@pytest.fixture
def api() -> Iterator[Simulator]:
    """A simulated API on a thread of its own."""
    with Simulator(speed=6_000.0) as simulator:
        yield simulator


def run_cells(api: Simulator, folder: Path, *cells: str) -> list[dict[str, Any]]:
    """Run cells one after another and return what they showed."""
    environment = {
        "ANTHROPIC_BASE_URL": api.url,
        "ANTHROPIC_API_KEY": api.api_key,
        "IPYTHONDIR": str(folder / "ipython"),
    }
    setup = f"import os\nos.environ.update({environment!r})\nos.chdir({str(folder)!r})\n{SETUP}"
    done = subprocess.run(
        [sys.executable, str(KERNEL)],
        input=json.dumps([setup, *cells]),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def kinds(messages: list[dict[str, Any]], cell: int) -> list[str]:
    """Return the kinds of messages of a cell, without those that repeat."""
    told = [message["kind"] for message in messages if message["cell"] == cell]
    return [kind for number, kind in enumerate(told) if kind not in told[:number]]


def test_a_cell_shows_one_display_that_is_updated(api: Simulator, tmp_path: Path) -> None:
    """There is one display below the cell, it ends with what became of all, and nothing floods."""
    messages = run_cells(
        api,
        tmp_path,
        "run = await runner.run(asked(*range(30)))",
        "print(run.summary())",
        "run = await runner.run(asked(*range(30)))",
    )
    assert kinds(messages, 1) == ["display_data", "update_display_data"]
    shown = [m for m in messages if m["cell"] == 1]
    assert sum(m["kind"] == "display_data" for m in shown) == 1
    assert len({m["transient"]["display_id"] for m in shown}) == 1
    last = shown[-1]["data"]
    assert "100% of 30 items" in last["text/html"]
    assert "30 succeeded" in last["text/plain"]
    assert api.url in last["text/html"]
    # The second call has a display of its own, and nothing to send.
    again = [m for m in messages if m["cell"] == 3]
    assert again[0]["kind"] == "display_data"
    assert again[0]["transient"] != shown[0]["transient"]
    assert len(api.creates) == 1


def test_warnings_stand_in_the_display_and_not_below_the_cell(
    api: Simulator, tmp_path: Path
) -> None:
    """What the log would print goes into the display; an id cannot break out of it."""
    api.world.configure(keys={"sk-ant-right": "default"})
    messages = run_cells(api, tmp_path, "run = await runner.run(asked(1), run_id='<b>x</b>')")
    assert "stream" not in kinds(messages, 1)
    last = [m for m in messages if m["cell"] == 1][-1]["data"]["text/html"]
    assert "is stopped, nothing more is sent" in last
    assert "<b>" not in last
    assert "&lt;b&gt;x" in last


def test_a_call_that_failed_leaves_room_for_the_next_one(api: Simulator, tmp_path: Path) -> None:
    """After an error the next call gets a display in its own cell."""
    messages = run_cells(
        api,
        tmp_path,
        "run = await runner.run(asked(1, 1))",
        "run = await runner.run(asked(1, 2))",
        "batchwright.run(asked(1))",
    )
    assert kinds(messages, 1)[-1] == "error"
    assert kinds(messages, 2)[0] == "display_data"
    (error,) = [m for m in messages if m["cell"] == 3]
    assert error["ename"] == "ConfigurationError"
    assert "await batchwright.BatchRunner" in error["evalue"]


def test_without_a_kernel_there_is_no_notebook(monkeypatch: pytest.MonkeyPatch) -> None:
    """A plain IPython shell, and a process without IPython, get lines or a terminal's display."""
    from batchwright.listeners._notebook import in_notebook

    monkeypatch.delitem(sys.modules, "IPython", raising=False)
    assert not in_notebook()


def test_a_library_that_is_only_listened_to_needs_no_rich() -> None:
    """Progress for notebooks and logs is there without the extra `cli`."""
    code = (
        "import sys; sys.modules['rich'] = None\n"
        "import io, batchwright\n"
        "batchwright.show_progress(io.StringIO())"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
