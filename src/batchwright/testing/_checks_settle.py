"""
Checks of the store port: what result lines do.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from batchwright.errors import StoreError
from batchwright.store import ItemState, Rest, ShardState, Spent
from batchwright.testing._store_desk import (
    MODEL,
    TOKENS,
    Desk,
    answer,
    desk_on,
    fault,
    raw_answer,
)

if TYPE_CHECKING:
    from batchwright.testing.conformance import StoreMaker

ONCE = Spent(via="batch", model=MODEL, answers=1, tokens=TOKENS)
TWICE = Spent(via="batch", model=MODEL, answers=2, tokens=TOKENS + TOKENS)
#: Half an emoji, as models emit it: legal JSON, not legal UTF-8.
HALF = b'{"type":"succeeded","message":{"content":[{"type":"text","text":"\\ud83d"}]}}'


async def _flying(maker: StoreMaker, count: int = 3) -> Desk:
    desk = await desk_on(await maker.fresh())
    await desk.fill(count)
    await desk.ship(*range(count))
    return desk


async def applies_answers(maker: StoreMaker) -> None:
    """An answer becomes the item's outcome, whole, and is counted."""
    desk = await _flying(maker)
    cut = answer(1, raw=raw_answer(stop_reason="max_tokens"), flag="truncated")
    said = (answer(0), cut, answer(2, raw=raw_answer(stop_reason="refusal"), flag="refused"))
    assert await desk.settle(1, *said) == ["applied"] * 3, "answers are applied"
    row = await desk.row(0)
    told = (row.outcome.status, row.outcome.attempts, row.outcome.via, row.outcome.org)
    assert told == ("succeeded", 1, "batch", "main"), "the outcome tells path, org and attempts"
    assert (row.outcome.batch_id, row.outcome.raw) == ("b-1", raw_answer()), "and batch and bytes"
    assert (row.outcome.reason, row.outcome.error) == (None, None), "and no reason"
    info = await desk.info()
    assert (info.truncated, info.refused) == (1, 1), "answers that need a look are counted"
    assert info.spent[0].answers == 3, "answers are counted by path and model"
    assert list(info.waste) == [], "nothing is waste"
    await desk.audit()


async def keeps_bytes(maker: StoreMaker) -> None:
    """An answer's bytes come back as they were, also where they hold half an emoji."""
    desk = await _flying(maker, 2)
    await desk.settle(1, answer(0, raw=HALF), answer(1, raw=b'"\xe2\x80\xa8\\u0000"'))
    rows = await desk.rows()
    assert [r.outcome.raw for r in rows] == [HALF, b'"\xe2\x80\xa8\\u0000"'], "byte for byte"


async def reads_twice(maker: StoreMaker) -> None:
    """Reading a batch twice changes nothing, whatever its lines say."""
    desk = await _flying(maker, 5)
    said = (
        answer(0),
        fault(1, ItemState.QUARANTINED, reason="invalid_request"),
        fault(2, ItemState.UNRESOLVED, reason="exhausted"),
        fault(3, ItemState.PENDING),
        answer(4, state=ItemState.REJECTED, reason="rejected_by_validate"),
    )
    assert await desk.settle(1, *said) == ["applied"] * 5, "the first reading is applied"
    before = (await desk.info(), await desk.rows(), await desk.store.read_members("run", 1))
    told = await desk.settle(1, *said)
    assert (told[0], told[4]) == ("again", "again"), "the same answer is told as such"
    assert "applied" not in told, "nothing is applied twice"
    after = (await desk.info(), await desk.rows(), await desk.store.read_members("run", 1))
    assert after == before, "the second reading changes nothing"
    assert await desk.states() == "SQUPR", "states follow the lines"
    await desk.audit()


async def reads_twice_at_once(maker: StoreMaker) -> None:
    """Two lines for one item in one call are taken in order."""
    desk = await _flying(maker, 2)
    other = answer(0, "b-9")
    told = await desk.settle(1, answer(0), answer(0), other, fault(1, ItemState.PENDING), answer(1))
    assert told == ["applied", "again", "late", "applied", "applied"], "lines are taken in order"
    assert await desk.states() == "SS", "an answer wins over a fault"
    assert list((await desk.info()).spent) == [TWICE], "counted once each"
    await desk.audit()


