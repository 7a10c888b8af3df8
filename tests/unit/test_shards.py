"""How waiting items are cut into sub-batches."""

from __future__ import annotations

import asyncio
import json
from collections import deque
from datetime import UTC, datetime
from types import SimpleNamespace

from hypothesis import given, settings
from hypothesis import strategies as st

from batchwright import Item
from batchwright._clock import clock
from batchwright._intake import IntakeRules, encode_item
from batchwright._shards import (
    Waiting,
    cut,
    cut_all,
    distinct_count,
    halves,
    leaves_now,
    share_of,
    spans_of,
)
from batchwright._submit import upload
from batchwright.store import Owner, Pending, ShardPlan
from batchwright.stores.memory import MemoryStore

ODD = st.text(
    alphabet=st.one_of(
        st.characters(exclude_categories=["Cs"]),
        st.sampled_from('🙂👩‍👩‍👧\u2028\u2029\u0085\x00\x1f"\\/é中ł'),
    ),
    max_size=60,
)
OWNER = Owner(host="h", boot="b", pid=1, started="s", instance="i")
NOW = datetime(2026, 1, 1, tzinfo=UTC)


async def stay() -> None:
    """Own the run."""


async def bodies_of(texts: list[str], max_requests: int, max_bytes: int) -> list[bytes]:
    """Take texts in, cut everything, and return the bodies as they would go over the wire."""
    store = MemoryStore()
    await store.open()
    lease = await store.acquire("run", OWNER, NOW, replacing=None)
    intake = await store.begin_intake(lease)
    rules = IntakeRules(run_id="run", max_bytes=max_bytes, api_version="2026-10-21")
    rows = [
        encode_item(
            Item(
                f"{i}:{text}",
                {"model": "m", "max_tokens": 1, "messages": [{"role": "user", "content": text}]},
            ),
            i,
            rules,
        )
        for i, text in enumerate(texts)
    ]
    assert all(row.refusal is None for row in rows)
    await store.stage(lease, intake, rows, "error")
    await store.commit_intake(lease, intake)
    await store.start_wave(lease, frozenset())
    bodies = []
    while items := await store.read_pending("run", "", -1, 1_000):
        most = min(max_requests, share_of(len(items), max_requests))
        piece = cut(items, max_requests=most, max_bytes=max_bytes)
        plan = ShardPlan(
            spans=piece.spans,
            count=piece.count,
            size=piece.size,
            headers="",
            org="o",
            wave=1,
            planned_at=NOW,
        )
        shard = await store.plan_shard(lease, plan)
        ctx = SimpleNamespace(store=store, run_id="run", stay_owner=stay)
        body = b"".join([part async for part in upload(ctx, shard, clock().awake())])
        assert len(body) == shard.size
        bodies.append(body)
    return bodies


@settings(max_examples=60, deadline=None)
@given(st.lists(ODD, min_size=1, max_size=30), st.integers(1, 12), st.integers(1_500, 5_000))
def test_shards_partition_the_input_within_both_limits(texts, max_requests, max_bytes):
    """R1: union is the input, no overlap, every body within both limits, counted on the wire."""
    bodies = asyncio.run(bodies_of(texts, max_requests, max_bytes))
    parsed = [json.loads(body)["requests"] for body in bodies]
    ids = [request["custom_id"] for requests in parsed for request in requests]
    asked = [r["params"]["messages"][0]["content"] for requests in parsed for r in requests]

    assert len(ids) == len(set(ids)) == len(texts)
    assert asked == texts
    assert all(1 <= len(requests) <= max_requests for requests in parsed)
    assert all(len(body) <= max_bytes for body in bodies)


def pending(*sizes: int) -> list[Pending]:
    return [Pending(seq=i, size=size) for i, size in enumerate(sizes)]


def test_the_byte_limit_is_kept_to_the_byte():
    """A body that fits exactly is not cut, one byte less and it is."""
    items = pending(100, 100, 100)
    exact = 15 + 300 + 2

    assert cut(items, max_requests=9, max_bytes=exact).count == 3
    assert cut(items, max_requests=9, max_bytes=exact).size == exact
    assert cut(items, max_requests=9, max_bytes=exact - 1).count == 2


def test_a_single_item_is_always_cut():
    """One item above a learned limit still leaves alone, so that the server may judge it."""
    assert cut(pending(500, 1), max_requests=9, max_bytes=100).seqs == (0,)


def test_ninety_thousand_make_twelve_equal_shards():
    """R1: 5,000 to 8,000 each, not eleven full ones and a rest."""
    waiting, counts = 90_000, []
    while waiting:
        counts.append(share_of(waiting, 8_000))
        waiting -= counts[-1]

    assert counts == [7_500] * 12


def test_spans():
    """Consecutive positions become spans."""
    assert spans_of([0, 1, 2, 5, 7, 8]) == [(0, 2), (5, 5), (7, 8)]
    assert spans_of([]) == []


def test_shards_in_doubt_together_differ_in_size_where_they_can():
    """A lost create is found by its count; a difference never costs one more shard."""
    assert distinct_count(7_500, {7_500, 7_499}, 90_000, 8_000) == 7_498
    assert distinct_count(8_000, {8_000}, 16_000, 8_000) == 8_000
    assert distinct_count(3, set(), 3, 8_000) == 3
    assert distinct_count(1, {1}, 1, 8_000) == 1


def test_all_shards_of_a_wave():
    """Ninety thousand in twelve that differ while they are sent together, all bytes counted."""
    cuts = list(
        cut_all([100] * 90_000, max_requests=8_000, max_bytes=10**9, abreast=8, under_way=deque())
    )

    assert len(cuts) == 12
    assert [c.seqs[0] for c in cuts] == [sum(c.count for c in cuts[:n]) for n in range(12)]
    assert sum(c.count for c in cuts) == 90_000
    assert all(len({c.count for c in cuts[n : n + 8]}) == 8 for n in range(5))
    assert max(c.count for c in cuts) <= 8_000


def test_all_shards_by_bytes():
    """Where bytes fill a shard first, nothing is left over and no body is too large."""
    cuts = list(cut_all([90] * 100, max_requests=50, max_bytes=1_000, abreast=1, under_way=deque()))

    assert [seq for c in cuts for seq in c.seqs] == list(range(100))
    assert all(c.size <= 1_000 for c in cuts)
    assert {c.count for c in cuts[:-1]} == {10}


def test_halving_isolates():
    """Both halves together are the whole."""
    assert halves([1, 2, 3, 4, 5]) == ([1, 2, 3], [4, 5])
    assert halves([1, 2]) == ([1], [2])


def waiting(**changes):
    base = {
        "fresh": 0,
        "again": 0,
        "live": 3,
        "gathering_for": 10.0,
        "backoff": 1.0,
        "gather": 300.0,
        "max_requests": 100,
    }
    return Waiting(**{**base, **changes})


def test_when_a_shard_leaves():
    """Fresh items at once; retries when full, alone, or gathered long enough: never the slowest."""
    assert leaves_now(waiting(fresh=1))
    assert not leaves_now(waiting(again=5))
    assert leaves_now(waiting(again=100))
    assert leaves_now(waiting(again=1, live=0))
    assert leaves_now(waiting(again=1, gathering_for=300.0))
    assert not leaves_now(waiting(again=1, live=0, gathering_for=0.5))
    assert not leaves_now(waiting())
