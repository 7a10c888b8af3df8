"""
Checks of the store port: answers of earlier runs to the questions of a new one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from batchwright.store import CheckpointStore, ItemState, Spent
from batchwright.testing._store_desk import (
    MODEL,
    TOKENS,
    Desk,
    answer,
    desk_on,
    fault,
    question,
    raw_answer,
    refused,
)

if TYPE_CHECKING:
    from batchwright.testing.conformance import StoreMaker

MANY = 2**40 - 1


async def _asks(store: CheckpointStore, run_id: str, *texts: str) -> Desk:
    """Return a run with one item for each text; the same text is the same question."""
    desk = await desk_on(store, run_id)
    await desk.take(*(question(n, f"{run_id}-{n}", text) for n, text in enumerate(texts)))
    return desk


async def _answers(desk: Desk, *seqs: int) -> None:
    """Let items be answered, each in its own words."""
    shard = await desk.ship(*seqs)
    said = (answer(seq, raw=raw_answer(f"{desk.run_id}-{seq}")) for seq in seqs)
    await desk.settle(shard.number, *said)


async def _found(desk: Desk, *sources: str, first: int = 0, last: int = MANY) -> dict[int, bytes]:
    found = await desk.store.find_answers(desk.run_id, sources, first, last)
    seqs = [one.member.seq for one in found]
    assert seqs == sorted(set(seqs)), "answers come by seq, one for an item"
    return {one.member.seq: one.raw for one in found}


async def finds_by_question(maker: StoreMaker) -> None:
    """A waiting item is given what an earlier run was answered to the same question."""
    store = await maker.fresh()
    old = await _asks(store, "old", "a", "b", "c")
    await _answers(old, 0, 2)
    new = await _asks(store, "new", "c", "x", "b", "a")
    wanted = {0: raw_answer("old-2"), 3: raw_answer("old-0")}
    assert await _found(new, "old") == wanted, "the same question, whatever its id"
    found = await store.find_answers("new", ["old"], 0, MANY)
    await new.plan(0, 1, 2, 3)
    members = {member.seq: member for member in await store.read_members("new", 1)}
    told = [(one.member.id, one.member.custom_id, one.member.seq) for one in found]
    assert told == [(members[n].id, members[n].custom_id, n) for n in (0, 3)], "the item is told"
    assert found[0].member.state is ItemState.PENDING, "as it stands"
    assert await _found(new, "old") == {}, "an item on its way is given nothing"


async def finds_by_range(maker: StoreMaker) -> None:
    """Only items within the range are looked at, and a page ends early by bytes."""
    store = await maker.fresh()
    old = await _asks(store, "old", "a", "b", "c", "d")
    await _answers(old, 0, 1, 2, 3)
    new = await _asks(store, "new", "d", "c", "b", "a")
    assert list(await _found(new, "old", first=1, last=2)) == [1, 2], "both ends included"
    assert list(await _found(new, "old", first=3, last=99)) == [3], "beyond the end is empty"
    assert list(await _found(new, "old", first=9, last=99)) == [], "beyond the end is empty"
    page = await store.find_answers("new", ["old"], 0, 3, max_bytes=1)
    assert [one.member.seq for one in page] == [0], "at least one, however large"
    size = 2 * len(raw_answer("old-3"))
    page = await store.find_answers("new", ["old"], 1, 3, max_bytes=size)
    assert [one.member.seq for one in page] == [1, 2], "as many as fit"


async def keeps_samples_apart(maker: StoreMaker) -> None:
    """The nth item of a question is given the nth one's answer, and each answer once."""
    store = await maker.fresh()
    old = await _asks(store, "old", "a", "a", "b", "a")
    await _answers(old, 0, 2, 3)
    new = await _asks(store, "new", "a", "b", "a", "a", "a", "b")
    wanted = {0: raw_answer("old-0"), 1: raw_answer("old-2"), 3: raw_answer("old-3")}
    assert await _found(new, "old") == wanted, "by occurrence; the second one has no answer"
    assert await _found(new, "old", first=3, last=3) == {3: wanted[3]}, "whatever the range"
    found = await store.find_answers("new", ["old"], 0, 0)
    said = [answer(0, None, via="cache", charge=0, org=None, raw=one.raw) for one in found]
    assert await new.settle(None, *said) == ["applied"], "what was found can be settled"
    del wanted[0]
    await _answers(old, 1)
    wanted[2] = raw_answer("old-1")
    assert await _found(new, "old") == wanted, "one that is answered still counts"
    outcome = (await new.row(0)).outcome
    assert (outcome.via, outcome.attempts) == ("cache", 0), "it cost no try"
    spent = Spent(via="cache", model=MODEL, answers=1, tokens=TOKENS)
    assert list((await new.info()).spent) == [spent], "it is counted by its path"
    await new.audit()


async def gives_answers_only(maker: StoreMaker) -> None:
    """Only what SUCCEEDED is given, and only to items that were never tried."""
    store = await maker.fresh()
    old = await _asks(store, "old", "a", "b", "c", "d", "e")
    shard = await old.ship(0, 1, 2, 3)
    said = (
        answer(0, state=ItemState.REJECTED, reason="rejected"),
        fault(1, ItemState.QUARANTINED, reason="invalid_request_error"),
        answer(2, state=ItemState.UNRESOLVED, reason="validator"),
        answer(3),
    )
    await old.settle(shard.number, *said)
    new = await _asks(store, "new", "a", "b", "c", "d", "e", "d")
    assert list(await _found(new, "old")) == [3], "only what succeeded"
    shard = await new.ship(3)
    await new.settle(shard.number, fault(3, ItemState.PENDING))
    assert await _found(new, "old") == {}, "only to items that were never tried"


async def finds_in_sources(maker: StoreMaker) -> None:
    """Only the runs named are looked at, in their order; never the run itself."""
    store = await maker.fresh()
    one, two = await _asks(store, "one", "a", "b"), await _asks(store, "two", "b", "a", "c")
    await _answers(one, 0, 1)
    await _answers(two, 0, 1, 2)
    new = await _asks(store, "new", "a", "c", "a")
    assert await _found(new) == {}, "no source, no answer"
    assert await _found(new, "one") == {0: raw_answer("one-0")}, "only runs that are named"
    wanted = {0: raw_answer("two-1"), 1: raw_answer("two-2")}
    assert await _found(new, "nobody", "two", "one") == wanted, "the run named first is first"
    await _answers(new, 0)
    assert await _found(new, "new", "nobody") == {}, "a run does not answer itself"


async def asks_when_committed(maker: StoreMaker) -> None:
    """What is only staged neither asks nor counts; refused items are nobody's question."""
    store = await maker.fresh()
    old = await _asks(store, "old", "a", "b")
    await _answers(old, 0, 1)
    await old.stage(question(0, "old-0", "a"), question(1, "staged", "a"))
    new = await desk_on(store, "new")
    await new.take(refused(0, "r"), question(1, "x", "b"))
    await new.stage(question(0, "y", "a"))
    assert list(await _found(new, "old")) == [1], "staged items do not ask"
    other = await desk_on(store, "other")
    await other.take(refused(0, "r"), question(1, "z", "b"))
    await _answers(other, 1)
    assert list(await _found(new, "other")) == [1], "a refused item matches no other"


CHECKS = (
    finds_by_question,
    finds_by_range,
    keeps_samples_apart,
    gives_answers_only,
    finds_in_sources,
    asks_when_committed,
)
