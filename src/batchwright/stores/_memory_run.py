"""
What the memory store keeps of a run, and how it changes.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from batchwright._json import dump_json, load_json
from batchwright.shared import Worker
from batchwright.store import (
    Clash,
    Group,
    ItemState,
    Lease,
    Member,
    NewItem,
    OnChanged,
    Rest,
    Row,
    RunInfo,
    Shard,
    ShardPlan,
    ShardState,
)
from batchwright.stores import _rules
from batchwright.stores._occurrences import Asked
from batchwright.stores._rules import Facts, Holder, Standing
from batchwright.stores._tally import Tally


@dataclass(slots=True)
class Entry:
    """One item: the question, and where it stands."""

    seq: int
    row: NewItem
    standing: Standing = field(default_factory=Standing)

    def ask(self, row: NewItem) -> None:
        """Put a question in place, with nothing known about it."""
        self.row = row
        state, reason = _rules.birth(row)
        self.standing = Standing(state=state, reason=reason, facts=Facts(error=row.refusal))


@dataclass(slots=True)
class Intake:
    """An intake that is still being read."""

    number: int
    seen: dict[str, int] = field(default_factory=dict)
    new: dict[str, Entry] = field(default_factory=dict)
    changes: dict[int, NewItem] = field(default_factory=dict)
    places: list[tuple[int, int]] = field(default_factory=list)


@dataclass(slots=True)
class Run:
    """Everything about one run."""

    run_id: str
    created_at: datetime
    lease: Lease | None = None
    token: int = 0
    first_token: int = 0
    entries: list[Entry] = field(default_factory=list)
    by_id: dict[str, Entry] = field(default_factory=dict)
    tally: Tally = field(default_factory=Tally)
    shards: list[Shard] = field(default_factory=list)
    open: Intake | None = None
    #: Positions and `seq`s of the committed intakes that can still be read, by number.
    places: dict[int, list[tuple[int, int]]] = field(default_factory=dict)
    wave: int = 0
    facts: dict[str, Any] = field(default_factory=dict)
    last_worker: int = 0
    workers: dict[int, Worker] = field(default_factory=dict)
    #: The worker that has claimed a shard, and the wave in which one put it down, by its number.
    claims: dict[int, int] = field(default_factory=dict)
    rested: dict[int, int] = field(default_factory=dict)

    def info(self) -> RunInfo:
        return RunInfo(
            run_id=self.run_id,
            created_at=self.created_at,
            intake_complete=bool(self.places),
            items=len(self.entries),
            wave=self.wave,
            facts=dict(self.facts),
            **self.tally.standing(),
        )

    def shard(self, number: int) -> Shard:
        if not 1 <= number <= len(self.shards):
            raise _rules.no_shard(self.run_id, number)
        return self.shards[number - 1]

    def members(self, shard: Shard) -> Iterator[Entry]:
        for first, last in shard.spans:
            yield from self.entries[first : last + 1]

    def beat(self, worker: int, now: datetime) -> Lease:
        known = self.workers[worker]
        lease = replace(known.lease, token=known.lease.token + 1, beat_at=now)
        self.workers[worker] = replace(known, lease=lease)
        return lease

    def remove_worker(self, worker: int) -> None:
        self.workers.pop(worker, None)
        self.claims = {shard: by for shard, by in self.claims.items() if by != worker}

    def holder(self, number: int | None) -> Holder | None:
        if number is None:
            return None
        shard = self.shard(number)
        return Holder(shard.reason, shard.org, shard.batch_id)

    def move(self, item: Standing, state: ItemState, reason: str | None) -> None:
        self.tally.item(item.state, item.reason, item.flag, -1)
        item.state, item.reason, item.flag = state, reason, ""
        self.tally.item(state, reason, "", +1)


def holds(run: Run, lease: Lease) -> bool:
    held = run.lease is not None and not lease.worker
    return held and run.first_token <= lease.token <= run.token


def groups_of(run: Run) -> list[Group]:
    groups: dict[str, list[int]] = {}
    for entry in run.entries:
        if entry.standing.state is ItemState.PENDING:
            counts = groups.setdefault(entry.row.headers, [0, 0])
            counts[entry.standing.attempts > 0] += 1
    return [Group(headers=h, fresh=n[0], again=n[1]) for h, n in sorted(groups.items())]


def new_shard(run: Run, plan: ShardPlan) -> Shard:
    return Shard(
        number=len(run.shards) + 1,
        spans=tuple((first, last) for first, last in plan.spans),
        count=plan.count,
        size=plan.size,
        headers=plan.headers,
        org=plan.org,
        wave=plan.wave,
        state=ShardState.PLANNED,
        planned_at=plan.planned_at,
        facts=plain(plan.facts),
    )


def opened_intake(run: Run, intake: int) -> Intake:
    if run.open is None or run.open.number != intake:
        raise _rules.not_open(run.run_id, intake)
    return run.open


def stage_one(run: Run, opened: Intake, row: NewItem, on_changed: OnChanged) -> Clash | None:
    if row.id in opened.seen:
        first = opened.seen[row.id]
        return Clash(kind="duplicate", id=row.id, position=row.position, first_position=first)
    opened.seen[row.id] = row.position
    stored = run.by_id.get(row.id)
    if stored is None:
        entry = Entry(len(run.entries) + len(opened.new), row)
        entry.ask(row)
        opened.new[row.id] = entry
    else:
        entry, digest = stored, stored.row.digest
        if on_changed == "error" and _rules.is_changed(digest, row):
            return Clash(kind="changed", id=row.id, position=row.position, first_position=entry.seq)
        if _rules.is_replaced(digest, row, on_changed):
            opened.changes[entry.seq] = row
    opened.places.append((row.position, entry.seq))
    return None


def count(run: Run, entry: Entry, change: int) -> None:
    item = entry.standing
    run.tally.item(item.state, item.reason, item.flag, change)
    run.tally.model(entry.row.model, change)


def take_up(run: Run, item: Standing, resubmit: frozenset[str]) -> None:
    anew = item.reason in resubmit and item.state in {ItemState.UNRESOLVED, ItemState.REJECTED}
    again = item.reason in _rules.TAKEN_UP_BY_WAVE and item.state is ItemState.UNRESOLVED
    if not (anew or again):
        return
    if anew:
        item.used = 0
    run.tally.put_back(item.reason, item.used, 1)
    run.move(item, ItemState.PENDING, None)
    item.shard = None
    item.facts = Facts(error=item.facts.error)


def settle_rest(run: Run, shard: Shard, rest: Rest) -> None:
    reason = rest.reason
    if reason is None and rest.state is ItemState.UNRESOLVED:
        reason = shard.reason
    for entry in run.members(shard):
        item = entry.standing
        if item.state is not ItemState.IN_FLIGHT or item.shard != shard.number:
            continue
        run.move(item, rest.state, reason)
        item.attempts += rest.charge
        item.used += rest.charge
        item.facts = Facts(error=rest.error)
        if rest.state is ItemState.PENDING:
            item.shard = None


def places_of(run: Run, after: int, intake: int | None) -> Iterator[tuple[int, int]]:
    if intake is None:
        first = max(after + 1, 0)
        return ((seq, seq) for seq in range(first, len(run.entries)))
    if intake not in run.places:
        raise _rules.no_intake(run.run_id, intake)
    places = run.places[intake]
    return iter(places[bisect_right(places, after, key=lambda place: place[0]) :])


def member_of(entry: Entry) -> Member:
    item = entry.standing
    return Member(
        seq=entry.seq,
        id=entry.row.id,
        custom_id=entry.row.custom_id,
        state=item.state,
        attempts=item.attempts,
        used=item.used,
        shard=item.shard,
        metadata=_rules.load_metadata(entry.row.metadata),
    )


def row_of(run: Run, entry: Entry, position: int, *, raw: bool = True) -> Row:
    item, asked = entry.standing, entry.row
    outcome = _rules.tell(asked.id, asked.custom_id, item, asked.metadata, run.holder(item.shard))
    outcome = outcome if raw else replace(outcome, raw=None)
    return Row(seq=entry.seq, position=position, state=item.state, outcome=outcome)


def asked_in(runs: Sequence[Run], first: int, last: int) -> Iterator[Asked]:
    """Yield all items that ask what an untried one of the first run asks between two places."""
    own = runs[0].entries
    looking = {e.seq for e in own[max(first, 0) : last + 1] if _waits_untried(e)}
    digests = {own[seq].row.digest for seq in looking}
    for rank, run in enumerate(runs):
        for entry in run.entries:
            if entry.row.digest in digests:
                done = entry.standing.state is ItemState.SUCCEEDED
                fit = done if rank else entry.seq in looking
                yield Asked(rank, entry.seq, entry.row.digest, fit)


def _waits_untried(entry: Entry) -> bool:
    item = entry.standing
    return item.state is ItemState.PENDING and item.attempts == 0


def plain(value: Mapping[str, Any]) -> dict[str, Any]:
    """Return a copy as JSON gives it back, so that every store returns the same."""
    copy: dict[str, Any] = load_json(dump_json(dict(value)))
    return copy