async def first_answer_wins(maker: StoreMaker) -> None:
    """Another answer for a final item is waste, counted once, and changes nothing."""
    desk = await _flying(maker, 2)
    first = answer(0, raw=raw_answer("first"))
    second = answer(0, "b-2", raw=raw_answer("second"))
    await desk.settle(1, first)
    assert await desk.settle(2, second) == ["late"], "the first durable answer wins"
    assert (await desk.row(0)).outcome.raw == first.raw, "the first durable answer stays"
    info = await desk.info()
    assert (list(info.spent), list(info.waste)) == ([ONCE], [ONCE]), "a late answer is waste"
    assert await desk.settle(2, second) == ["again"], "a late answer read again is no more waste"
    assert list((await desk.info()).waste) == [ONCE], "a late answer is waste once"
    told = await desk.settle(None, answer(0, None, via="sync", raw=raw_answer("third")))
    assert told == ["late"], "a direct answer can be late too"
    paths = [spent.via for spent in (await desk.info()).waste]
    assert sorted(paths) == ["batch", "sync"], "waste is counted by path"
    await desk.audit()


async def answers_from_elsewhere(maker: StoreMaker) -> None:
    """An answer counts whichever shard brings it, as long as the item is not final."""
    desk = await _flying(maker)
    await desk.move(1, ShardState.HELD, rest=Rest(state=ItemState.PENDING))
    await desk.ship(0, 1)
    assert await desk.settle(1, answer(0), answer(2)) == ["applied", "applied"], "from the old one"
    assert await desk.states() == "SIS", "an answer settles an item that waits or flies elsewhere"
    assert await desk.settle(2, answer(0, "b-2")) == ["late"], "then the other one is late"
    rest = Rest(state=ItemState.UNRESOLVED, reason="missing", charge=1)
    await desk.move(2, ShardState.DONE, rest=rest)
    assert await desk.states() == "SUS", "the rest of a shard is what still flies in it"
    assert await desk.settle(2, answer(1, "b-2")) == ["applied"], "an unresolved item is not final"
    await desk.audit()


async def faults_stay_in_their_shard(maker: StoreMaker) -> None:
    """Anything but an answer counts only while the item belongs to the shard that says it."""
    desk = await _flying(maker)
    assert await desk.settle(1, fault(0, ItemState.PENDING)) == ["applied"], "a retry"
    assert await desk.settle(1, fault(0, ItemState.PENDING)) == ["stale"], "it left the shard"
    await desk.ship(0)
    quarantine = fault(0, ItemState.QUARANTINED, reason="invalid_request")
    assert await desk.settle(1, quarantine) == ["stale"], "it flies in another shard"
    assert await desk.settle(None, quarantine) == ["stale"], "it flies in a shard"
    assert await desk.settle(7, fault(1, ItemState.PENDING)) == ["stale"], "not this item's shard"
    assert await desk.states() == "III", "stale lines change nothing"
    assert (await desk.row(0)).outcome.attempts == 1, "stale lines cost nothing"
    assert await desk.settle(2, fault(0, ItemState.PENDING, "b-2", charge=0)) == ["applied"]
    assert (await desk.row(0)).outcome.attempts == 1, "a charge of 0 costs nothing"
    await desk.settle(1, answer(1))
    told = await desk.settle(1, fault(1, ItemState.QUARANTINED, "b-7"))
    assert told == ["stale"], "an answer is not undone"
    await desk.audit()


async def waits_for_its_validator(maker: StoreMaker) -> None:
    """An answer whose validator broke is stored, and judged anew without cost."""
    desk = await _flying(maker, 2)
    broken = answer(0, state=ItemState.UNRESOLVED, reason="validator")
    assert await desk.settle(1, broken) == ["applied"], "the answer is stored"
    row = await desk.row(0)
    assert (row.state, row.outcome.raw) == (ItemState.UNRESOLVED, raw_answer()), "with its bytes"
    assert await desk.settle(1, broken) == ["again"], "the same answer read again"
    assert await desk.settle(1, answer(0)) == ["applied"], "judged anew"
    row = await desk.row(0)
    assert (row.state, row.outcome.attempts) == (ItemState.SUCCEEDED, 1), "at no further attempt"
    assert list((await desk.info()).spent) == [ONCE], "its tokens count once"
    await desk.settle(1, answer(1, state=ItemState.UNRESOLVED, reason="validator"))
    asked = answer(1, state=ItemState.PENDING, reason="rejected", charge=0)
    assert await desk.settle(None, asked) == ["applied"], "judged anew from the store: try again"
    assert list((await desk.info()).spent) == [TWICE], "its tokens count once"
    await desk.audit()


