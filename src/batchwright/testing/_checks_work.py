"""
Checks of the store port: waves, shards, and reading.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from batchwright._wire import entry_size
from batchwright.errors import NotWaiting, StoreError
from batchwright.store import Group, ItemState, PutBack, Rest, ShardState
from batchwright.testing._store_desk import (
    LATER,
    NOW,
    Desk,
    answer,
    desk_on,
    fault,
    plan_of,
    question,
    raw_answer,
    refused,
)
from batchwright.types import ItemError

if TYPE_CHECKING:
    from batchwright.store import ShardPlan
    from batchwright.testing.conformance import StoreMaker

NONE: frozenset[str] = frozenset()


async def groups_by_headers(maker: StoreMaker) -> None:
    """A wave tells what waits by headers, and what was tried before."""
    desk = await desk_on(await maker.fresh())
    await desk.take(question(0), question(1, headers="h"), question(2), question(3, headers="h"))
    groups = list(await desk.store.start_wave(desk.lease, NONE))
    wanted = [Group(headers="", fresh=2, again=0), Group(headers="h", fresh=2, again=0)]
    assert sorted(groups, key=lambda g: g.headers) == wanted, "groups are told by headers"
    pending = await desk.store.read_pending("run", "h", -1, 10)
    size = entry_size(question(1).custom_id, len(question(1).body))
    assert [(p.seq, p.size) for p in pending] == [(1, size), (3, size)], "with wire sizes"
    assert [p.seq for p in await desk.store.read_pending("run", "h", 1, 10)] == [3], "after"
    assert [p.seq for p in await desk.store.read_pending("run", "", -1, 1)] == [0], "limit"
    assert list(await desk.store.read_pending("run", "?", -1, 9)) == [], "an unknown group"
    shard = await desk.plan(0, 2)
    await desk.settle(shard.number, fault(0, ItemState.PENDING, None), answer(2))
    groups = list(await desk.store.start_wave(desk.lease, NONE))
    assert Group(headers="", fresh=0, again=1) in groups, "tried items are told from fresh ones"
    assert (await desk.info()).wave == 2, "waves are counted"


async def _parked(maker: StoreMaker, *reasons: str) -> Desk:
    desk = await desk_on(await maker.fresh())
    await desk.fill(len(reasons))
    shard = await desk.ship(*range(len(reasons)))
    said = [fault(n, ItemState.UNRESOLVED, reason=r) for n, r in enumerate(reasons)]
    await desk.settle(shard.number, *said)
    return desk


async def takes_up_by_itself(maker: StoreMaker) -> None:
    """A wave takes up `missing` and `unreadable`, within the budget; everything else stays."""
    desk = await _parked(maker, "missing", "unreadable", "exhausted", "ambiguous")
    groups = list(await desk.store.start_wave(desk.lease, NONE))
    assert groups == [Group(headers="", fresh=0, again=2)], "what was taken up waits"
    assert await desk.states() == "PPUU", "the others stay"
    members = await desk.store.read_members("run", 1)
    assert [m.used for m in members] == [1, 1, 1, 1], "the budget used stays used"
    assert [m.shard for m in members] == [None, None, 1, 1], "what was taken up left its shard"
    await desk.audit()


async def resubmits_on_request(maker: StoreMaker) -> None:
    """Reasons named by a person start with a fresh budget and leave their shard."""
    desk = await _parked(maker, "exhausted", "ambiguous", "exhausted", "missing")
    await desk.store.start_wave(desk.lease, frozenset({"exhausted", "missing", "never"}))
    assert await desk.states() == "PUPP", "only what was named is taken up"
    members = await desk.store.read_members("run", 1)
    assert [m.used for m in members] == [0, 1, 0, 0], "the budget is fresh"
    assert [m.attempts for m in members] == [1, 1, 1, 1], "attempts count for ever"
    assert [m.shard for m in members] == [None, 1, None, None], "they left their shard"
    assert await desk.settle(1, fault(0, ItemState.PENDING)) == ["stale"], "the old shard is past"
    await desk.audit()


async def counts_what_waits_again(maker: StoreMaker) -> None:
    """Each time an item waits again is counted by reason, with the tries it had used by then."""
    desk = await _parked(maker, "missing", "exhausted", "unreadable", "overdue")
    assert list((await desk.info()).put_back) == [], "nothing waits again so far"
    await desk.store.start_wave(desk.lease, frozenset({"exhausted"}))
    taken_up = [
        PutBack(reason="exhausted", after=0, items=1),
        PutBack(reason="missing", after=1, items=1),
        PutBack(reason="unreadable", after=1, items=1),
    ]
    assert list((await desk.info()).put_back) == taken_up, "a wave tells what it takes up"
    await desk.ship(0, 2)
    await desk.settle(
        2,
        fault(0, ItemState.PENDING, "b-2", reason="expired"),
        fault(2, ItemState.PENDING, "b-2", reason=None, charge=0),
    )
    given_back = PutBack(reason="", after=1, items=1)
    expired = PutBack(reason="expired", after=2, items=1)
    counted = list((await desk.info()).put_back)
    assert counted == [given_back, taken_up[0], expired, *taken_up[1:]], "so does a settlement"
    await desk.ship(0)
    await desk.move(3, ShardState.DONE, rest=Rest(state=ItemState.PENDING))
    assert list((await desk.info()).put_back) == counted, "the rest of a shard is not counted"


async def resubmits_rejected(maker: StoreMaker) -> None:
    """A rejected answer is asked for anew only when its reason is named."""
    desk = await desk_on(await maker.fresh())
    await desk.fill(2)
    shard = await desk.ship(0, 1)
    rejected = answer(0, state=ItemState.REJECTED, reason="rejected_by_validate")
    bad = fault(1, ItemState.QUARANTINED, reason="invalid_request")
    await desk.settle(shard.number, rejected, bad)
    await desk.store.start_wave(desk.lease, NONE)
    assert await desk.states() == "RQ", "final states stay"
    named = frozenset({"rejected_by_validate", "invalid_request"})
    await desk.store.start_wave(desk.lease, named)
    assert await desk.states() == "PQ", "rejected is asked anew, quarantined never"
    assert (await desk.row(0)).outcome.raw is None, "what waits has no answer"
    await desk.audit()


async def plans_shards(maker: StoreMaker) -> None:
    """A planned shard has its items, in flight, for ever."""
    desk = await desk_on(await maker.fresh())
    await desk.fill(6)
    plan = plan_of([0, 1, 4], headers="h", size=77, org="two", wave=3, facts={"a": [1]})
    shard = await desk.store.plan_shard(desk.lease, plan)
    told = (shard.number, shard.spans, shard.count, shard.size, shard.headers, shard.org)
    assert told == (1, ((0, 1), (4, 4)), 3, 77, "h", "two"), "the shard is as planned"
    assert (shard.wave, shard.state, shard.planned_at) == (3, ShardState.PLANNED, NOW)
    assert shard.facts == {"a": [1]}, "with the facts of the plan"
    assert (await desk.plan(2)).number == 2, "shards are numbered from 1"
    assert next(iter(await desk.store.read_shards("run"))) == shard, "read_shards returns it"
    assert await desk.states() == "IIIPIP", "its items are in flight"
    assert await desk.pending() == [3, 5], "and wait no more"
    await desk.audit()


async def plans_only_what_waits(maker: StoreMaker) -> None:
    """A plan that names an item that does not wait is refused whole."""
    desk = await desk_on(await maker.fresh())
    await desk.fill(4)
    await desk.plan(1)
    before = (await desk.info(), await desk.rows(), await desk.store.read_shards("run"))
    await desk.stage(question(9))
    plans: dict[str, ShardPlan] = {
        "an item in flight": plan_of([0, 1, 2]),
        "an item that does not exist": plan_of([3, 4]),
        "an item twice": plan_of([], spans=((2, 3), (3, 3)), count=3),
        "fewer items than it says": plan_of([2], count=2),
    }
    for what, plan in plans.items():
        try:
            await desk.store.plan_shard(desk.lease, plan)
        except StoreError as error:
            after = (await desk.info(), await desk.rows(), await desk.store.read_shards("run"))
            assert after == before, f"a refused plan with {what} changes nothing"
            fits = isinstance(error, NotWaiting) or what != "an item in flight"
            assert fits, "that an item does not wait has an error of its own"
        else:
            raise AssertionError(f"a plan with {what} is refused")


async def moves_shards(maker: StoreMaker) -> None:
    """A move sets the named fields, merges facts, and asks where the shard is."""
    desk = await desk_on(await maker.fresh())
    await desk.fill(1)
    await desk.plan(0)
    fields: dict[str, Any] = {
        "batch_id": "b",
        "cancel": "user",
        "org": "other",
        "sent_at": NOW,
        "created_at": NOW + timedelta(microseconds=1),
        "expires_at": LATER,
        "ended_at": LATER,
        "done_at": LATER,
        "polls": 7,
        "counts": {"succeeded": 1},
        "reason": "overdue",
    }
    await desk.move(1, ShardState.LIVE, facts={"a": 1, "b": [2]}, **fields)
    shard = await desk.move(1, ShardState.HELD, facts={"b": 3})
    assert {name: getattr(shard, name) for name in fields} == fields, "named fields are set"
    assert shard.facts == {"a": 1, "b": 3}, "facts are merged"
    assert shard.state is ShardState.HELD, "the shard moved"
    assert list(await desk.store.read_shards("run")) == [shard], "read_shards returns it"
    assert (await desk.move(1, ShardState.LIVE, reason=None)).reason is None, "None clears"
    for what, number in (("in another state", 1), ("that does not exist", 2)):
        expect = frozenset({ShardState.PLANNED, ShardState.SENDING})
        rest = Rest(state=ItemState.PENDING)
        try:
            await desk.store.move_shard(
                desk.lease, number, expect=expect, to=ShardState.DONE, rest=rest, polls=99
            )
        except StoreError:
            continue
        raise AssertionError(f"a shard {what} is not moved")
    shards = await desk.store.read_shards("run")
    assert (shards[0].state, shards[0].polls) == (ShardState.LIVE, 7), "a refused move is none"
    assert await desk.states() == "I", "a refused move leaves the items"


async def moves_the_rest(maker: StoreMaker) -> None:
    """`rest` moves the items still in flight in this shard, at its charge, and no others."""
    desk = await desk_on(await maker.fresh())
    await desk.fill(5)
    await desk.ship(0, 1, 2)
    await desk.ship(3, 4)
    await desk.settle(1, answer(0))
    error = ItemError("expired", "too late")
    rest = Rest(state=ItemState.PENDING, error=error, charge=1)
    await desk.move(1, ShardState.DONE, rest=rest)
    assert await desk.states() == "SPPII", "only what was in flight in the shard moves"
    row = await desk.row(1)
    assert (row.outcome.attempts, row.outcome.error) == (1, error), "at its charge, with its error"
    assert row.outcome.batch_id is None, "what waits is held by no batch"
    members = await desk.store.read_members("run", 1)
    told = [(m.seq, m.shard, m.used) for m in members]
    assert told == [(0, 1, 1), (1, None, 1), (2, None, 1)], "it left the shard"
    rest = Rest(state=ItemState.UNRESOLVED, reason="overdue")
    await desk.move(2, ShardState.HELD, reason="overdue", rest=rest)
    assert await desk.states() == "SPPUU", "only what was in flight in the shard moves"
    row = await desk.row(3)
    told_now = (row.outcome.reason, row.outcome.attempts, row.outcome.batch_id, row.outcome.org)
    assert told_now == ("overdue", 0, "b-2", "main"), "it stays with the batch that holds it"
    assert (await desk.info()).reasons == {"overdue": 2}, "its reason is counted"
    await desk.audit()


async def tells_the_reason_of_the_shard(maker: StoreMaker) -> None:
    """An item without a reason of its own tells that of its shard; rows are found by reason."""
    desk = await desk_on(await maker.fresh())
    await desk.fill(5)
    await desk.ship(0, 1)
    await desk.ship(2, 3)
    await desk.move(1, ShardState.HELD, reason="ambiguous")
    await desk.settle(2, fault(2, ItemState.UNRESOLVED, "b-2", reason="exhausted"), answer(3))
    reasons = [row.outcome.reason for row in await desk.rows()]
    assert reasons == ["ambiguous", "ambiguous", "exhausted", None, None], "own, shard's, none"
    for reason, seqs in (("ambiguous", [0, 1]), ("exhausted", [2]), ("never", [])):
        found = [r.seq for r in await desk.rows(reason=reason)]
        assert found == seqs, "read_rows finds the items of a reason"
        found = [r.seq for r in await desk.rows(reason=reason, intake=desk.intake)]
        assert found == seqs, "read_rows finds the items of a reason in an intake"
    rest = Rest(state=ItemState.UNRESOLVED)
    await desk.move(1, ShardState.HELD, rest=rest)
    assert (await desk.info()).reasons["ambiguous"] == 2, "a rest without reason has the shard's"


async def remembers_members(maker: StoreMaker) -> None:
    """A shard's members are those it was sent with, wherever they are now."""
    desk = await desk_on(await maker.fresh())
    await desk.take(question(0, metadata=b'{"m":[1]}'), *(question(n) for n in (1, 2, 3)))
    await desk.ship(0, 1, 3)
    await desk.settle(1, fault(1, ItemState.PENDING), answer(0))
    await desk.ship(1, 2)
    members = await desk.store.read_members("run", 1)
    told = [(m.seq, m.id, m.state.name[0], m.attempts, m.shard) for m in members]
    wanted = [(0, "item-0", "S", 1, 1), (1, "item-1", "I", 1, 2), (3, "item-3", "I", 0, 1)]
    assert told == wanted, "members are told with where they are now"
    assert members[0].custom_id == question(0).custom_id, "with their ids on the wire"
    assert [m.metadata for m in members] == [{"m": [1]}, None, None], "with their metadata"


