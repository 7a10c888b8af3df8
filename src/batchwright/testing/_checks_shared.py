"""
Checks of the port for many processes: workers, claims, and who may write to what.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from batchwright.errors import RunLocked, ShardClaimed, StoreError
from batchwright.shared import PATH, UNSURE, WORK_FACT, SharedStore
from batchwright.store import Group, ItemState, Lease, Rest, Shard, ShardState
from batchwright.testing._checks_life import refuses
from batchwright.testing._store_desk import (
    ALL,
    LATER,
    NOW,
    OWNER,
    RIVAL,
    Desk,
    answer,
    desk_on,
    fault,
    plan_of,
    question,
)

if TYPE_CHECKING:
    from batchwright.testing.conformance import StoreMaker

OPEN = frozenset(ALL - {ShardState.DONE})
MAIN = frozenset({"main"})


@dataclass(slots=True)
class Hall:
    """A run that is open for work, with its conductor and two workers."""

    store: SharedStore
    desk: Desk
    one: Lease
    two: Lease

    async def claim(self, lease: Lease, limit: int = 9, **other: Any) -> list[int]:
        """Claim and return the numbers of the shards."""
        asked: dict[str, Any] = {"states": OPEN, "direct": False, "orgs": MAIN, **other}
        states = asked.pop("states")
        return [s.number for s in await self.store.claim(lease, states, limit=limit, **asked)]

    async def move(self, lease: Lease, number: int, to: ShardState, **other: Any) -> Shard:
        """Move a shard under any lease."""
        return await self.store.move_shard(lease, number, expect=ALL, to=to, **other)

    async def claimed(self) -> dict[int, int | None]:
        """Return who has claimed each open shard."""
        return {o.shard.number: o.worker for o in await self.store.read_open("run")}


async def hall_on(maker: StoreMaker, items: int = 6) -> Hall:
    """Fill a run, plan shards of two items each, and let two workers join."""
    store = cast("SharedStore", await maker.fresh())
    assert isinstance(store, SharedStore), "the store has the methods of SharedStore"
    desk = await desk_on(store)
    await desk.fill(items)
    for first in range(0, items, 2):
        await desk.plan(first, first + 1)
    await store.put_facts(desk.lease, {WORK_FACT: {"open": True}})
    one = await store.join("run", OWNER, NOW)
    two = await store.join("run", RIVAL, LATER)
    return Hall(store, desk, one, two)


async def rejects(
    call: Awaitable[object], promise: str, kind: type[StoreError] = StoreError
) -> None:
    """Demand that *call* raises an error of *kind*."""
    try:
        await call
    except kind:
        return
    except RunLocked as error:
        raise AssertionError(f"{promise}: {error!r}") from error
    raise AssertionError(promise)


async def registers_workers(maker: StoreMaker) -> None:
    """A worker is registered with its owner, beats, says what it is like, and leaves."""
    hall = await hall_on(maker)
    store, one, two = hall.store, hall.one, hall.two
    assert 0 < one.worker < two.worker, "workers are numbered upward, from above 0"
    await store.put_note(one, {"rate": 1.5, "orgs": ["main"]})
    beaten = await store.renew(one, LATER)
    assert (beaten.worker, beaten.beat_at) == (one.worker, LATER), "a beat keeps the number"
    assert beaten.token > one.token, "a beat makes the token grow"
    told = [(w.lease, dict(w.note)) for w in await store.read_workers("run")]
    assert told == [(beaten, {"rate": 1.5, "orgs": ["main"]}), (two, {})], "workers are told"
    await store.put_note(one, {"rate": 2})
    (first, _) = await store.read_workers("run")
    assert first.note == {"rate": 2}, "a note replaces the one before it, also by an earlier lease"
    await store.release(two)
    await store.release(two)
    assert len(await store.read_workers("run")) == 1, "who has left is gone; leaving is harmless"
    third = await store.join("run", RIVAL, NOW)
    assert third.worker > two.worker, "a number is never given twice"
    assert list(await store.read_workers("other")) == [], "a run that is not there has no workers"
    await rejects(store.join("other", OWNER, NOW), "nobody joins a run that is not there")


async def workers_and_owner_are_apart(maker: StoreMaker) -> None:
    """The lease of the run and the workers come and go without each other."""
    hall = await hall_on(maker)
    await hall.store.release(hall.desk.lease)
    assert await hall.claim(hall.one) == [1, 2, 3], "workers work while nobody owns the run"
    lease = await hall.store.acquire("run", RIVAL, NOW, replacing=None)
    assert len(await hall.store.read_workers("run")) == 2, "taking a run over leaves its workers"
    assert (await hall.claimed())[1] == hall.one.worker, "and their claims"
    held = await hall.store.read_lease("run")
    assert held == lease, "a worker's lease is not the run's"
    await hall.store.release(hall.one)
    assert await hall.store.read_lease("run") == lease, "a worker that leaves leaves the run owned"


async def claims_once(maker: StoreMaker) -> None:
    """Two workers never get the same shard, however they ask; what is claimed is not claimed."""
    hall = await hall_on(maker, items=40)
    asked = [hall.claim(lease, 4) for lease in (hall.one, hall.two) * 2]
    got = [number for numbers in await asyncio.gather(*asked) for number in numbers]
    assert len(got) == len(set(got)), "no shard is claimed twice"
    rest = await hall.claim(hall.one, 99)
    assert sorted(got + rest) == list(range(1, 21)), "every shard is claimed in the end"
    assert await hall.claim(hall.two, 99) == [], "there is nothing left to claim"


async def claims_what_is_asked_for(maker: StoreMaker) -> None:
    """A claim is limited by states, org, path and number, lowest numbers first."""
    hall = await hall_on(maker, items=8)
    await hall.desk.take(*(question(n) for n in range(12)))
    await hall.desk.plan(8, 9, facts={PATH: "sync"})
    await hall.desk.plan(10, 11, org="other")
    await hall.desk.move(3, ShardState.LIVE, batch_id="b-3")
    await hall.desk.move(4, ShardState.DONE, rest=Rest(state=ItemState.PENDING))
    live = frozenset({ShardState.LIVE})
    assert await hall.claim(hall.one, states=live) == [3], "only what is in one of the states"
    assert await hall.claim(hall.one, direct=True) == [5], "only what is asked directly"
    assert await hall.claim(hall.two, orgs=frozenset({"other"})) == [6], "only of the orgs"
    assert await hall.claim(hall.two, orgs=frozenset()) == [], "of no org there is nothing"
    assert await hall.claim(hall.two, 1) == [1], "only so many, the lowest number first"
    assert await hall.claim(hall.two, states=ALL) == [2], "never what is DONE"
    opened = [(o.shard.number, o.worker) for o in await hall.store.read_open("run")]
    one, two = hall.one.worker, hall.two.worker
    wanted = [(1, two), (2, two), (3, one), (5, one), (6, two)]
    assert opened == wanted, "read_open tells every shard that is not DONE, and its claimant"
    facts = [o.shard.facts for o in await hall.store.read_open("run") if o.shard.number == 5]
    assert facts == [{PATH: "sync"}], "a planned shard has the facts of its plan"


async def claims_only_where_open(maker: StoreMaker) -> None:
    """While the run's fact `work` does not say that it is open, there is nothing to claim."""
    hall = await hall_on(maker)
    for closed in ({"open": False}, {}, None, True):
        await hall.store.put_facts(hall.desk.lease, {WORK_FACT: closed})
        assert await hall.claim(hall.one) == [], f"nothing is claimed while it is {closed}"
    await hall.store.put_facts(hall.desk.lease, {WORK_FACT: {"open": True, "wave": 1}})
    assert await hall.claim(hall.one, 1) == [1], "and again once it is open"


