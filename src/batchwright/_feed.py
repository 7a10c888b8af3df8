"""
Calls on their way into a run while it goes on, and out of it again.

A run is one job with one owner, and calls come when they come. So each group of them is an intake
of its own under the owner's lease: before a wave begins, or while one is under way and looks for
more. A call is answered when its outcome is durable, and an item whose caller was told that it has
no answer is asked anew when the same is called again.
"""

from __future__ import annotations

import re
from collections import Counter, deque
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from dataclasses import replace

from anyio.lowlevel import checkpoint

from batchwright._cache import answer_from_earlier
from batchwright._context import RunContext
from batchwright._gather import Call
from batchwright._org import Stop
from batchwright.events import Event, ShardHeld
from batchwright.result import pages
from batchwright.store import FINAL, ItemState, NewItem, OnChanged, Row, Settlement
from batchwright.types import ItemError, Outcome

#: Items written at once.
CHUNK = 1_000
#: Calls that are told in one turn of the loop.
SLICE = 50
#: Waves that may end without an outcome for a call, which the next one takes up, before it is told.
MOST_WAVES = 3
#: Reasons that the next wave takes up by itself: nothing to tell anybody yet.
_TAKEN_UP = frozenset({"missing", "unreadable"})
#: Reasons of items that are asked anew when they are called again: nobody answered them.
_ASKED_ANEW = frozenset({"exhausted", "canceled"})

#: Ids of calls: the digest of the question, and which of its samples it is.
_ID = re.compile(r"[0-9a-f]{32}-[1-9][0-9]*")

_WITHDRAWN = ItemError(
    type="canceled", message="it was not sent, and nobody waits for it; called again it is sent"
)
_REPLACED = ItemError(type="replaced", message="it is about to be asked anew")


