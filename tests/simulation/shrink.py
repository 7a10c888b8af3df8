"""
Making a failing scenario small: fewer faults, fewer crashes, as long as it fails in the same way.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from tests.simulation.checkers import violations
from tests.simulation.play import Played
from tests.simulation.world import Scenario


def shrink(scenario: Scenario, play_one: Callable[[Scenario], Played]) -> Scenario:
    """Return the smallest scenario found that breaks one of the promises this one breaks."""
    wanted = _kinds(scenario, play_one)
    if not wanted:
        return scenario
    smaller = True
    while smaller:
        smaller = False
        for candidate in _smaller(scenario):
            if _kinds(candidate, play_one) & wanted:
                scenario, smaller = candidate, True
                break
    return scenario


def _kinds(scenario: Scenario, play_one: Callable[[Scenario], Played]) -> set[str]:
    return {text.partition(":")[0] for text in violations(play_one(scenario))}


def _smaller(scenario: Scenario) -> Iterator[Scenario]:
    """Yield scenarios with one thing less."""
    for kind in sorted(scenario.faults):
        yield replace(scenario, faults=scenario.faults - {kind})
    for number in scenario.crash:
        yield replace(scenario, crash=tuple(n for n in scenario.crash if n != number))
    if scenario.store != "memory":
        yield replace(scenario, store="memory")
    if scenario.successor != "host":
        yield replace(scenario, successor="host")
    if scenario.act != "kill":
        yield replace(scenario, act="kill")
