"""
The promises, over every single crash point, many pairs, and swarms of faults.

The full numbers are played by `python -m tests.simulation --full`; here is a part of them that
fits into a push.
"""

from __future__ import annotations

import pytest
from tests.simulation.faults import KINDS
from tests.simulation.levels import play_at
from tests.simulation.sweep import Tally, pairs, run_all, singles, swarms
from tests.simulation.world import Scenario

#: What the library must have met, by its own events, for a swarm to have shown anything.
MARKS = {
    "BatchCanceled",
    "CreateSettled",
    "DeadlineExceeded",
    "OrgPaused",
    "ResultsReread",
    "RunInterrupted",
    "ShardRefused",
}
#: Turned up, everything here grows with it.
SCALE = 1


def assert_kept(tally: Tally) -> None:
    """Fail with the lines that play the broken runs again."""
    failures = "\n".join(map(str, tally.failures[:5]))
    assert not tally.failures, f"{tally.report()}\n{failures}"
    assert tally.runs > 0


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3 * SCALE))
def test_killed_at_every_point(seed: int):
    tally = run_all(singles(Scenario(seed=seed)), play_one=play_at)
    assert_kept(tally)
    assert tally.vacuous == 0
    assert tally.crashes == tally.runs
    assert tally.endings["killed"] == tally.runs


@pytest.mark.slow
@pytest.mark.parametrize("act", ["cancel", "error", "outage", "pause"])
def test_struck_otherwise_at_every_point(act: str):
    tally = run_all(singles(Scenario(seed=1), (act,)), play_one=play_at)
    assert_kept(tally)
    assert tally.vacuous == 0
    expected = {"cancel": "stopped", "error": "store", "outage": "store", "pause": "locked"}
    assert tally.endings[expected[act]] > 0


@pytest.mark.slow
def test_killed_at_points_over_a_real_file():
    every = list(singles(Scenario(seed=2, store="sqlite")))
    tally = run_all(every[:: max(4 // SCALE, 1)], play_one=play_at)
    assert_kept(tally)
    assert tally.crashes == tally.runs


@pytest.mark.slow
def test_killed_again_during_the_recovery():
    tally = run_all(pairs(Scenario(seed=0), step=max(60 // SCALE, 1)), play_one=play_at)
    assert_kept(tally)
    assert tally.crashes == 2 * tally.runs


@pytest.mark.slow
def test_swarms_of_faults():
    tally = run_all(swarms(range(120 * SCALE)), play_one=play_at)
    assert_kept(tally)
    # A sweep in which nothing went wrong shows nothing.
    assert [kind for kind in KINDS if not tally.fired[kind]] == []
    assert set(tally.events) >= MARKS
    assert tally.vacuous < tally.runs / 4
    assert {"killed", "stopped", "locked", "store", "returned"} <= set(tally.endings)
