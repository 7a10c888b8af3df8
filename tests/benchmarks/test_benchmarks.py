"""The benchmarks run, and what can be counted instead of timed holds."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from tests.benchmarks.__main__ import ROWS
from tests.benchmarks.contenders.day_of_polling import looks_of_a_day
from tests.benchmarks.questions import items
from tests.benchmarks.rows.polling import LOWEST_RPM
from tests.support import runner_on

from batchwright import ShardLimits
from batchwright.stores import sqlite
from batchwright.testing import simulate

ROOT = Path(__file__).parents[2]


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("names", ["a,b", "c,d,e,growth,disk", "f,g"])
def test_every_row_is_measured(names):
    """Each row finds its contenders, and prints its lines."""
    sizes = ["--quick", "--items", "10000"]
    argv = [sys.executable, "-m", "tests.benchmarks", *sizes, "--rows", names]
    done = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, check=True)

    told = [line.split("|")[1].strip() for line in done.stdout.splitlines() if "|" in line]
    assert set(names.split(",")) <= set(told) <= {*ROWS, "row", "-" * 8, "-" * 5}


def test_an_unknown_row_is_named():
    """A typo in the name of a row says which rows there are."""
    argv = [sys.executable, "-m", "tests.benchmarks", "--rows", "a,z"]
    done = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, check=False)

    assert done.returncode == 2
    assert "no such rows: z; there are a, b" in done.stderr


@pytest.mark.slow
@pytest.mark.parametrize("strangers", [0, 3_000])
def test_a_day_of_polling_leaves_most_of_the_limit(strangers):
    """Watching 15 batches for a day costs less than a fifth of the lowest documented limit."""
    looks = looks_of_a_day(15, strangers=strangers)

    assert 1_000 < looks.total() < LOWEST_RPM * 24 * 60 / 5


async def test_writes_follow_sub_batches_and_chunks_and_not_items(tmp_path, monkeypatch):
    """2,000 items in two sub-batches are some dozens of transactions; few wait for the disk."""
    written: Counter[str] = Counter()
    transact = sqlite.transact

    def counted(db, work, *, begin, durable=False):
        written["all"] += begin != "BEGIN"
        written["durable"] += durable
        return transact(db, work, begin=begin, durable=durable)

    monkeypatch.setattr(sqlite, "transact", counted)
    async with (
        simulate() as sim,
        runner_on(sim, tmp_path / "run.db", limits=ShardLimits(max_requests=1_000)) as runner,
    ):
        result = await runner.run(items(2_000, 200))

    assert result.complete
    # The intent and the batch's id of each sub-batch, and the paid answer of the canary.
    assert written["durable"] == 2 * 2 + 1
    assert written["all"] < 60


async def test_a_store_is_little_larger_than_what_it_holds(tmp_path):
    """A store of requests of 2 kB and their answers is at most half as large again as they are."""
    async with simulate() as sim, runner_on(sim, tmp_path / "run.db") as runner:
        result = await runner.run(items(2_000, 2_000))

    sent = sum(create.body_size for create in sim.creates)
    received = sum(len(outcome.raw) for outcome in result.outcomes)
    stored = sum(file.stat().st_size for file in tmp_path.iterdir())
    assert stored < 1.5 * (sent + received)
