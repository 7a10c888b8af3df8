"""Who counts as dead: by one's own clock, and only for time in which one looked."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from batchwright import _lease
from batchwright._clock import SystemClock, use_clock
from batchwright._lease import HEARTBEAT, LAPSE
from batchwright._roll import Roll, Vigil
from batchwright.events import WorkerLost
from batchwright.store import Lease, Owner
from batchwright.stores import MemoryStore

NOW = datetime(2026, 11, 29, tzinfo=UTC)
ELSEWHERE = Owner(host="there", boot="b", pid=7, started="s", instance="i")
LEASE = Lease(run_id="run", token=3, owner=ELSEWHERE, beat_at=NOW, worker=2)


class Moved(SystemClock):
    """A clock whose time is set by hand."""

    seconds = 0.0

    def awake(self) -> float:
        return self.seconds


@pytest.fixture
def time():
    """The time in force."""
    with use_clock(Moved()) as clock:
        yield clock


def test_silence_is_counted_from_the_first_look(time):
    """However old a beat looks by its own clock: that one may be wrong."""
    vigil = Vigil()
    silent = []
    for _ in range(8):
        silent.append(vigil.is_silent(LEASE))
        time.seconds += HEARTBEAT

    assert silent == [False] * 6 + [True] * 2


def test_a_beat_ends_the_silence(time):
    """Whoever beats is alive, and is counted anew."""
    vigil = Vigil()
    for token in range(10):
        assert not vigil.is_silent(replace(LEASE, token=token))
        time.seconds += LAPSE / 2


def test_an_outage_of_the_store_kills_nobody(time):
    """Nobody can beat while the database is away, so nobody is dead when it is back."""
    vigil = Vigil()
    assert not vigil.is_silent(LEASE)
    time.seconds += 600.0
    assert not vigil.is_silent(LEASE)
    time.seconds += 1.0
    assert not vigil.is_silent(replace(LEASE, token=4))


def test_the_lease_of_the_run_and_of_the_worker_are_two():
    """One process holds both, and each beats for itself."""
    vigil = Vigil()
    for token in (3, 4, 5):
        assert not vigil.is_silent(replace(LEASE, token=token))
        assert not vigil.is_silent(replace(LEASE, worker=0, token=1))


async def store_with(owner: Owner) -> MemoryStore:
    store = MemoryStore()
    await store.acquire("run", owner, NOW, replacing=None)
    await store.join("run", owner, NOW)
    return store


async def test_a_dead_process_on_this_machine_is_buried_at_once():
    """Nothing has to be waited for where the system can be asked."""
    here = _lease.myself()
    heard = []
    store = await store_with(replace(here, started="long ago", instance="other"))
    roll = Roll(store, "run", heard.append)

    assert await roll.look() == []
    (lost,) = heard
    assert isinstance(lost, WorkerLost)
    assert lost.certain
    found = await roll.succeed()
    assert found is not None
    lease, dead = found
    assert dead
    assert await store.read_lease("run") == lease


async def test_one_elsewhere_is_buried_when_it_lapses(time):
    """Its shards are then marked, since it may only be slow."""
    heard = []
    store = await store_with(ELSEWHERE)
    roll = Roll(store, "run", heard.append)
    while await roll.look():
        assert await roll.succeed() is None
        time.seconds += HEARTBEAT
    found = await roll.succeed()

    assert LAPSE < time.seconds <= LAPSE + 2 * HEARTBEAT
    assert [event.certain for event in heard] == [False]
    assert found is not None
    assert not found[1]
