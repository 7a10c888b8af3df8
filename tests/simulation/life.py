"""
One simulated process: it can be killed, paused and told to stop, and the dead do nothing more.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from tests.simulation.loop import VirtualClock

if TYPE_CHECKING:
    from tests.simulation.world import SimWorld


class Killed(BaseException):
    """The process ends here; whatever it still tries is refused."""


class Life:
    """
    One incarnation of the program.

    Args:
        world: What outlives it.
        number: From 1; also its process id.
    """

    def __init__(self, world: SimWorld, number: int) -> None:
        self.world = world
        self.number = number
        self.alive = True
        self.paused_until = 0.0
        self.paused_at: list[float] = []
        self.task: asyncio.Task[Any] | None = None
        self.told_to_stop: float | None = None
        self._sleepers: dict[int, asyncio.Future[None]] = {}
        self._slept = 0
        chance = world.faults.stream(f"life {number}")
        skew = chance.uniform(-7_200.0, 7_200.0) if world.faults.has("skewed_clock") else 0.0
        if skew:
            world.faults.strike("skewed_clock")
        self.clock = VirtualClock(self.sleep, chance, skew=skew)

    def check(self) -> None:
        """Refuse everything to the dead."""
        if not self.alive:
            raise Killed

    async def sleep(self, seconds: float) -> None:
        """Wait on virtual time; a pause makes it longer, death ends it."""
        self.check()
        loop = asyncio.get_running_loop()
        woken: asyncio.Future[None] = loop.create_future()
        timer = loop.call_at(loop.time() + max(seconds, 0.0), _wake, woken)
        self._slept += 1
        mark = self._slept
        self._sleepers[mark] = woken
        try:
            await woken
        finally:
            timer.cancel()
            del self._sleepers[mark]
        await self.thaw()

    async def thaw(self) -> None:
        """Wait for the end of a pause."""
        self.check()
        if self.world.time() < self.paused_until:
            await self.sleep(self.paused_until - self.world.time())
        self.check()

    async def point(self, name: str) -> str | None:
        """
        Pass one numbered point; return the fault that the plan has for it, if it is the caller's.

        Raises:
            Killed: The process ends at this point, or has ended.
        """
        self.check()
        kind = self.world.pass_point(self, name)
        if kind == "kill":
            self.kill(name)
        if kind == "cancel":
            self.stop(name)
        if kind == "pause":
            self.pause(name)
        if self.paused_until:
            await self.thaw()
        return kind

    def kill(self, where: str) -> None:
        """
        End the process here.

        Raises:
            Killed: Always.
        """
        self.alive = False
        self.world.history.note(self.world.time(), self.number, f"KILLED at {where}")
        for woken in self._sleepers.values():
            _wake(woken)
        raise Killed

    def stop(self, where: str) -> None:
        """Cancel the process's main task, as Ctrl-C and an outer timeout do."""
        if self.task is not None and self.told_to_stop is None:
            self.told_to_stop = self.world.time()
            self.world.history.note(self.world.time(), self.number, f"TOLD TO STOP at {where}")
            self.task.cancel()

    def pause(self, where: str) -> None:
        """Stop the process for a while (a signal, a suspended machine); another one starts."""
        self.paused_at.append(self.world.time())
        self.paused_until = self.world.time() + self.world.pause_seconds
        self.world.history.note(self.world.time(), self.number, f"PAUSED at {where}")
        self.world.start_rival()


def _wake(woken: asyncio.Future[None]) -> None:
    if not woken.done():
        woken.set_result(None)