class Feed:
    """The calls of one run and one event loop, from when they have gathered until they are told."""

    def __init__(self, *, cache: bool = False) -> None:
        """
        Begin without calls.

        Args:
            cache: Whether calls take answers of other runs in the store.
        """
        self._cache = cache
        self._groups: deque[list[Call]] = deque()
        self._waiting: dict[str, Call] = {}
        self._held: list[ShardHeld] = []
        #: What was held in the present wave, which does not look at it a second time.
        self._held_now: dict[str, Outcome] = {}
        self._ctx: RunContext | None = None
        self._emit: Callable[[Event], None] | None = None

    # -- calls --------------------------------------------------------------------------------

    def put(self, calls: list[Call]) -> None:
        """Take a group of calls; a wave that is under way takes it in at its next turn."""
        self._groups.append(calls)
        if self._ctx is not None:
            self._ctx.wake()

    def is_wanted(self) -> bool:
        """Tell whether somebody waits."""
        return any(not call.answer.done() for call in self._calls())

    def fail(self, error: BaseException) -> None:
        """Tell everybody that waits of what stopped the run."""
        self._end(lambda call: call.answer.set_exception(error))

    def drop(self, outcome: Outcome) -> None:
        """Tell everybody that waits that it ends here, with *outcome*."""
        self._end(lambda call: call.answer.set_result(outcome))

    def _calls(self) -> Iterable[Call]:
        yield from self._waiting.values()
        for group in self._groups:
            yield from group

    def _end(self, tell: Callable[[Call], None]) -> None:
        for call in self._calls():
            if not call.answer.done():
                tell(call)
        self._groups.clear()
        self._waiting.clear()
        self._ctx = None

    # -- one wave -----------------------------------------------------------------------------

    async def open(self, ctx: RunContext) -> None:
        """
        Take in what has come before a wave begins, and follow the wave.

        What an earlier process read in and did not send stays behind, unless it is called again:
        nobody waits for it, and it would be paid for.
        """
        self._held_now.clear()
        self._held.clear()
        self._ctx, self._emit = ctx, ctx.emit
        ctx.emit, ctx.deliver, ctx.join = self._hear, self._deliver, self._join
        ctx.tells = FINAL | {ItemState.UNRESOLVED}
        await self._take_groups()
        if self._cache:
            await answer_from_earlier(ctx)
        await self._withdraw(
            [
                row.seq
                async for row in _waiting(ctx)
                if row.outcome.id not in self._waiting and _ID.fullmatch(row.outcome.id)
            ]
        )

    async def close(self, stops: Sequence[Stop]) -> None:
        """Tell those who still wait when a wave has ended, unless the next one may help."""
        await self._tell_held()
        if self._waiting:
            await self._tell_rest(stops)
        self._ctx = None

    async def _tell_rest(self, stops: Sequence[Stop]) -> None:
        ctx = self._here()
        unsent: list[int] = []
        kept = set()
        async for row in _unanswered(ctx):
            call = self._waiting.get(row.outcome.id)
            if call is None:
                continue
            if self._may_still_come(call, row, stops):
                kept.add(row.outcome.id)
                continue
            self._tell(row.outcome.id, _told(row, stops))
            if row.state is ItemState.PENDING:
                unsent.append(row.seq)
        await self._withdraw(unsent)
        assert self._waiting.keys() <= kept, "an answer is told when it is settled"

    def _may_still_come(self, call: Call, row: Row, stops: Sequence[Stop]) -> bool:
        """Tell whether another wave is worth waiting for."""
        if call.answer.done() or (row.state is ItemState.UNRESOLVED and not _is_taken_up(row)):
            return False
        call.waves += 1
        return not stops and call.waves < MOST_WAVES

    # -- taking in ----------------------------------------------------------------------------

    async def _join(self) -> Mapping[str, int]:
        """Take in what has come during a wave; return how many items wait more, by headers."""
        await self._tell_held()
        return await self._take_groups(cache=self._cache)

    async def _take_groups(self, *, cache: bool = False) -> Counter[str]:
        more: Counter[str] = Counter()
        while self._groups:
            calls = [call for call in self._groups.popleft() if not call.answer.done()]
            if calls:
                more.update(await self._take_in(calls, cache=cache))
        return more

    async def _take_in(self, calls: Sequence[Call], *, cache: bool) -> Counter[str]:
        ctx = self._here()
        asked = {call.row.id: call.row for call in calls}
        self._waiting.update((call.row.id, call) for call in calls)
        info = await ctx.store.read_run(ctx.run_id)
        assert info is not None, "the run exists while we hold its lease"
        known = info.items
        intake = await self._stage(list(asked.values()))
        anew: list[NewItem] = []
        async for row in pages(ctx.store, ctx.run_id, intake=intake):
            if row.state is ItemState.UNRESOLVED and row.outcome.reason in _ASKED_ANEW:
                anew.append(asked[row.outcome.id])
            else:
                self._tell_known(row)
            if row.position % SLICE == 0:
                # Whoever was told builds a message, and others have their turn in between.
                await checkpoint()
        if anew:
            await self._ask_anew(anew)
        if cache:
            await answer_from_earlier(ctx, first=known)
        again = {row.id for row in anew}
        return Counter(
            [
                asked[row.outcome.id].headers
                async for row in _waiting(ctx, intake)
                if row.seq >= known or row.outcome.id in again
            ]
        )

    async def _stage(self, rows: Sequence[NewItem], *, replace_known: bool = False) -> int:
        """Write *rows* as one intake; return its number."""
        store, lease = self._here().store, self._here().lease
        intake = await store.begin_intake(lease)
        for start in range(0, len(rows), CHUNK):
            part = [
                replace(row, position=place)
                for place, row in enumerate(rows[start : start + CHUNK], start)
            ]
            on_changed: OnChanged = "rerun" if replace_known else "error"
            staged = await store.stage(lease, intake, part, on_changed)
            assert not staged.clashes, "an id holds its question, and is called once at a time"
        await store.commit_intake(lease, intake)
        return intake

    async def _ask_anew(self, rows: Sequence[NewItem]) -> None:
        """
        Let items wait as if they had never been asked.

        A question is only replaced by another one, so an empty one stands between the two. The
        tries that are forgotten with it are missed in the run's books, which are told so.
        """
        ctx = self._here()
        await ctx.store.put_facts(ctx.lease, {"replaced": True})
        empty = [
            replace(row, digest=b"", body=b"", refusal=_REPLACED, reason="replaced") for row in rows
        ]
        await self._stage(empty, replace_known=True)
        await self._stage(rows)

    def _tell_known(self, row: Row) -> None:
        """Tell what stands already."""
        if row.state in FINAL:
            self._tell(row.outcome.id, row.outcome)
        elif row.outcome.id in self._held_now:
            self._tell(row.outcome.id, self._held_now[row.outcome.id])

    # -- telling ------------------------------------------------------------------------------

    def _hear(self, event: Event) -> None:
        assert self._emit is not None, "heard while a wave is followed"
        self._emit(event)
        if isinstance(event, ShardHeld):
            self._held.append(event)
            if self._ctx is not None:
                self._ctx.wake()

    async def _deliver(self, outcomes: Sequence[Outcome]) -> None:
        for outcome in outcomes:
            if outcome.status != "unresolved" or outcome.reason not in _TAKEN_UP:
                self._tell(outcome.id, outcome)

    async def _tell_held(self) -> None:
        """Tell those whose sub-batch is held for a person."""
        ctx = self._here()
        while self._held:
            event = self._held.pop()
            error = ItemError(type=event.reason, message=event.remedy)
            for member in await ctx.store.read_members(ctx.run_id, event.shard):
                if member.state is ItemState.UNRESOLVED and member.shard == event.shard:
                    outcome = Outcome(
                        id=member.id,
                        custom_id=member.custom_id,
                        status="unresolved",
                        reason=event.reason,
                        error=error,
                        attempts=member.attempts,
                        org=event.org,
                        batch_id=event.batch_id,
                    )
                    self._held_now[member.id] = outcome
                    self._tell(member.id, outcome)

    def _tell(self, item_id: str, outcome: Outcome) -> None:
        call = self._waiting.pop(item_id, None)
        if call is not None and not call.answer.done():
            call.answer.set_result(outcome)

    # -- what nobody waits for ----------------------------------------------------------------

    async def _withdraw(self, seqs: Sequence[int]) -> None:
        """Let items that wait to be sent end without an answer, until they are called again."""
        ctx = self._here()
        for start in range(0, len(seqs), CHUNK):
            said = [
                Settlement(
                    seq=seq,
                    state=ItemState.UNRESOLVED,
                    reason="canceled",
                    error=_WITHDRAWN,
                    charge=0,
                )
                for seq in seqs[start : start + CHUNK]
            ]
            await ctx.store.settle(ctx.lease, None, said)

    def _here(self) -> RunContext:
        assert self._ctx is not None, "calls are taken in while a wave is followed"
        return self._ctx


