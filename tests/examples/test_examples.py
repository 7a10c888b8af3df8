"""The examples run as they are, in a process of their own, against the simulated API."""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from batchwright.simulator import Simulator, WorldSettings, errored
from batchwright.testing.server import FAST

EXAMPLES = Path(__file__).parents[2] / "examples"

Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """Run an example in an empty folder, talking to a simulator; polling is made fast."""

    def start(sim: Simulator, name: str, *args: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, str(EXAMPLES / name), *args, "--poll-interval", "0.05"]
        environment = {
            **os.environ,
            "ANTHROPIC_BASE_URL": sim.url,
            "ANTHROPIC_API_KEY": sim.api_key,
        }
        return subprocess.run(
            command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
        )

    return start


def verdict(params: Mapping[str, Any]) -> str:
    """Answer as a judge would, and about datetimes as one that ignores its instructions."""
    text = params["messages"][0]["content"]
    if "datetime" in text:
        return "That is a clear piece of documentation."
    return json.dumps({"score": 1 + len(text) % 5, "reason": "It says what it does."})


def test_judge(run: Run):
    """The judge prints its table, names what was rejected, and sends nothing twice."""
    with Simulator(speed=FAST, settings=WorldSettings(answer=verdict)) as sim:
        first = run(sim, "judge.py")
        sent = sum(len(create.custom_ids) for create in sim.creates)
        second = run(sim, "judge.py")
        assert sim.failures == []
    assert first.returncode == 3, first.stderr
    assert sent >= 200
    assert "score  texts" in first.stdout
    assert "datetime.datetime: rejected" in first.stdout
    assert sum(len(create.custom_ids) for create in sim.creates) == sent
    assert second.stdout == first.stdout


def test_backfill(run: Run, tmp_path: Path):
    """The backfill writes a line per row in order; with more rows, only the new ones are sent."""
    rows = [{"id": number, "text": f"Row {number}: " + "word " * 20} for number in range(1_200)]
    file = tmp_path / "rows.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows[:1_000]))
    with Simulator(speed=FAST) as sim:
        sim.fate_for("7", errored("invalid_request_error", "cannot be"))
        night = run(sim, "backfill.py", "rows.jsonl", "out.jsonl")
        file.write_text("".join(json.dumps(row) + "\n" for row in rows))
        next_night = run(sim, "backfill.py", "rows.jsonl", "out.jsonl")
        assert sim.failures == []
    assert (night.returncode, next_night.returncode) == (3, 3), night.stderr + next_night.stderr
    assert [len(create.custom_ids) for create in sim.creates] == [1_000, 200]
    lines = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()]
    assert [line["id"] for line in lines] == [str(row["id"]) for row in rows]
    assert [line["id"] for line in lines if line["status"] != "succeeded"] == ["7"]
    assert "1199 of 1200 items succeeded" in next_night.stdout


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.py")), ids=lambda path: path.name)
def test_examples_are_known(path: Path):
    """Every example says what it is, and has a test here that runs it."""
    assert ast.get_docstring(ast.parse(path.read_text("utf-8")))
    assert f'"{path.name}"' in Path(__file__).read_text("utf-8")
