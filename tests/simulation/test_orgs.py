"""Several accounts, some of them refused for a while: killed at points, and with faults."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.simulation.faults import ACCOUNT, DIRECT
from tests.simulation.levels import play_at
from tests.simulation.sweep import run_all, singles, swarm_scenario
from tests.simulation.test_sweep import SCALE, assert_kept
from tests.simulation.world import Scenario

REFUSALS = frozenset(kind for kinds in ACCOUNT.values() for kind in kinds)


@pytest.mark.slow
def test_killed_at_points_of_a_run_over_two_orgs():
    """R25: whoever goes on asks for a batch with the credential that made it."""
    every = list(singles(Scenario(seed=2, orgs=2)))
    tally = run_all(every[:: max(4 // SCALE, 1)], play_one=play_at)
    assert_kept(tally)
    assert tally.crashes == tally.runs


@pytest.mark.slow
def test_swarms_over_several_orgs():
    """Accounts that are refused for a while hold up neither the others nor the end."""
    scenarios = (
        replace(
            swarm_scenario(seed), faults=swarm_scenario(seed).faults | REFUSALS, orgs=2 + seed % 2
        )
        for seed in range(20 * SCALE)
    )
    tally = run_all(scenarios, play_one=play_at)
    assert_kept(tally)
    assert [kind for kind in REFUSALS if not tally.fired[kind]] == []


@pytest.mark.slow
def test_swarms_that_switch_a_share():
    """Half of the remainder moves to direct calls, over one account or two."""
    scenarios = (
        replace(
            swarm_scenario(seed),
            faults=swarm_scenario(seed).faults | DIRECT.keys(),
            switch=("progressive", "all")[seed % 2],
            share=0.5,
            orgs=1 + seed % 2,
        )
        for seed in range(20 * SCALE)
    )
    tally = run_all(scenarios, play_one=play_at)
    assert_kept(tally)
    assert tally.events["SwitchDecided"] > 0
