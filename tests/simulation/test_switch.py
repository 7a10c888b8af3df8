"""The switch to direct calls: killed at every point, and with faults of such calls."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.simulation.faults import DIRECT
from tests.simulation.levels import play_at
from tests.simulation.sweep import run_all, singles, swarm_scenario
from tests.simulation.test_sweep import SCALE, assert_kept
from tests.simulation.world import Scenario


@pytest.mark.slow
@pytest.mark.parametrize("drain", ["progressive", "all"])
def test_killed_at_every_point_of_a_switch(drain: str):
    tally = run_all(singles(Scenario(seed=1, switch=drain)), play_one=play_at)
    assert_kept(tally)
    assert tally.crashes == tally.runs
    assert tally.events["SwitchDecided"] > 0
    assert tally.points["api.message after"] > 0
    assert tally.points["api.cancel after"] > 0


@pytest.mark.slow
def test_paused_and_succeeded_at_points_of_a_switch():
    every = list(singles(Scenario(seed=3, switch="all"), ("pause",)))
    tally = run_all(every[:: max(2 // SCALE, 1)], play_one=play_at)
    assert_kept(tally)
    assert tally.endings["locked"] > 0


@pytest.mark.slow
def test_swarms_that_switch():
    scenarios = (
        replace(
            swarm_scenario(seed),
            faults=swarm_scenario(seed).faults | DIRECT.keys(),
            switch=("progressive", "all")[seed % 2],
        )
        for seed in range(30 * SCALE)
    )
    tally = run_all(scenarios, play_one=play_at)
    assert_kept(tally)
    assert [kind for kind in DIRECT if not tally.fired[kind]] == []
