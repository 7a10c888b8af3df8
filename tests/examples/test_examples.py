"""The examples run as they are, in a process of their own, against the simulated API."""

from __future__ import annotations

import ast
import asyncio
import csv
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from batchwright import BatchRunner
from batchwright.report import validate
from batchwright.simulator import Simulator, WorldSettings, errored
from batchwright.stores import SQLiteStore
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


@pytest.fixture(autouse=True)
def reports(tmp_path: Path) -> Iterator[None]:
    """Judge the report of every run that an example left behind."""
    yield
    for path in tmp_path.glob("*.db"):
        for run_id in asyncio.run(runs_in(path)):
            report = asyncio.run(BatchRunner(store=path).report(run_id))
            findings = validate(report.model_dump_json().encode())
            assert [str(finding) for finding in findings] == [], f"{run_id} in {path.name}"


async def runs_in(path: Path) -> Sequence[str]:
    """Return the names of the runs in a store."""
    store = SQLiteStore(path)
    await store.open()
    try:
        return await store.list_runs()
    finally:
        await store.close()


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
    # Slower than elsewhere: the hours of its deadline are the server's.
    with Simulator(speed=FAST / 20) as sim:
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


def facts(params: Mapping[str, Any]) -> str:
    """Answer in the schema asked for, but for one review."""
    text = params["messages"][0]["content"]
    assert params["output_config"]["format"]["schema"]["required"] == ["topic", "mood"]
    return "I cannot say." if "odd" in text else json.dumps({"topic": "legs", "mood": "annoyed"})


def test_enrich(run: Run, tmp_path: Path):
    """R9: answers stand beside the row they belong to by id, also when the table has changed."""
    rows = [("007", "One leg is short."), ("008", "Something odd."), ("9", 'He said: "{fine}".')]

    def written(rows: list[tuple[str, str]]) -> None:
        with (tmp_path / "in.csv").open("w", newline="") as file:
            csv.writer(file).writerows([("id", "body"), *rows])

    def told() -> dict[str, tuple[str, str, str, str]]:
        with (tmp_path / "out.csv").open(newline="") as file:
            return {r["id"]: (r["body"], r["topic"], r["mood"], r["problem"])
                    for r in csv.DictReader(file)}  # fmt: skip

    written(rows)
    with Simulator(speed=FAST, settings=WorldSettings(answer=facts)) as sim:
        done = run(sim, "enrich.py", "in.csv", "out.csv", "--text", "body")
        first = told()
        written([("10", "Too late."), *reversed(rows[1:])])
        again = run(sim, "enrich.py", "in.csv", "out.csv", "--text", "body")
        typo = run(sim, "enrich.py", "in.csv", "out.csv")
        assert sim.failures == []
    assert (done.returncode, again.returncode) == (3, 3), done.stderr + again.stderr
    assert first == {
        "007": (rows[0][1], "legs", "annoyed", ""),
        "008": (rows[1][1], "", "", "rejected"),
        "9": (rows[2][1], "legs", "annoyed", ""),
    }
    assert list(told()) == ["10", "9", "008"]
    assert told()["10"] == ("Too late.", "legs", "annoyed", "")
    assert [len(create.custom_ids) for create in sim.creates] == [3, 1]
    assert (typo.returncode, "no column 'text'" in typo.stderr) == (2, True)


def weekday(params: Mapping[str, Any]) -> str:
    """Answer as a model that knows weekdays, but not those of one year."""
    asked = params["messages"][0]["content"]
    day = datetime.strptime(asked.partition("was ")[2].partition("?")[0], "%B %d, %Y")
    if len(params["messages"]) == 1:
        return "It may be that day."
    assert params["messages"][1]["content"] == "It may be that day."
    return "So.\nANSWER: " + ("no idea" if day.year == 1805 else f"{day:%A}")


def test_evaluate(run: Run, tmp_path: Path):
    """Each turn is a batch; more epochs send only themselves; the log holds every sample."""
    with Simulator(speed=FAST, settings=WorldSettings(answer=weekday)) as sim:
        sim.fate_for(lambda name: name.startswith("1802-09-25_1-"), errored("api_error", "no"))
        first = run(sim, "evaluate.py", "--limit", "10")
        more = run(sim, "evaluate.py", "--limit", "10", "--epochs", "2")
        assert sim.failures == []
    assert (first.returncode, more.returncode) == (3, 3), first.stderr + more.stderr
    sizes = [len(create.custom_ids) for create in sim.creates]
    assert sizes == [10, 1, 1, 9, 10, 10]
    log = json.loads((tmp_path / "weekdays.json").read_text())
    assert log["results"]["without_answer"] == 1
    assert log["results"]["accuracy"] == 0.9
    assert "accuracy  0.900" in more.stdout
    assert len(log["samples"]) == 20
    assert [sample["correct"] for sample in log["samples"]].count(None) == 1


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.py")), ids=lambda path: path.name)
def test_examples_explain_themselves(path: Path, tmp_path: Path):
    """`--help` works without a key and without a server, and names every argument."""
    command = [sys.executable, str(path), "--help"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    # One that is written against the SDK alone has its options from the environment.
    assert ("--poll-interval SECONDS" in done.stdout) == ("Polling" in path.read_text("utf-8"))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.py")), ids=lambda path: path.name)
def test_examples_are_known(path: Path):
    """Every example says what it is, and has a test beside this one that runs it."""
    assert ast.get_docstring(ast.parse(path.read_text("utf-8")))
    tests = [test.read_text("utf-8") for test in Path(__file__).parent.glob("test_*.py")]
    assert any(f'"{path.name}"' in test for test in tests)
    page = EXAMPLES.parent / "docs" / "examples.md"
    assert f"{{literalinclude}} ../examples/{path.name}" in page.read_text("utf-8")