async def rests_for_a_wave(maker: StoreMaker) -> None:
    """A claim that is given back is free at once, or rests until the next wave begins."""
    hall = await hall_on(maker)
    await hall.claim(hall.one)
    await hall.store.put_down(hall.one, 1, rested=False)
    await hall.store.put_down(hall.one, 2, rested=True)
    await hall.store.put_down(hall.two, 3, rested=True)
    told = [(o.worker, o.rested) for o in await hall.store.read_open("run")]
    wanted = [(None, False), (None, True), (hall.one.worker, False)]
    assert told == wanted, "only the claimant gives a claim back"
    assert await hall.claim(hall.two) == [1], "what rests is not claimed again in this wave"
    await hall.store.start_wave(hall.desk.lease, frozenset())
    assert [o.rested for o in await hall.store.read_open("run")] == [False] * 3
    assert await hall.claim(hall.two) == [2], "in the next wave it is"


async def fences_by_claim(maker: StoreMaker) -> None:
    """A shard is written by the worker that claimed it, by nobody else; facts by any worker."""
    hall = await hall_on(maker)
    store, one, two, owner = hall.store, hall.one, hall.two, hall.desk.lease
    await hall.claim(one, 1)
    sending = ShardState.SENDING
    moved = await hall.move(one, 1, sending, sent_at=NOW)
    assert moved.state is sending, "the claimant moves its shard"
    await hall.move(one, 1, ShardState.LIVE, batch_id="b-1")
    assert list(await store.settle(one, 1, [answer(0)])) == ["applied"], "and settles its items"
    for lease, number in ((two, 1), (one, 2), (two, 2)):
        await refuses(hall.move(lease, number, sending), "a shard moves under its claim only")
        await refuses(store.settle(lease, number, [answer(1)]), "and is settled under it only")
    await refuses(store.settle(one, None, [answer(2)]), "what is of no shard is not a worker's")
    alone = "the owner leaves alone what is claimed"
    await rejects(hall.move(owner, 1, sending), alone, ShardClaimed)
    await rejects(store.settle(owner, 1, [answer(1)]), alone, ShardClaimed)
    assert (await hall.move(owner, 2, ShardState.PLANNED)).number == 2, "the rest is the owner's"
    await store.put_facts(two, {"max_bytes/main": 7})
    assert (await hall.desk.info()).facts["max_bytes/main"] == 7, "a worker stores facts"
    for call in (
        store.begin_intake(one),
        store.stage(one, hall.desk.intake, [], "error"),
        store.commit_intake(one, hall.desk.intake),
        store.start_wave(one, frozenset()),
        store.plan_shard(one, plan_of([0])),
    ):
        await refuses(call, "the rest is for the owner of the run")
    later = await store.renew(one, LATER)
    await hall.move(one, 1, ShardState.ENDED)
    await hall.move(later, 1, ShardState.ENDED)
    assert await hall.desk.states() == "SIIIII", "an earlier lease of a worker goes on being good"
    await hall.desk.audit()