async def _unanswered(ctx: RunContext, intake: int | None = None) -> AsyncIterator[Row]:
    """Yield the items of the run, or of one intake, that have not succeeded."""
    rows = pages(ctx.store, ctx.run_id, intake=intake, succeeded=False, raw=False)
    async for row in rows:
        yield row


async def _waiting(ctx: RunContext, intake: int | None = None) -> AsyncIterator[Row]:
    """Yield those of them that wait to be sent."""
    async for row in _unanswered(ctx, intake):
        if row.state is ItemState.PENDING:
            yield row


def _is_taken_up(row: Row) -> bool:
    return row.outcome.reason in _TAKEN_UP


def _told(row: Row, stops: Sequence[Stop]) -> Outcome:
    """Return what the caller is told of an item that has no outcome when its last wave ends."""
    told = row.outcome
    if row.state is ItemState.UNRESOLVED and not _is_taken_up(row):
        return told
    if stops:
        stop = stops[0]
        kind = stop.kind or ("permission_error" if stop.reason == "account" else "no_answer")
        return replace(told, reason=stop.reason, error=ItemError(type=kind, message=stop.message))
    text = f"its results could not be read in {MOST_WAVES} waves; called again it is looked at anew"
    error = told.error or ItemError(type="unreadable", message=text)
    return replace(told, reason=told.reason or "unreadable", error=error)
