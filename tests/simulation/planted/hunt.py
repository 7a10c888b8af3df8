"""How many runs it takes until a planted bug is caught."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import chain

from tests.simulation.checkers import violations
from tests.simulation.planted.bugs import plant
from tests.simulation.play import Player
from tests.simulation.sweep import singles, swarm_scenario
from tests.simulation.world import Scenario

#: Swarm runs within which nearly each bug has to be caught.
SEEDS = 50


@dataclass(frozen=True, slots=True)
class Catch:
    """The run that shows a bug, what it shows, and how many were played until then."""

    tried: int
    scenario: Scenario
    texts: list[str]


def hunt(name: str, seeds: int = SEEDS) -> Catch | None:
    """
    Return the first run in which the bug breaks a promise that is kept without it.

    Swarms first; then one run that is paused at each of its points, since there are moments so
    short that a swarm seldom meets them.
    """
    scenarios = chain(map(swarm_scenario, range(seeds)), singles(Scenario(), ("pause",)))
    for tried, scenario in enumerate(scenarios, start=1):
        # The store is the fast one: one of the bugs lives in it.
        planted = replace(scenario, planted=name, store="memory")
        with plant(name):
            found = violations(Player(planted).play())
        if found and not violations(Player(replace(planted, planted="")).play()):
            return Catch(tried, planted, found)
    return None