async def pages_bodies(maker: StoreMaker) -> None:
    """Bodies come in order, in pages of at most so many bytes, at least one."""
    desk = await desk_on(await maker.fresh())
    bodies = [bytes([n]) * 100 for n in range(6)]
    await desk.take(*(question(n, body=body) for n, body in enumerate(bodies)))
    shard = await desk.plan(0, 1, 3, 4, 5)
    pages, after = [], -1
    while page := await desk.store.read_bodies("run", shard.number, after, 250):
        assert all(b.body == bodies[b.seq] for b in page), "bodies come back byte for byte"
        pages.append([b.seq for b in page])
        after = page[-1].seq
    assert pages == [[0, 1], [3, 4], [5]], "a page holds what fits, in order"
    page = await desk.store.read_bodies("run", shard.number, 0, 1)
    assert [b.seq for b in page] == [1], "a page holds at least one body"
    assert page[0].custom_id == question(1).custom_id, "with its id on the wire"


async def pages_rows(maker: StoreMaker) -> None:
    """Rows come in input order, in pages of so many rows or answers of so many bytes."""
    desk = await desk_on(await maker.fresh())
    await desk.fill(6)
    await desk.ship(*range(6))
    raw = raw_answer("x" * 1_000)
    await desk.settle(1, *(answer(n, raw=raw) for n in (0, 1, 2, 4)))
    page = await desk.store.read_rows("run", -1, 10, max_bytes=1)
    assert [r.seq for r in page] == [0], "a page holds at least one row"
    page = await desk.store.read_rows("run", 0, 10, max_bytes=1_500)
    assert [r.seq for r in page] == [1, 2], "a page ends early once it holds so many bytes"
    page = await desk.store.read_rows("run", 2, 2)
    assert [r.seq for r in page] == [3, 4], "a page holds so many rows"
    assert list(await desk.store.read_rows("run", 5, 10)) == [], "the end is an empty page"
    whole = list(await desk.store.read_rows("run", -1, 100))
    assert whole == await desk.rows(), "pages add up to the whole"