async def buries_the_silent(maker: StoreMaker) -> None:
    """A worker that has not beaten since it was seen is removed; it writes nothing more."""
    hall = await hall_on(maker)
    store, one = hall.store, hall.one
    await hall.claim(one, 2)
    beaten = await store.renew(one, LATER)
    assert not await store.bury(one, dead=True), "who has beaten meanwhile is not buried"
    assert await store.bury(beaten, dead=True), "who was seen last is"
    assert not await store.bury(beaten, dead=True), "once"
    assert [w.lease.worker for w in await store.read_workers("run")] == [hall.two.worker]
    refused = "a buried worker does not write"
    await refuses(store.renew(beaten, LATER), refused)
    await refuses(store.put_note(beaten, {}), refused)
    await refuses(store.put_facts(beaten, {"a": 1}), refused)
    await refuses(hall.move(beaten, 1, ShardState.SENDING), refused)
    await refuses(store.settle(beaten, 1, [answer(0)]), refused)
    await refuses(hall.claim(beaten), refused)
    await refuses(store.plan_part(beaten, 1, plan_of([0])), refused)
    await store.put_down(beaten, 1, rested=True)
    await store.release(beaten)
    assert await hall.claim(hall.two) == [1, 2, 3], "its claims are free, and did not rest"
    await refuses(hall.move(beaten, 1, ShardState.SENDING), refused)


async def marks_what_may_still_be_sent(maker: StoreMaker) -> None:
    """Shards left SENDING by a worker that only lapsed are marked, for good."""
    hall = await hall_on(maker)
    store, one, two = hall.store, hall.one, hall.two
    await hall.claim(one)
    await hall.move(one, 1, ShardState.SENDING, sent_at=NOW, facts={"server_clock": True})
    await hall.move(one, 2, ShardState.SENDING, sent_at=NOW)
    await hall.move(one, 2, ShardState.LIVE, batch_id="b-2")
    assert await store.bury(one, dead=False), "a lapsed worker is buried"
    facts = {o.shard.number: o.shard.facts for o in await store.read_open("run")}
    assert facts[1] == {"server_clock": True, UNSURE: True}, "what it was sending is marked"
    assert (facts[2], facts[3]) == ({}, {}), "what it was not sending is not"
    assert await hall.claim(two) == [1, 2, 3], "all of it is free"
    await hall.move(two, 3, ShardState.SENDING, sent_at=NOW)
    assert await store.bury(two, dead=True), "a dead worker is buried"
    facts = {o.shard.number: o.shard.facts for o in await store.read_open("run")}
    assert UNSURE not in facts[3], "what a dead worker was sending is not marked"
    assert facts[1][UNSURE] is True, "a mark stays"


