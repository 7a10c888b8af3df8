"""
From a planned shard to a batch on the server: intent, create, record.

The intent is durable before the POST leaves, the batch id before anything else happens. A create
whose answer is lost is not repeated: its items are held.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence

import anyio
import orjson

from batchwright._api import CallFailed, Reply
from batchwright._batches import BatchObject, read_batch
from batchwright._clock import clock
from batchwright._context import FRESH, RunContext
from batchwright._faults import Failure, Fault, classify, named_index
from batchwright._gateway import CREATE_TIMEOUT
from batchwright._org import OrgLink
from batchwright._pace import PARK_ABOVE, retry_wait
from batchwright._shards import halves
from batchwright._wire import HEAD, TAIL, entries
from batchwright.events import CreateUnknown, ShardRefused, ShardSubmitted
from batchwright.store import ItemState, Member, Rest, Settlement, Shard, ShardState
from batchwright.types import ItemError

#: Begin of the name under which the largest body that an org's server takes is remembered.
MAX_BYTES = "max_bytes/"
#: Bytes of bodies read from the store at once while uploading.
PAGE_BYTES = 1_000_000


class Submission:
    """One shard on its way out."""

    def __init__(self, ctx: RunContext, org: OrgLink, shard: Shard) -> None:
        self._ctx = ctx
        self._org = org
        self._shard = shard
        self._tries = 0
        self._intended_at = 0.0
        self._began_late = ctx.leaves_batches
        #: Parts to send as shards of their own: the halves of a body with a bad item in it.
        self.parts: Sequence[Sequence[int]] = ()

    def _is_stopped(self) -> bool:
        """Tell whether this shard is not to be sent after all."""
        return self._org.no_batches or self._leaves or self._org.stop is not None

    @property
    def _leaves(self) -> bool:
        """Whether its items are to go directly now; what is sent since fits only a batch."""
        return self._ctx.leaves_batches and not self._began_late

    async def run(self) -> Shard:
        """Return the shard LIVE, DONE with its items waiting again, or SENDING: in doubt."""
        while self._shard.state is ShardState.PLANNED:
            await self._org.gate.turn()
            if self._is_stopped():
                # It may have been let through as the probe: the next one must not wait for it.
                self._org.gate.leave()
                stop = self._org.stop
                return await self._give_back("stopped", stop.reason if stop else None)
            await self._attempt()
        return self._shard

    async def _attempt(self) -> None:
        # Shielded from here to the recorded id: an interruption waits for the one answer that
        # tells whether this batch exists.
        try:
            await self._intend()
            with anyio.CancelScope(shield=True):
                batch = await self._create()
                await self._record(batch)
        except CallFailed as failed:
            self._tries += 1
            await self._refused(failed.failure)
        except BaseException:
            self._org.gate.leave()
            raise

    async def _intend(self) -> None:
        """Make durable that this shard is about to be sent, and when, on the server's clock."""
        self._intended_at = clock().awake()
        self._shard = await self._ctx.move(
            self._shard,
            ShardState.SENDING,
            sent_at=self._org.now(),
            facts={"server_clock": self._org.time.known, "workspace": self._org.workspace},
        )
        self._ctx.active[self._shard.number] = self._shard

    async def _create(self) -> BatchObject:
        org = self._org
        await org.spend()
        while clock().awake() - self._intended_at > FRESH:
            # Waited or slept since: a lost create is looked for around the time that is stored.
            await self._intend()
        shard = self._shard
        headers = orjson.loads(shard.headers) if shard.headers else {}
        body = upload(self._ctx, shard, self._intended_at)
        reply: Reply = await org.gateway.create(body, shard.size, headers)
        org.learn(reply)
        batch = read_batch(reply.data)
        if batch is None:
            text = "the answer to a create names no batch"
            raise CallFailed(Failure(call="create", status=200, message=text))
        return batch

    async def _record(self, batch: BatchObject) -> None:
        self._shard = await self._ctx.move(
            self._shard,
            ShardState.LIVE,
            batch_id=batch.id,
            created_at=batch.created_at or self._org.now(),
            expires_at=batch.expires_at,
            facts={"workspace": self._org.workspace},
        )
        self._org.gate.open()
        self._org.never_made = 0
        if self._org.full_at is not None:
            queued = await self._ctx.queued(self._org)
            self._org.full_at = max(self._org.full_at, queued + self._shard.count)
        self._ctx.emit(
            ShardSubmitted(
                run_id=self._ctx.run_id,
                shard=self._shard.number,
                org=self._org.label,
                batch_id=batch.id,
                count=self._shard.count,
                size=self._shard.size,
                expires_at=batch.expires_at,
            )
        )

    # -- refusals -----------------------------------------------------------------------------

    async def _refused(self, failure: Failure) -> None:
        """Do what follows from a create that did not succeed."""
        fault = classify(failure)
        if fault is not Fault.BUSY:
            self._org.gate.leave()
        if fault is Fault.UNKNOWN:
            self._tell_unknown(failure)
        elif fault in {Fault.BUSY, Fault.MOMENT}:
            await self._wait_or_give_up(failure, fault)
        elif fault is Fault.TOO_LARGE:
            await self._too_large(failure)
        elif fault is Fault.ENVELOPE:
            await self._isolate(failure)
        else:
            if failure.status == 403:
                self._ctx.forbid_batches(self._org, str(failure), failure.kind)
            else:
                self._ctx.halt(self._org, "account", str(failure), failure.kind)
            self._tell(failure, "the org is paused, its items wait")
            await self._give_back("account", "account", failure)

    def _tell_unknown(self, failure: Failure) -> None:
        """Leave the shard SENDING: whether the server has it is for the lookup to find out."""
        self._ctx.emit(
            CreateUnknown(
                run_id=self._ctx.run_id,
                shard=self._shard.number,
                org=self._org.label,
                count=self._shard.count,
                why=str(failure),
            )
        )

    async def _wait_or_give_up(self, failure: Failure, fault: Fault) -> None:
        # A refusal is definite, so the shard is certainly unsent again, and says so durably.
        self._shard = await self._ctx.move(self._shard, ShardState.PLANNED)
        retry = self._ctx.retry
        queued = await self._ctx.queued(self._org) if fault is Fault.BUSY else 0
        others_live = queued > 0
        hours = (failure.retry_after or 0.0) > PARK_ABOVE
        if others_live:
            # A full queue is no failure of the create, however long it lasts.
            self._tries = 1
        if self._is_stopped():
            self._org.gate.leave()
            return
        if hours or (self._tries >= retry.call_attempts and not others_live):
            self._ctx.halt(self._org, "interrupted", f"creates are refused: {failure}")
            self._org.gate.leave()
            return
        wait = retry_wait(self._tries, failure.retry_after, retry, clock().random())
        self._org.tell_retry("create", self._tries, wait, str(failure))
        if fault is Fault.BUSY:
            if others_live:
                self._org.full_at = queued
            self._org.gate.close(wait)
        else:
            await clock().sleep(wait)

    async def _too_large(self, failure: Failure) -> None:
        if self._shard.count == 1:
            await self._quarantine_single(failure, "too_large")
            return
        self._ctx.max_bytes = min(self._ctx.max_bytes, max(self._shard.size // 2, 1))
        await self._ctx.store.put_facts(
            self._ctx.lease, {f"{MAX_BYTES}{self._org.label}": self._ctx.max_bytes}
        )
        self._tell(failure, f"cut into parts of at most {self._ctx.max_bytes:,} bytes")
        await self._give_back("split", None)

    async def _isolate(self, failure: Failure) -> None:
        """Find the one bad item of a refused body: by the index the server names, or by halving."""
        if self._shard.count == 1:
            await self._quarantine_single(failure, failure.type or "invalid_request_error")
            return
        members = await self._ctx.store.read_members(self._ctx.run_id, self._shard.number)
        index = named_index(failure.message)
        if index is not None and index < len(members):
            self._tell(failure, f"item {members[index].id!r} is quarantined, the others go on")
            await self._quarantine(members[index], failure, failure.type)
            rest = [m.seq for m in members if m.seq != members[index].seq]
            await self._part((rest,))
        else:
            self._tell(failure, "halved to find the item at fault")
            await self._part(halves([m.seq for m in members]))

    async def _part(self, parts: Sequence[Sequence[int]]) -> None:
        """Let the items go on in parts, each as a shard of its own."""
        if self._ctx.send_parts is None:
            self.parts = parts
        else:
            # Others cut what waits: these may not wait for a moment, or they mix with the rest.
            await self._ctx.send_parts(self._shard, parts)
        await self._give_back("split", None)

    async def _quarantine_single(self, failure: Failure, reason: str) -> None:
        (member,) = await self._ctx.store.read_members(self._ctx.run_id, self._shard.number)
        self._tell(failure, f"item {member.id!r} is quarantined")
        await self._quarantine(member, failure, reason)
        self._shard = await self._ctx.move(self._shard, ShardState.DONE, reason="refused")

    async def _quarantine(self, member: Member, failure: Failure, reason: str | None) -> None:
        settlement = Settlement(
            seq=member.seq,
            state=ItemState.QUARANTINED,
            reason=reason or "invalid_request_error",
            error=_error_of(failure),
            org=self._org.label,
        )
        await self._ctx.settle(self._shard, [settlement], {member.seq: member})

    async def _give_back(
        self, why: str, reason: str | None, failure: Failure | None = None
    ) -> Shard:
        """Let the items wait again, uncharged: this shard was certainly not taken."""
        error = _error_of(failure) if failure else None
        rest = Rest(state=ItemState.PENDING, reason=reason, error=error)
        self._shard = await self._ctx.move(self._shard, ShardState.DONE, reason=why, rest=rest)
        return self._shard

    def _tell(self, failure: Failure, action: str) -> None:
        self._ctx.emit(
            ShardRefused(
                run_id=self._ctx.run_id,
                shard=self._shard.number,
                org=self._org.label,
                status=failure.status,
                error=failure.type or "",
                message=failure.message,
                action=action,
            )
        )


async def upload(ctx: RunContext, shard: Shard, intended_at: float) -> AsyncIterator[bytes]:
    """
    Yield the request body of *shard* in pages of stored bytes.

    Before each page, and before the end that makes the body whole, the run is proved to be ours:
    an owner that was paused and succeeded cannot finish a create. Nor can one that slept so long
    that nobody would look for its batch where it would be made.

    Raises:
        RunLocked: Somebody took the run over.
        CallFailed: It took longer than a create may; the server never had a whole body.
    """
    yield HEAD
    first, after = True, -1
    while page := await ctx.store.read_bodies(ctx.run_id, shard.number, after, PAGE_BYTES):
        await ctx.stay_owner()
        yield entries(((body.custom_id, body.body) for body in page), first=first)
        first, after = False, page[-1].seq
    await ctx.stay_owner()
    if clock().awake() - intended_at > CREATE_TIMEOUT:
        text = "the machine slept in the middle of the upload; it is begun again"
        raise CallFailed(Failure(call="create", message=text, sent=False))
    yield TAIL


def _error_of(failure: Failure) -> ItemError:
    return ItemError(
        type=failure.type or ("no_answer" if failure.status is None else "http_error"),
        message=str(failure),
        request_id=failure.request_id,
        code=failure.code,
    )
