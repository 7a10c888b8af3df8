"""The same promises where several processes work on one run, crash points in any of them."""

from __future__ import annotations

import pytest
from tests.simulation.levels import play_at
from tests.simulation.sweep import crew_scenario, run_all, singles
from tests.simulation.test_sweep import SCALE, assert_kept
from tests.simulation.world import Scenario


@pytest.mark.slow
def test_one_of_two_killed_at_points():
    every = list(singles(Scenario(seed=0, workers=2), play_one=play_at))
    tally = run_all(every[:: max(2 // SCALE, 1)], play_one=play_at)
    assert_kept(tally)
    assert tally.vacuous == 0
    assert tally.endings["killed"] == tally.runs


@pytest.mark.slow
@pytest.mark.parametrize("act", ["cancel", "error", "pause"])
def test_one_of_two_struck_otherwise_at_points(act: str):
    every = list(singles(Scenario(seed=1, workers=2), (act,), play_one=play_at))
    tally = run_all(every[:: max(4 // SCALE, 1)], play_one=play_at)
    assert_kept(tally)
    if act == "pause":
        assert tally.events["WorkerLost"] > 0


@pytest.mark.slow
def test_one_of_two_killed_while_all_goes_directly():
    every = list(singles(Scenario(seed=1, workers=2, switch="all"), play_one=play_at))
    tally = run_all(every[:: max(4 // SCALE, 1)], play_one=play_at)
    assert_kept(tally)
    assert tally.events["SwitchDecided"] > 0


@pytest.mark.slow
def test_swarms_of_workers():
    """Faults, crashes, rounds of several and rounds of one, and now and then a switch."""
    tally = run_all(map(crew_scenario, range(60 * SCALE)), play_one=play_at)
    assert_kept(tally)
    assert set(tally.events) >= {"WorkerJoined", "WorkerLost", "Conducting", "SwitchDecided"}
    assert {"killed", "stopped", "returned"} <= set(tally.endings)
