"""How many seeds it takes until a planted bug is caught."""

from __future__ import annotations

from dataclasses import dataclass, replace

from tests.simulation.checkers import violations
from tests.simulation.planted.bugs import plant
from tests.simulation.play import Player
from tests.simulation.sweep import swarm_scenario
from tests.simulation.world import Scenario

#: Seeds within which each bug has to be caught.
SEEDS = 50


@dataclass(frozen=True, slots=True)
class Catch:
    """The first seed that shows a bug, and what it shows."""

    seeds: int
    scenario: Scenario
    texts: list[str]


def hunt(name: str, seeds: int = SEEDS) -> Catch | None:
    """Return the first swarm run in which the bug breaks a promise that is kept without it."""
    for seed in range(seeds):
        # The store is the fast one: one of the bugs lives in it.
        scenario = replace(swarm_scenario(seed), planted=name, store="memory")
        with plant(name):
            found = violations(Player(scenario).play())
        if found and not violations(Player(replace(scenario, planted="")).play()):
            return Catch(seed + 1, scenario, found)
    return None
