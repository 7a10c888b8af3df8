"""The same scenario is the same run, in this process and in any other."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.simulation.levels import play_at
from tests.simulation.sweep import swarm_scenario

ROOT = Path(__file__).resolve().parents[2]
SEEDS = (1, 4, 9, 13)


def test_twice_in_one_process():
    for seed in SEEDS:
        first, second = (play_at(swarm_scenario(seed)).world.history for _ in range(2))
        assert first.text() == second.text()


def test_the_store_makes_no_difference():
    scenario = swarm_scenario(4)
    digests = {
        play_at(type(scenario)(seed=4, crash=(33,), store=store)).world.history.digest()
        for store in ("memory", "sqlite")
    }
    assert len(digests) == 1


@pytest.mark.parametrize("hashes", ["1", "77"])
def test_in_another_process_with_other_hashes(hashes: str):
    script = (
        "from tests.simulation.levels import play_at\n"
        "from tests.simulation.sweep import swarm_scenario\n"
        f"for seed in {SEEDS}:\n"
        "    print(play_at(swarm_scenario(seed)).world.history.digest())\n"
    )
    env = {**os.environ, "PYTHONHASHSEED": hashes}
    done = subprocess.run(
        [sys.executable, "-c", script],
        cwd=ROOT,
        env=env,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    here = [play_at(swarm_scenario(seed)).world.history.digest() for seed in SEEDS]
    assert done.stdout.split() == here
