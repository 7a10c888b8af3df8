"""
The sync path: direct calls by a bounded pool, one for each org.

The same outcomes, faults, budgets and store as on the batch path. A direct answer cannot be read
again, so it is written through to the disk before it counts; answers that come together are written
together.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import anyio
import orjson
from anyio.abc import TaskGroup
from anyio.lowlevel import checkpoint
from anyio.streams.memory import MemoryObjectReceiveStream

from batchwright._allowance import Allowance
from batchwright._api import CallFailed
from batchwright._clock import clock
from batchwright._context import RESULT_OF, RunContext
from batchwright._faults import Failure, Fault, classify
from batchwright._json import load_json
from batchwright._judge import judge_settlements
from batchwright._lines import flag_of, tokens_of
from batchwright._org import OrgLink
from batchwright._pace import PARK_ABOVE, retry_wait
from batchwright._window import Window
from batchwright.config import SyncLimits
from batchwright.events import ItemsMerged
from batchwright.store import Body, ItemState, Member, Rest, Settlement, Shard, ShardState
from batchwright.types import ItemError

#: Above this a plain call may outlast the connection, so the answer is streamed and put together.
STREAM_ABOVE_TOKENS = 21_333
#: Bytes of bodies read from the store at once.
PAGE_BYTES = 1_000_000
#: Answers that become durable together at most.
GROUP = 250
#: After an interruption calls under way may finish for so many seconds: their answers are paid.
LINGER = 15.0
#: A refusal for being busy counts as a try only where nothing else got through meanwhile.
_RETRIED = frozenset({Fault.MOMENT, Fault.BUSY})

_ASKED_TOKENS = b'"max_tokens":'


@dataclass(frozen=True, slots=True)
class _Answer:
    """A message as it came, and parsed."""

    raw: bytes
    message: dict[str, Any]


@dataclass(slots=True)
class _Job:
    """One sync shard at work."""

    shard: Shard
    members: Mapping[int, Member]
    headers: Mapping[str, str]
    outbox: list[Settlement] = field(default_factory=list)
    filled: anyio.Event = field(default_factory=anyio.Event)
    asked: int = 0
    asked_all: bool = False
    results: Counter[str] = field(default_factory=Counter)
    late: int = 0

    def facts(self) -> dict[str, Any]:
        """Return what its answers came to, for the report."""
        return {
            "results": {name: self.results[name] for name in RESULT_OF.values()},
            "late": self.late,
        }


class SyncPool:
    """The direct calls of one org."""

    def __init__(self, ctx: RunContext, org: OrgLink, limits: SyncLimits) -> None:
        self._ctx = ctx
        self._org = org
        self._limits = limits
        self.window = Window(limits.concurrency)
        self.allowance = Allowance(limits.rpm)
        self._began: float | None = None
        self._stopping = False
        self._scopes: set[anyio.CancelScope] = set()

    @property
    def rate(self) -> float | None:
        """Answers per second as measured in this wave, or `None` before there are any."""
        if self._began is None or self.window.successes < GROUP // 10:
            return None
        return self.window.successes / max(clock().monotonic() - self._began, 0.001)

    async def linger(self) -> None:
        """Wait for an interruption, and then give the calls under way a while to finish."""
        try:
            await anyio.sleep_forever()
        finally:
            self._stopping = True
            for scope in self._scopes:
                scope.deadline = anyio.current_time() + LINGER
            self.window.wake()

    async def carry(self, shard: Shard) -> tuple[Shard, int]:
        """
        Ask every item of *shard*.

        Return it DONE, or as it was where it was interrupted, and how many of its items were not
        asked and wait again.
        """
        with anyio.CancelScope(shield=True) as scope:
            self._scopes.add(scope)
            try:
                shard, unasked = await self._work(shard)
            finally:
                self._scopes.discard(scope)
        await checkpoint()
        return shard, unasked

    async def _work(self, shard: Shard) -> tuple[Shard, int]:
        self._began = clock().monotonic() if self._began is None else self._began
        members = await self._ctx.store.read_members(self._ctx.run_id, shard.number)
        headers = orjson.loads(shard.headers) if shard.headers else {}
        job = _Job(shard, {member.seq: member for member in members}, headers)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._write, job)
            await self._ask_all(job)
            job.asked_all = True
            job.filled.set()
        unasked = sum(_is_open_in(shard, member) for member in members) - job.asked
        if self._stopping:
            return shard, unasked
        rest = Rest(state=ItemState.PENDING)
        done = await self._ctx.move(
            shard,
            ShardState.DONE,
            reason="sync",
            rest=rest,
            done_at=self._org.now(),
            facts=job.facts(),
        )
        return done, unasked

    # -- asking -------------------------------------------------------------------------------

    async def _ask_all(self, job: _Job) -> None:
        send, receive = anyio.create_memory_object_stream[Body](self._limits.concurrency)
        async with anyio.create_task_group() as workers:
            count = min(self._limits.concurrency, len(job.members))
            with receive:
                self._hire(workers, job, receive, count)
            async with send:
                after = -1
                while page := await self._page(job.shard, after):
                    for body in page:
                        await send.send(body)
                    after = page[-1].seq

    def _hire(
        self, workers: TaskGroup, job: _Job, bodies: MemoryObjectReceiveStream[Body], count: int
    ) -> None:
        for _ in range(count):
            workers.start_soon(self._worker, job, bodies.clone())

    async def _page(self, shard: Shard, after: int) -> Sequence[Body]:
        if not self._is_open():
            return ()
        return await self._ctx.store.read_bodies(self._ctx.run_id, shard.number, after, PAGE_BYTES)

    def _is_open(self) -> bool:
        return not self._stopping and self._org.stop is None

    async def _worker(self, job: _Job, bodies: MemoryObjectReceiveStream[Body]) -> None:
        with bodies:
            async for body in bodies:
                member = job.members[body.seq]
                # Answered before, by a batch that ended late or through a process that is gone:
                # asking again would pay again.
                if self._is_open() and _is_open_in(job.shard, member):
                    settlement = await self._ask(job, body, member)
                    if settlement is not None:
                        job.asked += 1
                        job.outbox.append(settlement)
                        job.filled.set()

    async def _ask(self, job: _Job, body: Body, member: Member) -> Settlement | None:
        """Return what one item came to; `None` where it goes on waiting, unasked."""
        tries = 0
        while True:
            before = self.window.successes
            await self.window.enter()
            try:
                if not self._is_open():
                    return None
                await self.allowance.spend()
                # Who was stopped and succeeded meanwhile would ask what is answered already.
                await self._ctx.stay_owner()
                answer = await self._call(body, job.headers)
            except CallFailed as failed:
                failure = failed.failure
            else:
                self.window.succeeded()
                return answer_of(body.seq, self._org.label, answer.raw, answer.message)
            finally:
                self.window.leave()
            fault = classify(failure)
            if fault not in _RETRIED:
                return self._final(member, failure, fault)
            # Refused while others got through: the pool was too wide; the item had no part in it.
            tries += not (fault is Fault.BUSY and self.window.successes > before)
            if self._parked(failure):
                return None
            if tries >= self._ctx.retry.call_attempts:
                return self._failed(member, failure, ItemState.PENDING, failure.type or "no_answer")
            await self._back_off(failure, fault, tries)

    async def _back_off(self, failure: Failure, fault: Fault, tries: int) -> None:
        wait = retry_wait(tries, failure.retry_after, self._ctx.retry, clock().random())
        if fault is Fault.BUSY:
            self.window.refused(wait)
        else:
            await clock().sleep(wait)

    def _parked(self, failure: Failure) -> bool:
        if (failure.retry_after or 0.0) <= PARK_ABOVE:
            return False
        self._ctx.halt(self._org, "interrupted", f"direct calls are refused: {failure}")
        return True

    async def _call(self, body: Body, headers: Mapping[str, str]) -> _Answer:
        stream = needs_stream(body.body)
        reply = await self._org.gateway.message(body.body, headers, stream=stream)
        self._org.time.learn(reply.server_time, clock().awake())
        message = message_in(reply.body)
        self.allowance.learn(reply, None if message is None else tokens_of(message))
        if message is None:
            text = f"an answer that is no message ({len(reply.body)} bytes)"
            raise CallFailed(Failure(call="message", status=200, message=text))
        return _Answer(reply.body.strip(), message)

    # -- what an answer means -----------------------------------------------------------------

    def _final(self, member: Member, failure: Failure, fault: Fault) -> Settlement:
        """Return what a call that is not worth repeating means for its item."""
        if fault is Fault.ACCOUNT or (fault is Fault.NOT_FOUND and not failure.envelope):
            self._ctx.halt(self._org, "account", str(failure), failure.kind)
            return self._failed(member, failure, ItemState.PENDING, "account", charge=0)
        reason = "too_large" if fault is Fault.TOO_LARGE else failure.type
        return self._failed(
            member, failure, ItemState.QUARANTINED, reason or "invalid_request_error"
        )

    def _failed(
        self,
        member: Member,
        failure: Failure,
        state: ItemState,
        reason: str,
        *,
        charge: int = 1,
    ) -> Settlement:
        spent = member.used + charge >= self._ctx.retry.max_attempts
        if state is ItemState.PENDING and charge and spent:
            state, reason = ItemState.UNRESOLVED, "exhausted"
        error = ItemError(
            type=failure.type or "no_answer",
            message=str(failure),
            request_id=failure.request_id,
            code=failure.code,
        )
        return Settlement(
            seq=member.seq,
            state=state,
            reason=reason,
            error=error,
            charge=charge,
            via="sync",
            org=self._org.label,
        )

    # -- making it durable --------------------------------------------------------------------

    async def _write(self, job: _Job) -> None:
        """Write what has come, together, until everything was asked and nothing is left."""
        try:
            while not (job.asked_all and not job.outbox):
                if job.outbox:
                    await self._write_group(job)
                else:
                    await job.filled.wait()
                    job.filled = anyio.Event()
        finally:
            # Paid for: also where the time to linger is over, what has come is kept.
            with anyio.CancelScope(shield=True):
                while job.outbox:
                    await self._write_group(job)

    async def _write_group(self, job: _Job) -> None:
        group, job.outbox = job.outbox[:GROUP], job.outbox[GROUP:]
        judged = await judge_settlements(self._ctx, job.members, group)
        settled = await self._ctx.settle(job.shard, judged, job.members)
        job.results.update(RESULT_OF[said.state] for said in judged)
        job.late += settled.count("late")
        applied = [
            said.state for said, what in zip(judged, settled, strict=True) if what == "applied"
        ]
        self._ctx.emit(
            ItemsMerged(
                run_id=self._ctx.run_id,
                shard=job.shard.number,
                batch_id=None,
                succeeded=applied.count(ItemState.SUCCEEDED),
                quarantined=applied.count(ItemState.QUARANTINED),
                rejected=applied.count(ItemState.REJECTED),
                unresolved=applied.count(ItemState.UNRESOLVED),
                again=applied.count(ItemState.PENDING),
                late=sum(what == "late" for what in settled),
            )
        )
        self._ctx.wake()


def _is_open_in(shard: Shard, member: Member) -> bool:
    """Tell whether an item had no answer, and was in flight in *shard*, when that was begun."""
    return member.shard == shard.number and member.state is ItemState.IN_FLIGHT


def answer_of(seq: int, org: str, raw: bytes, message: Mapping[str, Any]) -> Settlement:
    """Return what a direct answer settles; *raw* is the message as it came."""
    return Settlement(
        seq=seq,
        state=ItemState.SUCCEEDED,
        via="sync",
        org=org,
        raw=b'{"type":"succeeded","message":' + raw + b"}",
        tokens=tokens_of(message),
        model=str(message.get("model") or ""),
        flag=flag_of(message),
    )


def message_in(body: bytes) -> dict[str, Any] | None:
    """Return the message that *body* holds, or `None` where it is none, whatever its status."""
    try:
        message = load_json(body)
    except ValueError:
        return None
    return message if isinstance(message, dict) and message.get("type") == "message" else None


def needs_stream(body: bytes) -> bool:
    """Tell whether the item asks for so many tokens that its answer must be streamed."""
    # The bytes are looked at before they are parsed: few items ask for that much.
    place = body.find(_ASKED_TOKENS)
    while place >= 0:
        digits = body[place + len(_ASKED_TOKENS) : place + len(_ASKED_TOKENS) + 7]
        if sum(48 <= digit <= 57 for digit in digits) >= 5:
            return int(orjson.loads(body)["max_tokens"]) > STREAM_ABOVE_TOKENS
        place = body.find(_ASKED_TOKENS, place + 1)
    return False
