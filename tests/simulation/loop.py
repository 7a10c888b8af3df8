"""
An event loop on virtual time, and the clock that the library is given to it.

Time stands still while anything can run and jumps to the next timer when nothing can. Timers that
fall on the same moment fire in an order drawn from the seed. A loop that nothing will ever wake is
an error that names its tasks, and so is one that runs on for ever.
"""

from __future__ import annotations

import asyncio
import heapq
import random
import selectors
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

from batchwright import _threads

#: Virtual time 0 as wall-clock time.
BASE = datetime(2026, 6, 1, 12, tzinfo=UTC)
DAY = 86_400.0
#: No run may take longer than this, in virtual seconds.
HORIZON = 40 * DAY
#: Turns of one loop; far above what any run needs.
STEPS = 600_000


class SimDeadlock(BaseException):
    """Nothing is left that could wake any task."""


class SimHorizon(BaseException):
    """The run goes on for ever, by the clock or by its number of turns."""


class _Timer(asyncio.TimerHandle):
    """A timer with a place among those of the same moment."""

    __slots__ = ("_tie",)

    def __lt__(self, other: Any) -> bool:
        if self._when == other._when:
            return bool(self._tie < other._tie)
        return bool(self._when < other._when)


class _JumpingSelector(selectors.DefaultSelector):
    """Instead of waiting it moves the loop's time on."""

    loop: VirtualLoop

    def select(self, timeout: float | None = None) -> Any:
        self.loop.count_turn()
        if _threads.busy():
            # Work is out in a thread: the clock holds until it is back.
            return super().select(0 if timeout == 0 else 0.05)
        if timeout is None:
            raise SimDeadlock(self.loop.describe())
        if timeout > 0:
            self.loop.jump()
        return []


class VirtualLoop(asyncio.SelectorEventLoop):
    """
    A loop whose time is virtual.

    Args:
        seed: Decides the order of timers that fall on one moment; `None` keeps the order in which
            they were set.
        start: Virtual time at the beginning, seconds.
        steps: Turns after which a run counts as endless.
        horizon: Virtual time after which it does.
    """

    def __init__(
        self,
        seed: int | None = None,
        *,
        start: float = 0.0,
        steps: int = STEPS,
        horizon: float = HORIZON,
    ) -> None:
        selector = _JumpingSelector()
        selector.loop = self
        self._virtual = start
        self._steps = steps
        self._horizon = horizon
        self._set = 0
        self._ending = False
        self._chance = None if seed is None else random.Random(seed)
        self.turns = 0
        #: What reached the loop's exception handler: exceptions that nobody retrieved.
        self.complaints: list[str] = []
        super().__init__(selector)
        self.set_exception_handler(self._complain)

    def _complain(self, _: Any, context: dict[str, Any]) -> None:
        self.complaints.append(f"{context.get('message')}: {context.get('exception')!r}")

    def time(self) -> float:
        """Return the virtual time, seconds."""
        return self._virtual

    def call_at(
        self, when: float, callback: Callable[..., Any], *args: Any, context: Any = None
    ) -> asyncio.TimerHandle:
        """Set a timer; see `asyncio.loop.call_at`."""
        timer = _Timer(when, callback, args, self, context)
        self._set += 1
        timer._tie = self._set if self._chance is None else self._chance.random()
        heapq.heappush(self._scheduled, timer)
        timer._scheduled = True
        return timer

    def jump(self) -> None:
        """Move time on to the next timer."""
        when = self._scheduled[0]._when
        if when > self._horizon:
            raise SimHorizon(f"virtual day {when / DAY:.1f}; {self.describe()}")
        self._virtual = max(self._virtual, when)

    def shift(self, seconds: float) -> None:
        """Let time pass at once, as a suspended machine does."""
        self._virtual += seconds

    def count_turn(self) -> None:
        """Note one turn of the loop."""
        self.turns += 1
        if self.turns > self._steps and not self._ending:
            raise SimHorizon(f"{self.turns} turns without an end; {self.describe()}")

    def describe(self) -> str:
        """Name the tasks that are not done, and where they wait."""
        waiting = []
        for task in sorted(asyncio.all_tasks(self), key=lambda task: task.get_name()):
            frames = task.get_stack(limit=1)
            where = f"{frames[-1].f_code.co_qualname}:{frames[-1].f_lineno}" if frames else "?"
            waiting.append(f"{task.get_name()} in {where}")
        return "waiting: " + "; ".join(waiting)

    def drop_all(self, tries: int = 60) -> list[str]:
        """Cancel whatever still runs until it is gone; return the names of what would not go."""
        self._ending = True
        for _ in range(tries):
            left = asyncio.all_tasks(self)
            if not left:
                return []
            for task in left:
                task.cancel()
            self.call_soon(self.stop)
            self.run_forever()
        return sorted(task.get_name() for task in asyncio.all_tasks(self))


class VirtualClock:
    """
    The library's clock on a virtual loop: its wall time may be wrong, and may jump.

    Args:
        sleep: How to wait; a simulated process can be paused or dead.
        rng: Chance and new ids.
        skew: Seconds by which the wall clock is wrong.
    """

    def __init__(
        self, sleep: Callable[[float], Any], rng: random.Random, *, skew: float = 0.0
    ) -> None:
        self._sleep = sleep
        self._rng = rng
        self.skew = skew

    def now(self) -> datetime:
        """Return the wall-clock time of this machine, right or wrong."""
        return BASE + timedelta(seconds=self.monotonic() + self.skew)

    def monotonic(self) -> float:
        """Return seconds that never go back and count sleep."""
        return asyncio.get_running_loop().time()

    async def sleep(self, seconds: float) -> None:
        """Wait at least *seconds* of virtual time, at most an hour, as the library's own does."""
        await self._sleep(min(max(seconds, 0.0), 3_600.0))

    def random(self) -> float:
        """Return a seeded number in [0, 1)."""
        return self._rng.random()

    def new_id(self) -> str:
        """Return a seeded token of 32 hexadecimal characters."""
        return f"{self._rng.getrandbits(128):032x}"

    def __getattr__(self, name: str) -> Any:
        # Any other steady clock that the library may ask for is the same one here.
        if name.startswith("_"):
            raise AttributeError(name)
        return self.monotonic