async def tries_rejected_again(maker: StoreMaker) -> None:
    """An answer that was refused and is asked for again is no outcome, and was paid for."""
    desk = await _flying(maker, 2)
    refusal = answer(0, state=ItemState.PENDING, reason="rejected")
    assert await desk.settle(1, refusal) == ["applied"], "the item is tried again"
    assert await desk.settle(1, refusal) == ["stale"], "once"
    row = await desk.row(0)
    assert (row.state, row.outcome.raw) == (ItemState.PENDING, None), "it has no answer"
    assert (row.outcome.reason, row.outcome.attempts) == ("rejected", 1), "it tells why"
    info = await desk.info()
    assert (list(info.spent), list(info.waste)) == ([ONCE], []), "its tokens were spent, once"
    assert info.reasons == {"rejected": 1}, "its reason is counted while it waits"
    await desk.ship(0)
    assert (await desk.info()).reasons == {}, "and no more when it is under way"
    assert await desk.settle(2, answer(0, "b-2")) == ["applied"], "the next answer counts"
    await desk.audit()


async def settles_direct_answers(maker: StoreMaker) -> None:
    """The direct path settles items that wait in no shard."""
    desk = await desk_on(await maker.fresh())
    await desk.fill(3)
    again = fault(0, ItemState.PENDING, None, via="sync")
    assert await desk.settle(None, again) == ["applied"], "a failed try"
    assert await desk.settle(None, again) == ["applied"], "another failed try"
    told = await desk.settle(
        None,
        answer(0, None, via="sync"),
        fault(1, ItemState.QUARANTINED, None, via="sync", reason="too_large"),
        fault(2, ItemState.UNRESOLVED, None, via="sync", reason="exhausted"),
    )
    assert told == ["applied"] * 3, "answers and faults of items without a shard"
    outcome = (await desk.row(0)).outcome
    told_now = (outcome.attempts, outcome.via, outcome.org, outcome.batch_id)
    assert told_now == (3, "sync", "main", None), "the outcome tells the path"
    assert await desk.settle(None, answer(0, None, via="sync")) == ["again"], "the same bytes"
    assert await desk.states() == "SQU", "states follow what was said"
    spent = Spent(via="sync", model=MODEL, answers=1, tokens=TOKENS)
    assert list((await desk.info()).spent) == [spent], "counted under its path"
    await desk.audit()


async def settles_all_or_nothing(maker: StoreMaker) -> None:
    """A settlement for an item that does not exist is refused with the whole call."""
    desk = await _flying(maker, 2)
    before = (await desk.info(), await desk.rows())
    try:
        await desk.settle(1, answer(0), answer(2))
    except StoreError:
        assert (await desk.info(), await desk.rows()) == before, "a refused call changes nothing"
    else:
        raise AssertionError("a settlement for an unknown item is refused")
    assert await desk.settle(1) == [], "no settlements, no verdicts"


async def counts_large_calls(maker: StoreMaker) -> None:
    """Two thousand settlements in one call are counted like any others."""
    desk = await _flying(maker, 2_000)
    said = [answer(n) if n % 2 else fault(n, ItemState.PENDING) for n in range(2_000)]
    assert await desk.settle(1, *said) == ["applied"] * 2_000, "all are applied"
    info = await desk.info()
    counts = (info.states[ItemState.SUCCEEDED], info.states[ItemState.PENDING])
    assert counts == (1_000, 1_000), "all are counted"
    shard = await desk.ship(*range(0, 2_000, 2))
    assert (shard.count, len(shard.spans)) == (1_000, 1_000), "a shard of scattered items"
    await desk.move(2, ShardState.DONE, rest=Rest(state=ItemState.PENDING))
    assert len(await desk.pending()) == 1_000, "moves as one"


CHECKS = (
    applies_answers,
    keeps_bytes,
    reads_twice,
    reads_twice_at_once,
    first_answer_wins,
    answers_from_elsewhere,
    faults_stay_in_their_shard,
    waits_for_its_validator,
    tries_rejected_again,
    settles_direct_answers,
    settles_all_or_nothing,
    counts_large_calls,
)
