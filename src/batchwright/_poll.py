"""
One bounded task per batch, from its creation to its end.

The bound is the batch's own `expires_at` plus grace, on the server's clock: never a counter, never
for ever. At the deadline there is one last look, then a cancel, then whatever there is to read.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from enum import Enum, auto
from typing import Any

from batchwright._api import CallFailed, Reply
from batchwright._batches import KNOWN_STATUSES, BatchObject, deadline_of, read_batch
from batchwright._clock import clock
from batchwright._context import RunContext, is_foreign
from batchwright._faults import Failure, Fault, classify
from batchwright._org import OrgLink
from batchwright._pace import poll_gap
from batchwright.events import (
    BatchCanceled,
    BatchEnded,
    BatchPolled,
    DeadlineExceeded,
    PollFailed,
    StatusUnknown,
)
from batchwright.store import Shard, ShardState

#: A batch we created may be invisible for a while; it is believed gone after this many intervals
#: of nothing but 404 (10 minutes at the default interval).
NOT_FOUND_INTERVALS = 10
#: … and after so many such answers: a suspended machine or an outage in between is no answer.
NOT_FOUND_LOOKS = 5
#: How long a batch that is overdue may take to end after our cancel, in intervals.
CANCEL_INTERVALS = 10
#: Failed looks do not tell on the batch: only the deadline bounds them.
_SECOND = timedelta(seconds=1)
#: Statuses of one batch that are remembered; the API knows three.
STATUSES = 10


class End(Enum):
    """How watching a batch came to its end."""

    #: The server has finished with it: read the results.
    ENDED = auto()
    #: It is past its deadline and was canceled: read what there is, then hold the rest.
    OVERDUE = auto()
    #: The server does not know it, for longer than that may take.
    NOT_FOUND = auto()
    #: The server does not know it, and it was sent into another workspace.
    FOREIGN = auto()
    #: The org was stopped; the batch goes on without us.
    STOPPED = auto()
    #: It was only to be looked at once, and it has not ended.
    NOT_YET = auto()


class Watch:
    """Looks at one batch until it has ended or its time is over."""

    def __init__(self, ctx: RunContext, org: OrgLink, shard: Shard) -> None:
        assert shard.batch_id is not None, "only a created batch can be watched"
        self._ctx = ctx
        self._org = org
        self.shard = shard
        self.batch: BatchObject | None = None
        self._id: str = shard.batch_id
        self._lookout = ctx.lookouts[org.label]
        self._looks = 0
        self._earlier_polls = shard.polls
        self._statuses: list[dict[str, Any]] = [dict(seen) for seen in shard.facts.get("seen", ())]
        self._hint: float | None = None
        self._asked_wait = 0.0
        self._missing_since: float | None = None
        self._missing_looks = 0
        self._warned: set[str] = set()
        self._asking = False

    async def run(self, *, at_once: bool, once: bool = False) -> End:
        """
        Return how it ended.

        With *at_once* the first look does not wait (a batch of an earlier process may have ended
        meanwhile); with *once* there is only that look.
        """
        self._lookout.watch(self._id, self.shard.created_at)
        try:
            return await self._watch(at_once=at_once, once=once)
        finally:
            self._lookout.forget(self._id)

    async def _watch(self, *, at_once: bool, once: bool) -> End:
        if not at_once:
            await self._pause(self._deadline())
        while True:
            # The last look is always a fresh one.
            last = self._org.now() >= self._deadline()
            end = await self._look(directly=last or once)
            if end is not None:
                return end
            if once:
                return End.NOT_YET
            deadline = self._deadline()
            if self._org.now() >= deadline:
                if last:
                    return await self._overdue()
                continue
            await self._pause(deadline)

    def told(self) -> dict[str, Any]:
        """Return what the looks so far came to, as facts of the shard."""
        return {
            "polls": self._earlier_polls + self._looks,
            "facts": {"seen": [dict(seen) for seen in self._statuses]},
        }

    def _note(self, status: str) -> None:
        """Remember that the batch was seen in this status, and when."""
        now = self._org.now()
        seen = next((seen for seen in self._statuses if seen["status"] == status), None)
        if seen is None and len(self._statuses) < STATUSES:
            at = now.isoformat()
            seen = {"status": status, "first_at": at, "last_at": at, "looks": 0}
            self._statuses.append(seen)
        if seen is not None:
            # The server tells its time in whole seconds, so it may seem to go back a little.
            last = max(now, datetime.fromisoformat(seen["last_at"]))
            seen.update(last_at=last.isoformat(), looks=seen["looks"] + 1)

    def _deadline(self) -> datetime:
        created = self.shard.created_at or self.shard.sent_at or self.shard.planned_at
        return deadline_of(self.shard.expires_at, created, self._ctx.polling.grace)

    async def _pause(self, until: datetime) -> None:
        """Wait for the next look; the last one falls on the deadline, not after it."""
        gap = poll_gap(self._looks, self._hint, self._ctx.polling, clock().random())
        gap = max(gap, self._asked_wait)
        left = (until - self._org.now()).total_seconds()
        # Never a busy loop, however the clocks may jump.
        await clock().sleep(max(min(gap, left), min(gap, 0.001)))

    # -- a look -------------------------------------------------------------------------------

    async def _look(self, *, directly: bool = False) -> End | None:
        """Look once; return an end, or `None` where the batch is still on its way."""
        if self._org.shut:
            return End.STOPPED
        self._looks += 1
        try:
            reply = await self._lookout.look(self._id, directly=directly)
        except CallFailed as failed:
            return self._failed(failed.failure)
        batch = read_batch(reply.data)
        if batch is None:
            self._tell_failure("the answer names no batch")
            return None
        return await self._seen(batch, reply)

    async def _seen(self, batch: BatchObject, reply: Reply) -> End | None:
        self._missing_since = None
        self._missing_looks = 0
        self._asked_wait = 0.0
        self._hint = reply.retry_after
        first = self.batch is None
        self.batch = batch
        self._ctx.seen[self.shard.number] = batch.status
        self._note(batch.status)
        if first and self.shard.expires_at is None and batch.expires_at is not None:
            self.shard = await self._ctx.move(
                self.shard,
                self.shard.state,
                expires_at=batch.expires_at,
                created_at=batch.created_at or self.shard.created_at,
            )
        self._tell_look(batch)
        if not batch.ended:
            await self._insist(batch)
            return None
        await self._record_end(batch)
        return End.ENDED

    async def _insist(self, batch: BatchObject) -> None:
        """Ask again for a cancel that was decided but never reached the server."""
        wanted = self.shard.cancel
        if wanted in {"user", "drain"} and batch.cancel_initiated_at is None and not self._asking:
            await self.cancel(wanted)

    async def _record_end(self, batch: BatchObject) -> None:
        if batch.cancel_initiated_at is not None and not self.shard.cancel:
            self._tell_cancel("elsewhere")
        self.shard = await self._ctx.move(
            self.shard,
            ShardState.ENDED,
            reason=None,
            ended_at=batch.ended_at or self._org.now(),
            counts=dict(batch.counts),
            **self.told(),
        )
        created = self.shard.created_at
        took = (
            (self.shard.ended_at - created) / _SECOND if created and self.shard.ended_at else None
        )
        self._ctx.emit(
            BatchEnded(
                run_id=self._ctx.run_id,
                shard=self.shard.number,
                org=self._org.label,
                batch_id=self._id,
                counts=dict(batch.counts),
                took=took,
            )
        )

    def _failed(self, failure: Failure) -> End | None:
        fault = classify(failure)
        self._asked_wait = failure.retry_after or 0.0
        if fault is Fault.ACCOUNT:
            self._org.shut = True
            self._ctx.halt(self._org, "account", str(failure), failure.kind)
            return End.STOPPED
        if fault is Fault.NOT_FOUND:
            if is_foreign(self.shard, self._org):
                return End.FOREIGN
            if self._is_gone():
                return End.NOT_FOUND
        self._tell_failure(str(failure))
        return None

    def _is_gone(self) -> bool:
        """Note that the batch was not found, and tell whether that has been so for long enough."""
        now = clock().monotonic()
        self._missing_since = now if self._missing_since is None else self._missing_since
        self._missing_looks += 1
        long = now - self._missing_since >= NOT_FOUND_INTERVALS * self._ctx.polling.interval
        return long and self._missing_looks >= NOT_FOUND_LOOKS

    # -- the deadline -------------------------------------------------------------------------

    async def _overdue(self) -> End:
        """The last look was in vain: raise the alarm, cancel, and wait a bounded while longer."""
        self._ctx.emit(
            DeadlineExceeded(
                run_id=self._ctx.run_id,
                shard=self.shard.number,
                org=self._org.label,
                batch_id=self._id,
                count=self.shard.count,
                expires_at=self.shard.expires_at,
            )
        )
        await self.cancel("overdue")
        end = clock().monotonic() + CANCEL_INTERVALS * self._ctx.polling.interval
        while clock().monotonic() < end:
            await clock().sleep(self._ctx.polling.interval)
            found = await self._look(directly=True)
            if found is not None:
                return found
        return End.OVERDUE

    async def cancel(self, by: str) -> Failure | None:
        """
        Ask the server to cancel, and remember who asked; return why it refused.

        The wish is durable before the call, since it decides what a canceled line means. A refusal
        is no error: the batch may just have ended, and its lines will tell.
        """
        self.shard = await self._ctx.move(self.shard, self.shard.state, cancel=by, **self.told())
        try:
            await self._org.call("cancel", lambda: self._org.gateway.cancel(self._id))
        except CallFailed as failed:
            self._tell_failure(f"cancel: {failed.failure}")
            return failed.failure
        self._tell_cancel(by)
        return None

    # -- telling ------------------------------------------------------------------------------

    def _tell_look(self, batch: BatchObject) -> None:
        now = self._org.now()
        created = self.shard.created_at or now
        left = self.shard.expires_at - now if self.shard.expires_at else None
        self._ctx.emit(
            BatchPolled(
                run_id=self._ctx.run_id,
                shard=self.shard.number,
                org=self._org.label,
                batch_id=self._id,
                status=batch.status,
                age=(now - created).total_seconds(),
                expires_in=left.total_seconds() if left is not None else None,
            )
        )
        if batch.status not in KNOWN_STATUSES and batch.status not in self._warned:
            self._warned.add(batch.status)
            self._ctx.emit(
                StatusUnknown(
                    run_id=self._ctx.run_id,
                    shard=self.shard.number,
                    batch_id=self._id,
                    status=batch.status,
                )
            )

    def _tell_cancel(self, by: str) -> None:
        self._ctx.emit(
            BatchCanceled(
                run_id=self._ctx.run_id,
                shard=self.shard.number,
                org=self._org.label,
                batch_id=self._id,
                by=by,
            )
        )

    def _tell_failure(self, why: str) -> None:
        self._ctx.emit(
            PollFailed(
                run_id=self._ctx.run_id,
                shard=self.shard.number,
                org=self._org.label,
                batch_id=self._id,
                why=why,
                wait=self._ctx.polling.interval,
            )
        )