async def leaves_and_gives_back(maker: StoreMaker) -> None:
    """A worker that leaves gives its claims back, unmarked."""
    hall = await hall_on(maker)
    await hall.claim(hall.one)
    await hall.move(hall.one, 1, ShardState.SENDING, sent_at=NOW)
    await hall.store.release(hall.one)
    assert set((await hall.claimed()).values()) == {None}, "its claims are free"
    shards = await hall.store.claim(hall.two, OPEN, direct=False, orgs=MAIN, limit=9)
    assert [s.number for s in shards] == [1, 2, 3], "for others to claim"
    assert UNSURE not in shards[0].facts, "who leaves sends no more"


async def cuts_parts(maker: StoreMaker) -> None:
    """A worker cuts its shard into parts: their items change shards and never wait."""
    hall = await hall_on(maker)
    store, one = hall.store, hall.one
    await hall.claim(one, 1)
    part = await store.plan_part(one, 1, plan_of([1], facts={"part": True}))
    assert (part.number, part.state, part.facts) == (4, ShardState.PLANNED, {"part": True})
    assert (await hall.claimed())[4] == one.worker, "a part is claimed at once"
    members = await store.read_members("run", 1)
    assert [m.shard for m in members] == [1, 4], "the item travels in the part"
    assert await hall.desk.states() == "IIIIII", "and is in flight all the time"
    await rejects(store.plan_part(one, 1, plan_of([1])), "an item that has left is not inside")
    await rejects(store.plan_part(one, 1, plan_of([2])), "nor is one of another shard")
    await refuses(store.plan_part(one, 2, plan_of([2])), "only what is claimed is cut")
    await hall.move(one, 1, ShardState.DONE, rest=Rest(state=ItemState.PENDING))
    assert await hall.desk.states() == "PIIIII", "what was not cut out waits again"
    await hall.desk.audit()


async def tells_what_waits(maker: StoreMaker) -> None:
    """What waits is told by headers, fresh and tried apart, at any time, to anybody."""
    hall = await hall_on(maker)
    assert list(await hall.store.read_groups("run")) == [], "nothing waits"
    await hall.claim(hall.one, 1)
    back = [fault(0, ItemState.PENDING), fault(1, ItemState.PENDING, charge=0)]
    await hall.store.settle(hall.one, 1, back)
    await hall.desk.take(question(0), question(1), question(6, headers='{"a":"b"}'))
    told = list(await hall.store.read_groups("run"))
    wanted = [Group(headers="", fresh=1, again=1), Group(headers='{"a":"b"}', fresh=1, again=0)]
    assert told == wanted, "as start_wave tells it"
    assert (await hall.desk.info()).wave == 1, "and nothing changes by it"


async def keeps_claims(maker: StoreMaker) -> None:
    """Workers, claims and rests are there for another object on the same place."""
    hall = await hall_on(maker)
    await hall.claim(hall.one, 2)
    await hall.store.put_down(hall.one, 2, rested=True)
    await hall.store.put_note(hall.two, {"n": 1})
    before = (await hall.store.read_workers("run"), await hall.store.read_open("run"))
    store = cast("SharedStore", await maker.reopen(hall.store))
    after = (await store.read_workers("run"), await store.read_open("run"))
    assert after == before, "everything durable is the same after reopening"


CHECKS = (
    registers_workers,
    workers_and_owner_are_apart,
    claims_once,
    claims_what_is_asked_for,
    claims_only_where_open,
    rests_for_a_wave,
    fences_by_claim,
    buries_the_silent,
    marks_what_may_still_be_sent,
    leaves_and_gives_back,
    cuts_parts,
    tells_what_waits,
    keeps_claims,
)