async def reads_what_did_not_succeed(maker: StoreMaker) -> None:
    """Rows can be read without those that succeeded, and without the bytes of the answers."""
    desk = await desk_on(await maker.fresh())
    await desk.take(*(question(n) for n in range(5)), refused(5))
    await desk.ship(0, 1, 2, 3)
    bad = fault(2, ItemState.UNRESOLVED, reason="exhausted")
    await desk.settle(1, answer(0), answer(1, state=ItemState.REJECTED, reason="rejected"), bad)
    whole = await desk.rows()
    bare = [replace(row, outcome=replace(row.outcome, raw=None)) for row in whole]
    assert await desk.rows(raw=False) == bare, "without raw a row is the same but for its bytes"
    apart = [row for row in bare if row.state is not ItemState.SUCCEEDED]
    assert await desk.rows(succeeded=False, raw=False) == apart, "those that did not succeed"
    told = await desk.rows(succeeded=False, raw=False, intake=desk.intake)
    assert told == apart, "also in the order of an intake"
    told = await desk.rows(succeeded=False, reason="exhausted")
    assert [row.seq for row in told] == [2], "also of one reason"
    assert whole[1].outcome.raw is not None, "a rejected answer keeps its bytes"


CHECKS = (
    groups_by_headers,
    takes_up_by_itself,
    resubmits_on_request,
    counts_what_waits_again,
    resubmits_rejected,
    plans_shards,
    plans_only_what_waits,
    moves_shards,
    moves_the_rest,
    tells_the_reason_of_the_shard,
    remembers_members,
    pages_bodies,
    pages_rows,
    reads_what_did_not_succeed,
)
