"""
The results of an ended batch, line by line into the store.

Raw bytes, split at 0x0A only, matched by `custom_id`, merged in chunks, idempotent: a broken or
repeated download is harmless. At the end the ids received are reconciled with the ids sent.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Iterator, Sequence
from contextlib import aclosing
from dataclasses import replace
from enum import Enum, auto
from typing import Any

from anyio.lowlevel import checkpoint

from batchwright._api import CallFailed
from batchwright._clock import clock
from batchwright._context import RunContext
from batchwright._faults import Fault, classify
from batchwright._judge import judge_settlements
from batchwright._lines import Line, LineSplitter, Reading, parse_line, settle_line
from batchwright._org import OrgLink
from batchwright._pace import retry_wait
from batchwright._tally import Tally
from batchwright.events import Anomaly, BatchHarvested, ItemsMerged, ResultsReread
from batchwright.store import FINAL, ItemState, Member, Rest, Settled, Settlement, Shard, ShardState
from batchwright.types import ItemError

#: A chunk of lines becomes durable together: at most so many, at most so many bytes.
CHUNK_LINES = 2_000
CHUNK_BYTES = 2_000_000
#: The loop gets its turn after so many of them.
TURN_LINES = 250
#: Members are entered so many at a time.
SLICE = 5_000
#: A stream that ended properly but lacks lines is read this often in all.
SHORT_READS = 2
#: Ids named in an anomaly.
EXAMPLES = 5


class Got(Enum):
    """What a read of the results came to."""

    #: Every id that was sent has its line.
    ALL = auto()
    #: The stream ended properly, but ids are missing.
    SHORT = auto()
    #: The stream broke, or could not be opened.
    BROKEN = auto()
    #: The server says there is nothing (404).
    NOTHING = auto()
    #: The account may not read.
    ACCOUNT = auto()


class Harvest:
    """Reads one ended batch."""

    def __init__(self, ctx: RunContext, org: OrgLink, shard: Shard) -> None:
        assert shard.batch_id is not None, "only a created batch has results"
        self._ctx = ctx
        self._org = org
        self.shard = shard
        self._id: str = shard.batch_id
        self._members: dict[str, Member] = {}
        self._by_seq: dict[int, Member] = {}
        self._tally = Tally()
        self._rereads: int = shard.facts.get("rereads", 0)
        self._why = ""
        self._asked_wait: float | None = None
        self._reading = Reading(
            org=org.label,
            batch_id=shard.batch_id,
            cancel=shard.cancel,
            max_attempts=ctx.retry.max_attempts,
            charge=0 if shard.facts.get("charged") else 1,
        )

    async def run(self) -> Got:
        """Read until everything is there or the tries are used up; settle what is missing."""
        await self._load()
        got = await self._read_repeatedly()
        self._tell_anomalies()
        if got in {Got.ALL, Got.SHORT}:
            await self._finish()
        return got

    async def peek(self) -> None:
        """Read once what there may be of a batch that has not ended; nothing is concluded."""
        await self._load()
        await self._read_once()

    async def _load(self) -> None:
        """Learn what was sent in it; there may be 100,000, so others get their turn in between."""
        members = await self._ctx.store.read_members(self._ctx.run_id, self.shard.number)
        for start in range(0, len(members), SLICE):
            part = members[start : start + SLICE]
            self._members.update({member.custom_id: member for member in part})
            self._by_seq.update({member.seq: member for member in part})
            await checkpoint()

    async def leave_unread(self) -> None:
        """Leave it for the next wave, with the reason: its items stay in it, nothing is lost."""
        facts = {"unreadable": self._why, "rereads": self._rereads}
        self.shard = await self._ctx.move(
            self.shard, ShardState.ENDED, reason="unreadable", facts=facts
        )

    def facts(self) -> dict[str, Any]:
        """Return what the last reading came to, for the report."""
        odd = {
            kind: {"count": count, "examples": examples[:EXAMPLES]}
            for kind, count, examples in self._anomalies()
            if count
        }
        told = self._tally.facts(len(self._members))
        return {**told, "rereads": self._rereads, "anomalies": odd}

    # -- reading ------------------------------------------------------------------------------

    async def _read_repeatedly(self) -> Got:
        attempts = self._ctx.retry.call_attempts
        short = 0
        for attempt in range(1, attempts + 1):
            self._tally = Tally()
            got = await self._read_once()
            short += got is Got.SHORT
            if got in {Got.ALL, Got.ACCOUNT} or short >= SHORT_READS:
                return got
            if attempt == attempts:
                # One short read alone proves nothing: what it lacks may have been cut off.
                return Got.BROKEN if got is Got.SHORT else got
            self._rereads += 1
            self._ctx.emit(
                ResultsReread(
                    run_id=self._ctx.run_id,
                    shard=self.shard.number,
                    org=self._org.label,
                    batch_id=self._id,
                    attempt=attempt,
                    why=self._why,
                )
            )
            chance = clock().random()
            await clock().sleep(retry_wait(attempt, self._asked_wait, self._ctx.retry, chance))
        raise AssertionError("the loop returns on its last attempt")

    async def _read_once(self) -> Got:
        try:
            await self._org.spend()
            async with self._org.gateway.results(self._id) as chunks:
                self._org.learn(chunks.reply)
                async with aclosing(self._lines(aiter(chunks))) as lines:
                    async for batch_of_lines in lines:
                        await self._merge(batch_of_lines)
        except CallFailed as failed:
            return self._broken(failed)
        missing = self._missing()
        if not missing:
            return Got.ALL
        self._asked_wait = None
        if not self._tally.seen:
            # Whatever became of a batch, each of its requests has a line: this is not its body.
            self._why = "the results hold no line of this batch"
            return Got.BROKEN
        self._why = f"{len(missing)} of {len(self._members)} ids have no line"
        return Got.SHORT

    def _broken(self, failed: CallFailed) -> Got:
        self._why = str(failed.failure)
        self._asked_wait = failed.failure.retry_after
        fault = classify(failed.failure)
        if fault is Fault.ACCOUNT:
            self._org.shut = True
            self._ctx.halt(self._org, "account", self._why, failed.failure.kind)
            return Got.ACCOUNT
        return Got.NOTHING if fault is Fault.NOT_FOUND else Got.BROKEN

    async def _lines(self, chunks: AsyncIterator[bytes]) -> AsyncGenerator[list[bytes]]:
        """Yield the lines in chunks of bounded number and size; a torn last line is left out."""
        splitter = LineSplitter()
        held: list[bytes] = []
        size = 0
        try:
            async for chunk in chunks:
                for line in splitter.feed(chunk):
                    held.append(line)
                    size += len(line)
                    if len(held) >= CHUNK_LINES or size >= CHUNK_BYTES:
                        yield held
                        held, size = [], 0
        except CallFailed:
            # Whole lines before the break are answers like any others; the torn one is not.
            if held:
                yield held
            raise
        last = splitter.rest()
        if last.strip():
            held.append(last)
        if held:
            yield held

    # -- merging ------------------------------------------------------------------------------

    async def _merge(self, lines: Sequence[bytes]) -> None:
        """Make one chunk of lines durable."""
        settlements = []
        for number, data in enumerate(lines, 1):
            self._tally.lines += 1
            settlement = self._read_line(data)
            if settlement is not None:
                settlements.append(settlement)
            if number % TURN_LINES == 0:
                await checkpoint()
        judged = await judge_settlements(self._ctx, self._by_seq, settlements)
        if judged:
            settled = await self._ctx.settle(self.shard, judged, self._by_seq)
            self._tally.merged(judged, settled)
            self._tell_merged(judged, settled)
            self._mind_account(judged)
        # Everything above may have found its work done without waiting once.
        await checkpoint()

    def _mind_account(self, settlements: Sequence[Settlement]) -> None:
        """Stop the org where a line says that the account, not the item, is at fault."""
        for settlement in settlements:
            if settlement.reason == "account" and settlement.error is not None:
                error = settlement.error
                why = f"{error.type}: {error.message}"
                self._ctx.halt(self._org, "account", why, error.type)
                return

    def _read_line(self, data: bytes) -> Settlement | None:
        line = parse_line(data)
        if line is None:
            self._tally.torn += 1
            return None
        member = self._members.get(line.custom_id)
        if member is None:
            self._tally.strangers += 1
            if len(self._tally.unknown) < EXAMPLES:
                self._tally.unknown.append(line.custom_id)
            return None
        if line.custom_id in self._tally.seen:
            self._tally.doubled[line.custom_id] += 1
            return None
        self._tally.seen.add(line.custom_id)
        self._tally.types[line.type] += 1
        return settle_line(_known(line), member, self._reading)

    def _missing(self) -> list[Member]:
        """Return the items that were sent in this batch, have no line, and no answer yet."""
        if len(self._tally.seen) == len(self._members):
            return []
        return [
            member
            for custom_id, member in self._members.items()
            if custom_id not in self._tally.seen
            and member.shard == self.shard.number
            and member.state not in FINAL
        ]

    async def _finish(self) -> None:
        """
        Settle what has no line, and close the shard.

        What is to be sent again is let go in the very write that closes the shard: were it let go
        before, a process that starts in between would read these results and send at once.
        """
        spent: list[Member] = []
        travels: list[Member] = []
        held: list[Member] = []
        for member in self._missing():
            if member.used + self._reading.charge >= self._ctx.retry.max_attempts:
                spent.append(member)
            else:
                (travels if member.state is ItemState.IN_FLIGHT else held).append(member)
        await self._settle_missing(spent, "exhausted")
        await self._close(travels)
        await self._settle_missing(held, "missing")
        self._ctx.emit(
            BatchHarvested(
                run_id=self._ctx.run_id,
                shard=self.shard.number,
                org=self._org.label,
                batch_id=self._id,
                lines=self._tally.lines,
            )
        )

    async def _close(self, travels: Sequence[Member]) -> None:
        """Close the shard; *travels* are the items still on their way in it."""
        rest = Rest(
            state=ItemState.UNRESOLVED,
            reason="missing",
            error=self._no_line(),
            charge=self._reading.charge,
        )
        self.shard = await self._ctx.move(
            self.shard,
            ShardState.DONE,
            reason=None,
            rest=rest,
            done_at=self._org.now(),
            facts=self.facts(),
        )
        for part in _parts(travels):
            said = [self._lack(member, "missing") for member in part]
            self._tell_merged(said, ["applied"] * len(said))

    def _no_line(self) -> ItemError:
        text = f"batch {self._id} ended, but its results hold no line for this item"
        return ItemError(type="missing", message=text)

    async def _settle_missing(self, members: Sequence[Member], reason: str) -> None:
        for part in _parts(members):
            said = [self._lack(member, reason) for member in part]
            self._tell_merged(said, await self._ctx.settle(self.shard, said, self._by_seq))

    def _lack(self, member: Member, reason: str) -> Settlement:
        return Settlement(
            seq=member.seq,
            state=ItemState.UNRESOLVED,
            reason=reason,
            error=self._no_line(),
            charge=self._reading.charge,
            org=self._org.label,
            batch_id=self._id,
        )

    # -- telling ------------------------------------------------------------------------------

    def _tell_merged(self, settlements: Sequence[Settlement], settled: Sequence[Settled]) -> None:
        done = [s.state for s, what in zip(settlements, settled, strict=True) if what == "applied"]
        self._ctx.emit(
            ItemsMerged(
                run_id=self._ctx.run_id,
                shard=self.shard.number,
                batch_id=self._id,
                succeeded=done.count(ItemState.SUCCEEDED),
                quarantined=done.count(ItemState.QUARANTINED),
                rejected=done.count(ItemState.REJECTED),
                unresolved=done.count(ItemState.UNRESOLVED),
                again=done.count(ItemState.PENDING),
                late=settled.count("late"),
            )
        )
        self._ctx.wake()

    def _anomalies(self) -> Sequence[tuple[str, int, list[str]]]:
        missing = [member.custom_id for member in self._missing()] if self.shard.ended_at else []
        return (
            ("missing", len(missing), missing),
            ("unknown", self._tally.strangers, self._tally.unknown),
            ("doubled", self._tally.doubled.total(), list(self._tally.doubled)),
            ("torn", self._tally.torn, []),
        )

    def _tell_anomalies(self) -> None:
        for kind, count, examples in self._anomalies():
            if count:
                self._ctx.emit(
                    Anomaly(
                        run_id=self._ctx.run_id,
                        shard=self.shard.number,
                        batch_id=self._id,
                        kind=kind,
                        count=count,
                        examples=tuple(examples[:EXAMPLES]),
                    )
                )


def _known(line: Line) -> Line:
    """Return *line*; a success without a message is none, so that it is tried again, not kept."""
    return replace(line, type="") if line.type == "succeeded" and line.message is None else line


def _parts(members: Sequence[Member]) -> Iterator[Sequence[Member]]:
    for start in range(0, len(members), CHUNK_LINES):
        yield members[start : start + CHUNK_LINES]
