"""
A policy that switches at a moment of the seed's choice.
"""

from __future__ import annotations

from typing import Any

from tests.simulation.world import Scenario

from batchwright import Stay, Switch, SyncLimits
from batchwright.policy import WaveSnapshot


class SwitchAt:
    """Switches at a tick that follows from the seed, the start of the wave among them."""

    confirmations = 1

    def __init__(self, scenario: Scenario) -> None:
        self.drain = scenario.switch
        self._share = scenario.share
        self._left = scenario.seed % 4

    def decide(self, snapshot: WaveSnapshot) -> Stay | Switch:
        """Count the ticks."""
        self._left -= 1
        return Stay("not yet") if self._left >= 0 else Switch("the seed says so", self._share)


def switch_options(scenario: Scenario) -> dict[str, Any]:
    """Return the runner's options of a run that switches; none for any other."""
    if not scenario.switch:
        return {}
    limits = SyncLimits(concurrency=2 + scenario.seed % 3)
    return {"policy": SwitchAt(scenario), "sync": limits}
