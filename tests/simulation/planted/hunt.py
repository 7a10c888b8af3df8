"""How many runs it takes until a planted bug is caught."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import chain

from tests.simulation.checkers import violations
from tests.simulation.levels import play_at
from tests.simulation.planted.together import NEEDS
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
    needs = NEEDS.get(name, {})
    alone = singles(replace(Scenario(), **needs), ("pause",), play_one=play_at)
    scenarios = chain(map(swarm_scenario, range(seeds)), alone)
    for tried, scenario in enumerate(scenarios, start=1):
        # The store is the fast one: one of the bugs lives in it.
        planted = replace(scenario, planted=name, store="memory", **needs)
        found = violations(play_at(planted))
        if found and not violations(play_at(replace(planted, planted=""))):
            return Catch(tried, planted, found)
    return None
