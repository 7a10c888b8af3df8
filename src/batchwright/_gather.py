"""
Calls that come one by one leave in groups.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

from batchwright._clock import clock
from batchwright.config import Gathering
from batchwright.store import NewItem
from batchwright.types import Outcome


@dataclass(slots=True, eq=False)
class Call:
    """
    One call that waits.

    Attributes:
        row: What it asks, under the id of its sample.
        answer: Is given the outcome once that is durable; done as well where nobody waits any more.
        waves: How many waves have ended without an outcome for it.
    """

    row: NewItem
    answer: asyncio.Future[Outcome]
    waves: int = 0


class Gatherer:
    """
    Collects calls until there are enough, none has come for a while, or one has waited long.

    It belongs to one event loop.
    """

    def __init__(self, rules: Gathering, leave: Callable[[list[Call]], None]) -> None:
        self._rules = rules
        self._leave = leave
        self._calls: list[Call] = []
        self._first = self._latest = 0.0
        self._timer: asyncio.Task[None] | None = None

    def add(self, call: Call) -> None:
        """Take one more call."""
        self._latest = clock().monotonic()
        self._calls.append(call)
        if len(self._calls) >= self._rules.size:
            self.flush()
        elif len(self._calls) == 1:
            self._first = self._latest
            self._timer = asyncio.create_task(self._wait())

    def flush(self) -> None:
        """Let what there is leave now; calls for which nobody waits any more stay behind."""
        calls, self._calls = self._calls, []
        timer, self._timer = self._timer, None
        if timer is not None and timer is not asyncio.current_task():
            timer.cancel()
        if waiting := [call for call in calls if not call.answer.done()]:
            self._leave(waiting)

    async def _wait(self) -> None:
        """Flush when it is time."""
        while (left := self._due() - clock().monotonic()) > 0:
            await clock().sleep(left)
        self.flush()

    def _due(self) -> float:
        return min(self._latest + self._rules.quiet, self._first + self._rules.longest)
