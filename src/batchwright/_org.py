"""
One account at work: its gateway, its clock, its request budget, and whether it is stopped.

Here sits the one retry layer: a call that repeats safely is tried again with growing, jittered
waits; a create never is.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import datetime

import anyio
from tenacity import AsyncRetrying, RetryCallState, retry_if_exception, stop_after_attempt

from batchwright._api import CallFailed, Gateway, Reply
from batchwright._clock import clock
from batchwright._faults import Failure, Fault, classify
from batchwright._pace import PARK_ABOVE, RequestBudget, ServerClock, retry_wait
from batchwright.config import Org, Polling, RetryBudget
from batchwright.events import CallRetried, Event

#: Requests a minute where neither the caller nor the server said: the lowest current tier's.
DEFAULT_RPM = 1_000.0
#: An interval below the server's hint is for simulators; the default budget grows with it.
_HINT = 10.0
#: Requests that may leave at once, in seconds of the budget.
_BURST_SECONDS = 4.0
#: Most looks, cancels and lists of one org under way at once.
MAX_IN_FLIGHT = 8

_REPEATABLE = frozenset({Fault.MOMENT, Fault.BUSY})


@dataclass(frozen=True, slots=True)
class Stop:
    """
    Why an org sends nothing more in this wave.

    Attributes:
        reason: `account` or `interrupted`.
        message: What was said.
        kind: The API's error type, where it gave one.
    """

    reason: str
    message: str
    kind: str | None = None


class OrgStopped(Exception):
    """The org was stopped while something waited for it."""


class OrgLink:
    """An `Org` while a run uses it."""

    def __init__(
        self,
        org: Org,
        gateway: Gateway,
        *,
        run_id: str,
        polling: Polling,
        retry: RetryBudget,
        emit: Callable[[Event], None],
    ) -> None:
        self.label = org.label
        self.gateway = gateway
        self.max_queued = org.max_queued
        self.time = ServerClock()
        self.stop: Stop | None = None
        #: Set when the account may not even read: then its batches go on without us.
        self.shut = False
        #: Creates in a row that got no answer and turned out never to have been made.
        self.never_made = 0
        #: Set when the account may not make batches, while direct calls may still be open to it.
        self.no_batches = False
        #: Requests inside live batches, by our own books.
        self.queued = 0
        #: Requests in live batches at which the server said that its queue is full, as learned.
        self.full_at: int | None = None
        self.organization: str | None = None
        self.workspace: str | None = None
        self.gate = CreateGate()
        self._run_id = run_id
        self._retry = retry
        self._emit = emit
        self._fixed_rpm = org.rpm is not None
        self._rpm = org.rpm or DEFAULT_RPM * max(1.0, _HINT / polling.interval)
        self._processes = 1
        self._budget = RequestBudget(rpm=self._rpm)
        self._pace()
        self._slots = anyio.Semaphore(MAX_IN_FLIGHT)

    def now(self) -> datetime:
        """Return the time on this org's server."""
        return self.time.at(clock().awake(), clock().now())

    def halt(self, reason: str, message: str, kind: str | None = None) -> bool:
        """Stop sending through this org in this wave; return whether that is news."""
        if self.stop is not None:
            return False
        self.stop = Stop(reason, message, kind)
        self.gate.open()
        return True

    def learn(self, reply: Reply) -> None:
        """Take in what the head of an answer tells of the account and its clock."""
        self.time.learn(reply.server_time, clock().awake())
        self.organization = reply.organization or self.organization
        self.workspace = reply.workspace or self.workspace
        if reply.request_limit and not self._fixed_rpm:
            self._rpm = reply.request_limit
            self._pace()

    def share(self, processes: int) -> None:
        """Keep to an even share of the budget, which so many processes spend together."""
        self._processes = max(processes, 1)
        self._pace()

    def _pace(self) -> None:
        rpm = self._rpm / self._processes
        self._budget.rpm = rpm
        self._budget.burst = max(rpm / 60.0 * _BURST_SECONDS, 1.0)

    async def spend(self) -> None:
        """Wait until the request budget has room for one more call."""
        wait = self._budget.take(clock().monotonic())
        if wait > 0:
            await clock().sleep(wait)

    async def call(
        self, name: str, work: Callable[[], Awaitable[Reply]], *, attempts: int | None = None
    ) -> Reply:
        """
        Make one call that repeats safely, within the budget of tries.

        Raises:
            CallFailed: It did not succeed; faults of the account are not repeated.
        """
        retrying = AsyncRetrying(
            stop=stop_after_attempt(attempts or self._retry.call_attempts),
            retry=retry_if_exception(_repeatable),
            wait=self._wait,
            sleep=clock().sleep,
            before_sleep=lambda state: self._tell(name, state),
            reraise=True,
        )
        return await retrying(self._once, work)

    async def _once(self, work: Callable[[], Awaitable[Reply]]) -> Reply:
        async with self._slots:
            await self.spend()
            reply = await work()
        self.learn(reply)
        return reply

    def _wait(self, state: RetryCallState) -> float:
        failure = _failure_in(state)
        hint = failure.retry_after if failure else None
        return retry_wait(state.attempt_number, hint, self._retry, clock().random())

    def _tell(self, name: str, state: RetryCallState) -> None:
        wait = state.next_action.sleep if state.next_action else 0.0
        self.tell_retry(name, state.attempt_number, float(wait), str(_failure_in(state)))

    def tell_retry(self, name: str, attempt: int, wait: float, why: str) -> None:
        """Emit that a call is tried again."""
        self._emit(
            CallRetried(
                run_id=self._run_id, org=self.label, call=name, attempt=attempt, wait=wait, why=why
            )
        )


def _failure_in(state: RetryCallState) -> Failure | None:
    error = state.outcome.exception() if state.outcome else None
    return error.failure if isinstance(error, CallFailed) else None


def _repeatable(error: BaseException) -> bool:
    if not isinstance(error, CallFailed) or classify(error.failure) not in _REPEATABLE:
        return False
    return (error.failure.retry_after or 0.0) <= PARK_ABOVE


class CreateGate:
    """
    Lets creates through one at a time once the server said that it is full.

    Open, it does nothing. Closed, one create probes after the server's wait; the others follow
    when the probe was let in. It begins closed, so that an account that may not use batches at
    all is told so by one create and not by eight.
    """

    def __init__(self) -> None:
        self._until: float | None = 0.0
        self._probing = False
        self._changed = anyio.Event()

    def close(self, wait: float) -> None:
        """Let nothing through for *wait* seconds, then one probe."""
        self._until = clock().monotonic() + wait
        self._probing = False
        self._wake()

    def open(self) -> None:
        """Let everything through again."""
        self._until = None
        self._probing = False
        self._wake()

    def leave(self) -> None:
        """Let the next probe go: this one ended without an answer to the question."""
        self._probing = False
        self._wake()

    async def turn(self) -> None:
        """Wait until a create may leave."""
        while self._until is not None:
            rest = self._until - clock().monotonic() if self._until else 0.0
            if rest <= 0 and not self._probing:
                self._probing = True
                return
            changed = self._changed
            with anyio.move_on_after(rest if rest > 0 else None):
                await changed.wait()

    def _wake(self) -> None:
        self._changed.set()
        self._changed = anyio.Event()
