"""The same promises below the real SDK: a smaller number of runs, over real HTTP messages."""

from __future__ import annotations

import pytest
from tests.simulation.full import level_two
from tests.simulation.levels import play_at
from tests.simulation.sweep import run_all, singles
from tests.simulation.test_sweep import SCALE, assert_kept
from tests.simulation.world import Scenario


@pytest.mark.slow
def test_killed_at_points_below_the_sdk():
    every = list(singles(Scenario(seed=0, level=2), play_one=play_at))
    tally = run_all(every[:: max(5 // SCALE, 1)], play_one=play_at)
    assert_kept(tally)
    assert tally.crashes == tally.runs


@pytest.mark.slow
def test_swarms_below_the_sdk():
    tally = run_all(level_two(36 * SCALE), play_one=play_at)
    assert_kept(tally)
    assert sum(tally.fired.values()) > 0


def test_both_levels_tell_the_same_story():
    """Without faults the two levels end with the same answers."""
    one, two = (play_at(Scenario(seed=3, level=level)) for level in (1, 2))
    assert [row.outcome.raw for row in one.rows] == [row.outcome.raw for row in two.rows]
