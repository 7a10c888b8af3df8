"""
Playing a scenario at the level that it names, with the bug that it names.
"""

from __future__ import annotations

from tests.simulation.crew import CrewPlayer
from tests.simulation.play import Played, Player, runner_below_gateway
from tests.simulation.world import Scenario


def play_at(scenario: Scenario) -> Played:
    """Play *scenario* as it says."""
    if scenario.level == 2:
        # The SDK is asked for only where it is needed: importing it costs half a second.
        from tests.simulation.transport import runner_below_sdk

        make = runner_below_sdk
    else:
        make = runner_below_gateway
    # Each bug is a patch of something, so they know more of the library than is needed here.
    from tests.simulation.planted import plant

    with plant(scenario.planted):
        player = CrewPlayer if scenario.workers else Player
        return player(scenario, make).play()
