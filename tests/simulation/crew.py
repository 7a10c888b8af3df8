"""
Playing a run on which several processes work: loaded once, then worked on together, and now and
then taken up by one alone.
"""

from __future__ import annotations

from unittest import mock

from tests.simulation.disk import SharedDoor
from tests.simulation.life import Life
from tests.simulation.play import RUN, Ending, Played, Player

from batchwright import BatchRunner, RunResult, _hand

#: Seconds between two looks at the run: with fewer of them hours, and days, pass sooner.
TICK, SLOW_TICK = 15.0, 60.0
#: Lives that may try to put the items in.
LOADS = 6
#: One round in so many is for one process alone.
ALONE = 3


class CrewPlayer(Player):
    """Plays one scenario with several processes at a time."""

    door = SharedDoor
    _loading = True
    _round = 0

    def play(self) -> Played:
        """Return what became of it."""
        with mock.patch.object(_hand, "TICK", TICK if self.world.server.quick else SLOW_TICK):
            return super().play()

    def _wild(self) -> None:
        for _ in range(LOADS):
            if self._one_life().how == "returned":
                break
        self._loading = False
        super()._wild()

    def _is_finished(self, ending: Ending) -> bool:
        self._round += 1
        return ending.result is not None and super()._is_finished(ending)

    @property
    def _alone(self) -> bool:
        return self._loading or self._round % ALONE == ALONE - 1

    def _told(self, endings: list[Ending]) -> Ending:
        """Return the ending of a round: a result where one has one, in the calm where all have."""
        self._round += endings[0].how != "returned"
        wanted = {True: lambda e: e.how != "returned", False: lambda e: e.how == "returned"}
        return next(filter(wanted[self._calm], endings), endings[-1])

    def _join(self) -> None:
        """Let the others begin, some seconds apart."""
        if self._alone:
            return
        chance = self.world.faults.stream("crew")
        for _ in range(self.world.scenario.workers - 1):
            self._rivals.append(self._spawn(self.world.be_born(), chance.choice((0.0, 2.0, 40.0))))

    async def _work(self, life: Life, runner: BatchRunner) -> RunResult | None:
        if self._loading:
            await runner.load(self._played.items, RUN)
            return None
        if self._alone:
            return await runner.resume(RUN)
        return await runner.work(RUN, collect=True)
