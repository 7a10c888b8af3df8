"""An eval script written against the SDK, run as it is, killed, and run again."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from batchwright.simulator import Delay, Simulator, WorldSettings

SCRIPT = Path(__file__).parents[2] / "examples" / "samples.py"
IMPORT = "from batchwright import AsyncAnthropic\n"
SAMPLES = 5


def product(asked: Mapping[str, Any]) -> str:
    """Answer as a model that can multiply, but for sevens."""
    a, b = map(int, re.findall(r"\d+", asked["messages"][0]["content"]))
    return str(a * b + (a % 7 == 0))


def start(
    sim: Simulator, folder: Path, questions: int, script: Path = SCRIPT
) -> subprocess.Popen[str]:
    """Start the script in *folder*, talking to *sim*."""
    env = {
        **os.environ,
        "ANTHROPIC_BASE_URL": sim.url,
        "ANTHROPIC_API_KEY": sim.api_key,
        "BATCHWRIGHT_GATHER_QUIET": "0.5",
        "BATCHWRIGHT_MAX_REQUESTS": "1000",
        # On the simulator's clock hours pass: the default policy would probe direct calls.
        "BATCHWRIGHT_POLICY": "batch",
        "BATCHWRIGHT_POLL_INTERVAL": "0.1",
    }
    return subprocess.Popen(
        [sys.executable, str(script), "--questions", str(questions), "--samples", str(SAMPLES)],
        cwd=folder,
        env=env,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def finish(process: subprocess.Popen[str]) -> str:
    """Wait for its end; return what it printed."""
    out, err = process.communicate(timeout=120)
    assert process.returncode == 0, err
    return out


def sent(sim: Simulator) -> Counter[str]:
    """Return how often each request was sent in a batch that exists."""
    return Counter(c for create in sim.creates if create.registered for c in create.custom_ids)


def samples_of(sim: Simulator) -> Counter[str]:
    """Return how often each question was sent."""
    return Counter(custom_id.partition("-")[0] for custom_id in sent(sim))


@pytest.fixture
def world() -> Simulator:
    """A model that multiplies, on a thread of its own; a delayed create is minutes late there."""
    settings = WorldSettings(answer=product, duration=(30.0, 90.0))
    return Simulator(speed=300.0, settings=settings)


def assert_asked_once(sim: Simulator, questions: int) -> None:
    """Check on the server's books that each sample of each question was sent, and once."""
    assert set(sent(sim).values()) == {1}
    assert len(samples_of(sim)) == questions
    assert set(samples_of(sim).values()) == {SAMPLES}
    assert sim.messages == []
    assert sim.failures == []


def test_the_same_script_with_either_import(world: Simulator, tmp_path: Path):
    """Run unchanged but for the import, it prints the same; run again, it sends nothing."""
    text = SCRIPT.read_text("utf-8")
    assert re.findall("^from batchwright .*\n", text, re.MULTILINE) == [IMPORT]
    plain = tmp_path / "plain.py"
    plain.write_text(text.replace(IMPORT, "from anthropic import AsyncAnthropic\n"))
    with world as sim:
        batched = finish(start(sim, tmp_path, 100))
        assert_asked_once(sim, 100)
        creates = len(sim.creates)
        again = finish(start(sim, tmp_path, 100))
        assert len(sim.creates) == creates
        assert sim.messages == []
        direct = finish(start(sim, tmp_path, 100, plain))
        assert len(sim.messages) == 100 * SAMPLES
    assert again == batched == direct


def test_killed_and_run_again(world: Simulator, tmp_path: Path):
    """R11: 5,000 calls at once, killed while they are sent: the rerun sends what is missing."""
    with world as sim:
        # The first two of five batches go through; the others are on their way for a while.
        sim.on("create", [None, None, Delay(1.0), Delay(1.0), Delay(1.0)])
        process = start(sim, tmp_path, 1_000)
        while sum(create.registered for create in sim.creates) < 2:
            assert process.poll() is None, process.communicate()
            time.sleep(0.01)
        process.send_signal(signal.SIGKILL)
        process.communicate()
        assert process.returncode == -signal.SIGKILL
        out = finish(start(sim, tmp_path, 1_000))
        assert_asked_once(sim, 1_000)
    counts = {int(right): int(n) for right, n in map(str.split, out.splitlines()[1:])}
    assert counts.keys() == {0, SAMPLES}
    assert sum(counts.values()) == 1_000
