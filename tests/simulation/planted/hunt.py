"""How many runs it takes until a planted bug is caught."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import chain
from unittest import mock

from tests.simulation import play
from tests.simulation.checkers import violations
from tests.simulation.levels import play_at
from tests.simulation.planted.together import NEEDS
from tests.simulation.sweep import singles, swarm_scenario
from tests.simulation.world import Scenario

#: Turns of a loop after which a run with a bug in it counts as endless.
TURNS = 60_000
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
        # A bug that stops everything is seen by a loop that goes on for ever: not for too long.
        with mock.patch.object(play, "STEPS", min(play.STEPS, TURNS)):
            found = violations(play_at(planted))
            sound = not found or not violations(play_at(replace(planted, planted="")))
        if found and sound:
            return Catch(tried, planted, found)
    return None
