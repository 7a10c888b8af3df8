"""
Settling a create whose answer was lost: look it up, adopt it, or know that it was never made.

Until that is decided nothing of the shard is sent. Where it cannot be decided the shard is held
for a person, and looked at again in every later wave.
"""

from __future__ import annotations

from contextlib import aclosing
from dataclasses import replace
from datetime import timedelta
from typing import Any

from batchwright._api import CallFailed
from batchwright._batches import WINDOW, BatchObject, oldest
from batchwright._clock import clock
from batchwright._context import RunContext
from batchwright._doubt import SLACK, Doubt, Finding, Listing, Next, assess
from batchwright._faults import Failure, Fault, classify
from batchwright._gateway import CREATE_TIMEOUT
from batchwright._org import OrgLink
from batchwright._shelf import custom_ids, list_page
from batchwright.events import CreateSettled
from batchwright.store import FINAL, ItemState, Settlement, Shard, ShardState

#: A batch that was made is listed after so many polling intervals at the latest.
VISIBLE_INTERVALS = 5
#: Pages of one lookup: a workspace may hold thousands of foreign batches.
MAX_PAGES = 20
#: Looks that may fail in a row before the shard is held.
MAX_FAILURES = 5
#: Items given back at once.
CHUNK = 250


class Settling:
    """One shard in doubt."""

    def __init__(self, ctx: RunContext, org: OrgLink, shard: Shard, *, dead: bool) -> None:
        """
        Prepare the lookup.

        Args:
            ctx: The run.
            org: The org that sent it.
            shard: The shard, SENDING or held as ambiguous.
            dead: Whether whoever sent it certainly sends no more.
        """
        self._ctx = ctx
        self._org = org
        self._shard = shard
        self._strangers: set[str] = set()
        self._ours: set[str] = set()
        self._listed = Listing(batches=(), complete=False)
        sent = shard.sent_at or shard.planned_at
        limit = timedelta(seconds=CREATE_TIMEOUT)
        self._sent = sent
        self._latest = sent + limit
        # The server's books may lag behind, and only our own clock tells for how long we looked.
        self._visible_at = clock().monotonic() + VISIBLE_INTERVALS * ctx.polling.interval
        self._silent_after = sent if dead else sent + limit
        self._proof_only = False
        # A batch that might be ours ends by its own expiry; then its first line decides.
        self._give_up = sent + limit + WINDOW + timedelta(seconds=min(ctx.polling.grace, 3.0e8))
        if not shard.facts.get("server_clock"):
            # Sent by our own clock alone, which may be off: a day on either side, and a proof.
            self._sent -= WINDOW
            self._latest += WINDOW
            self._proof_only = True

    @property
    def shard(self) -> Shard:
        """The shard as it stands."""
        return self._shard

    async def run(self) -> Shard:
        """Return the shard LIVE (found), DONE (never made, its items wait), or as it was."""
        failures = 0
        while self._org.stop is None or not self._org.shut:
            finding = await self._look()
            failures = failures + 1 if finding is None else 0
            if finding is not None and finding.next is Next.ADOPT:
                return await self._adopt(finding.batches[0])
            if finding is not None and finding.next is Next.ABSENT:
                return await self._absent()
            if failures >= MAX_FAILURES or self._org.now() > self._give_up:
                return self._shard
            await clock().sleep(self._ctx.polling.interval)
        return self._shard

    async def _look(self) -> Finding | None:
        """List, read first lines where batches have ended, and assess; `None` where it failed."""
        # What the list can tell is what was true when it was asked for, however long it took.
        doubt = self._doubt()
        try:
            found, complete = await self._list()
            # In this order: a create of ours that made one of these is still out, or known.
            doubt = replace(doubt, rivals=await self._ctx.rivals(self._shard))
            finding = assess(doubt, await self._listing(found, complete=complete))
            if finding.next is not Next.CHECK:
                return finding
            for batch in finding.batches:
                await self._check(batch)
        except CallFailed as failed:
            if classify(failed.failure) is Fault.ACCOUNT:
                self._org.shut = True
                self._ctx.halt(self._org, "account", str(failed.failure), failed.failure.kind)
            return None
        # The same moment, with what the lines proved.
        return assess(doubt, replace(self._listed, **self._proofs()))

    def _doubt(self) -> Doubt:
        return Doubt(
            count=self._shard.count,
            sent_at=self._sent,
            latest=self._latest,
            overdue=self._is_overdue(),
            proof_only=self._proof_only,
        )

    def _is_overdue(self) -> bool:
        """Tell whether the batch, had it been made, would be listed by now."""
        looked_long = clock().monotonic() >= self._visible_at
        return looked_long and self._org.now() >= self._silent_after

    async def _list(self) -> tuple[list[BatchObject], bool]:
        """Read the workspace's batches back to the start of the window, if that can be reached."""
        found: list[BatchObject] = []
        cursor: str | None = None
        complete = False
        for _ in range(MAX_PAGES):
            page, cursor = await list_page(self._org, cursor)
            found.extend(page)
            earliest = oldest(page)
            complete = cursor is None or (earliest is not None and earliest < self._sent - SLACK)
            if complete:
                break
        return found, complete

    async def _listing(self, found: list[BatchObject], *, complete: bool) -> Listing:
        """Return what was listed, with what we know of it."""
        known, claimed = await self._ctx.known_batches(self._shard)
        self._listed = Listing(
            batches=found, complete=complete, known=known, claimed=claimed, **self._proofs()
        )
        return self._listed

    def _proofs(self) -> dict[str, Any]:
        return {"strangers": frozenset(self._strangers), "ours": frozenset(self._ours)}

    async def _check(self, batch: BatchObject) -> None:
        """Read the lines of an ended batch: one that is ours proves that it is ours."""
        ours = await self._holds_ours(batch.id)
        (self._ours if ours else self._strangers).add(batch.id)

    async def prove(self, shard: Shard) -> bool:
        """
        Tell whether an adopted batch that has ended is ours; it was adopted by count and time.

        Where it is not, the shard is in doubt again.

        Raises:
            CallFailed: Its results cannot be read now.
        """
        assert shard.batch_id is not None, "an adopted shard has a batch"
        if await self._holds_ours(shard.batch_id):
            return True
        self._strangers.add(shard.batch_id)
        self._tell("not ours", shard.batch_id)
        self._shard = await self._ctx.move(
            shard,
            ShardState.SENDING,
            batch_id=None,
            expires_at=None,
            ended_at=None,
            counts=None,
            # Statuses that were seen were those of the stranger.
            facts={"adopted": False, "seen": []},
        )
        return False

    async def _holds_ours(self, batch_id: str) -> bool:
        """
        Tell whether a result line of the batch is ours.

        The first one decides nearly always. But a stray line must not make our batch a stranger's,
        so only a whole body without a line of ours does.
        """
        members = await self._ctx.store.read_members(self._ctx.run_id, self._shard.number)
        ours = {member.custom_id for member in members}
        lines = 0
        async with aclosing(custom_ids(self._org, batch_id)) as found:
            async for custom_id in found:
                lines += 1
                if custom_id in ours:
                    return True
        if lines:
            return False
        text = f"the results of batch {batch_id} hold no line to tell whose they are"
        raise CallFailed(Failure(call="results", message=text))

    # -- the decision -------------------------------------------------------------------------

    async def _adopt(self, batch: BatchObject) -> Shard:
        self._tell("adopted", batch.id)
        return await self._ctx.move(
            self._shard,
            ShardState.LIVE,
            reason=None,
            batch_id=batch.id,
            created_at=batch.created_at or self._sent,
            expires_at=batch.expires_at,
            # On trial until a line of it is seen; one that was seen already is proof enough.
            facts={"adopted": batch.id not in self._ours, "workspace": self._org.workspace},
        )

    async def _absent(self) -> Shard:
        """Let the items wait again, uncharged: the server never had them."""
        self._tell("never made", None)
        self._org.never_made += 1
        if self._org.never_made >= self._ctx.retry.call_attempts:
            text = f"{self._org.never_made} creates in a row got no answer and made no batch"
            self._ctx.halt(self._org, "interrupted", f"{text}; look at the network or the proxy")
        members = await self._ctx.store.read_members(self._ctx.run_id, self._shard.number)
        back = [
            Settlement(seq=m.seq, state=ItemState.PENDING, charge=0)
            for m in members
            if m.shard == self._shard.number and m.state not in FINAL
        ]
        for start in range(0, len(back), CHUNK):
            part = back[start : start + CHUNK]
            await self._ctx.settle(self._shard, part, {m.seq: m for m in members})
        return await self._ctx.move(self._shard, ShardState.DONE, reason="absent")

    def _tell(self, verdict: str, batch_id: str | None) -> None:
        self._ctx.emit(
            CreateSettled(
                run_id=self._ctx.run_id,
                shard=self._shard.number,
                org=self._org.label,
                count=self._shard.count,
                verdict=verdict,
                batch_id=batch_id,
            )
        )
