"""Answers of earlier runs: both stores find the same, and each answer serves one item alone."""

from __future__ import annotations

import random

import pytest

from batchwright.store import ItemState
from batchwright.stores import MemoryStore, SQLiteStore
from batchwright.stores._occurrences import Asked, match
from batchwright.stores._sqlite_cache import has_index
from batchwright.testing._store_desk import answer, desk_on, fault, question, raw_answer

RUNS = ("one", "two", "three")


@pytest.fixture
async def store(tmp_path):
    """An open store in an empty folder."""
    store = SQLiteStore(tmp_path / "run.db")
    await store.open()
    yield store
    await store.close()


async def fill(store, seed):
    """Make three runs with few questions, asked often, some of them answered."""
    draw = random.Random(seed)
    for run_id in RUNS:
        desk = await desk_on(store, run_id)
        count = draw.randrange(1, 25)
        await desk.take(*(question(n, text=draw.choice("abcd")) for n in range(count)))
        asked = sorted(draw.sample(range(count), draw.randrange(1, count + 1)))
        shard = await desk.ship(*asked)
        for seq in asked:
            said = answer(seq, raw=raw_answer(f"{run_id}-{seq}"))
            if draw.random() < 0.3:
                said = fault(seq, draw.choice([ItemState.PENDING, ItemState.UNRESOLVED]))
            await desk.settle(shard.number, said)


@pytest.mark.parametrize("seed", range(20))
async def test_stores_agree(store, seed):
    """The SQLite store finds what the memory store finds, whatever the runs look like."""
    model = MemoryStore()
    await fill(model, seed)
    await fill(store, seed)
    for run_id in RUNS:
        sources = [name for name in RUNS if name != run_id]
        for first, last in ((0, 99), (3, 9)):
            found = await store.find_answers(run_id, sources, first, last)
            assert found == await model.find_answers(run_id, sources, first, last)
            raws = [one.raw for one in found]
            assert len(set(raws)) == len(raws)


async def test_the_index_is_made_when_it_is_needed(store):
    """A store that is never asked for answers of earlier runs does not pay for the index."""
    await fill(store, 1)
    assert not await store._read(has_index)
    await store.find_answers("one", ["two"], 0, 9)
    assert await store._read(has_index)


def test_an_answer_serves_one_item():
    """Samples are matched by occurrence, so what a source gains later is not given twice."""
    run = [Asked(0, n, b"q", True) for n in range(3)]
    late = [Asked(1, n, b"q", n > 0) for n in range(3)]
    assert match([*run, *late]) == [(1, (1, 1)), (2, (1, 2))]
    whole = [Asked(1, n, b"q", True) for n in range(3)]
    assert match([*run, *whole]) == [(0, (1, 0)), (1, (1, 1)), (2, (1, 2))]
