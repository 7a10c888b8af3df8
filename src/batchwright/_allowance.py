"""
How many direct calls may leave: what the caller set, else what the API says of its limits.
"""

from __future__ import annotations

from batchwright._api import Reply
from batchwright._clock import clock
from batchwright._pace import AverageUse, RequestBudget
from batchwright._projection import rpm_within
from batchwright.types import Tokens

#: Calls that may leave at once, in seconds of the allowed rate.
BURST_SECONDS = 4.0


class Allowance:
    """The direct calls that one org allows in a minute, shared by the processes that work on it."""

    def __init__(self, rpm: int | None) -> None:
        """
        Begin with what the caller set.

        Args:
            rpm: Requests a minute; `None` follows the answers.
        """
        self._fixed = rpm is not None
        self._rpm: float | None = rpm
        self._processes = 1
        self._budget = RequestBudget(rpm=rpm, burst=10.0) if rpm else None
        self._usage = AverageUse()

    async def spend(self) -> None:
        """Wait until one more call may leave."""
        if self._budget is not None:
            wait = self._budget.take(clock().monotonic())
            if wait > 0:
                await clock().sleep(wait)

    def learn(self, reply: Reply, used: Tokens | None) -> None:
        """Keep below what the API says is allowed in a minute, unless told otherwise."""
        if self._fixed:
            return
        self._usage.add(used)
        limit = rpm_within(
            requests=reply.request_limit,
            input_tokens=reply.input_limit,
            output_tokens=reply.output_limit,
            average=self._usage.average,
        )
        if limit:
            self._rpm = limit
            self._pace()

    def share(self, processes: int) -> None:
        """Keep to an even share, where so many processes ask."""
        self._processes = max(processes, 1)
        self._pace()

    def _pace(self) -> None:
        if self._rpm is None:
            return
        rpm = self._rpm / self._processes
        if self._budget is None:
            self._budget = RequestBudget(rpm=rpm, burst=rpm / 60.0 * BURST_SECONDS)
        self._budget.rpm = rpm
