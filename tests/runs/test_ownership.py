"""One live process owns a run; a dead one is succeeded at once; a paused one can do nothing."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from tests.support import Heard, assert_own_answers, items, runner_on, sent

from batchwright import RunLocked, ShardLimits, _lease
from batchwright._clock import SystemClock, use_clock
from batchwright.events import ShardSubmitted, WaitingForOwner
from batchwright.simulator import Simulator, WorldSettings
from batchwright.store import Owner
from batchwright.stores import open_store
from batchwright.testing import simulate

CHILD = Path(__file__).with_name("child.py")
NOW = datetime(2026, 11, 29, tzinfo=UTC)


def lease_of(owner, beat_at=NOW):
    return _lease.Lease(run_id="r", token=1, owner=owner, beat_at=beat_at)


def test_a_dead_pid_on_this_boot_is_gone():
    """Told at once, without waiting for anything."""
    here = _lease.myself()
    with subprocess.Popen([sys.executable, "-c", ""]) as child:
        child.wait()
    dead = replace(here, pid=child.pid)

    assert _lease.may_succeed(lease_of(dead), here, NOW)


def test_a_reused_pid_is_not_taken_for_the_owner():
    """The start time tells a new process from the old one with the same number."""
    here = _lease.myself()

    assert _lease.may_succeed(lease_of(replace(here, started="1")), here, NOW)
    assert not _lease.may_succeed(lease_of(here), here, NOW)


@pytest.mark.parametrize("change", [{"host": "elsewhere"}, {"boot": "another boot"}])
def test_elsewhere_only_the_heartbeat_tells(change):
    """What cannot be asked is believed alive until its lease lapses."""
    here = _lease.myself()
    other = replace(here, pid=1, started="x", **change)

    assert not _lease.may_succeed(lease_of(other), here, NOW + timedelta(seconds=15))
    assert _lease.may_succeed(lease_of(other), here, NOW + timedelta(seconds=16))


def test_an_owner_that_may_not_be_asked_is_believed_alive(monkeypatch):
    """Another user's process answers a signal with a refusal: it lives."""

    def refuse(pid, sig):
        raise PermissionError

    here = _lease.myself()
    monkeypatch.setattr(os, "kill", refuse)

    assert not _lease.may_succeed(lease_of(replace(here, pid=1)), here, NOW)


class Quick(SystemClock):
    """A clock on which a second passes in a millisecond."""

    def __init__(self):
        super().__init__()
        self.passed = 0.0

    def now(self):
        return NOW + timedelta(seconds=self.passed)

    def monotonic(self):
        return self.passed

    async def sleep(self, seconds):
        self.passed += seconds
        await asyncio.sleep(0)


def elsewhere() -> Owner:
    return replace(_lease.myself(), host="elsewhere", boot="b")


async def test_a_silent_owner_elsewhere_is_outwaited_with_a_countdown():
    """The lease lapses 15 s after the last heartbeat, and the wait is told."""
    heard = Heard()
    with use_clock(Quick()) as quick:
        store = open_store("memory://")
        await store.acquire("r", elsewhere(), quick.now(), replacing=None)
        lease, gone = await _lease.take(store, "r", heard)

    told = [event.left for event in heard.of(WaitingForOwner)]
    assert told == sorted(told, reverse=True)
    assert told[0] == pytest.approx(15.0)
    assert lease.owner.host == _lease.myself().host
    assert gone is False


async def test_an_owner_elsewhere_that_shows_life_keeps_the_run():
    """A heartbeat during the wait: refused, nothing is taken over."""
    with use_clock(Quick()) as quick:
        store = open_store("memory://")
        held = await store.acquire("r", elsewhere(), quick.now(), replacing=None)
        renewed = []

        async def beat() -> None:
            renewed.append(await store.renew(held, quick.now()))

        sleeping = quick.sleep

        async def sleep(seconds):
            if not renewed:
                await beat()
            await sleeping(seconds)

        quick.sleep = sleep
        with pytest.raises(RunLocked, match="elsewhere"):
            await _lease.take(store, "r", Heard())


@pytest.mark.parametrize("skew", [-7_200.0, 14.0, 7_200.0], ids="{:+.0f} s".format)
async def test_clocks_that_disagree_do_not_unseat_a_live_owner(skew):
    """Whose lease looks hours old, or is of tomorrow, is watched: its heart beats."""
    with use_clock(Quick()) as quick:
        store = open_store("memory://")
        theirs = quick.now() - timedelta(seconds=skew)
        held = await store.acquire("r", elsewhere(), theirs, replacing=None)
        sleeping, asleep = quick.sleep, []

        async def sleep(seconds):
            asleep.append(seconds)
            if sum(asleep) >= _lease.HEARTBEAT:
                await store.renew(held, quick.now() - timedelta(seconds=skew))
            await sleeping(seconds)

        quick.sleep = sleep
        with pytest.raises(RunLocked, match="elsewhere"):
            await _lease.take(store, "r", Heard())


@pytest.mark.parametrize("skew", [-7_200.0, 0.0, 7_200.0], ids="{:+.0f} s".format)
async def test_a_dead_owner_elsewhere_is_succeeded_whatever_its_clock_said(skew):
    """After 15 seconds of silence at most, counted here."""
    with use_clock(Quick()) as quick:
        store = open_store("memory://")
        theirs = quick.now() - timedelta(seconds=skew)
        await store.acquire("r", elsewhere(), theirs, replacing=None)
        lease, _ = await _lease.take(store, "r", Heard())
        assert lease.owner.host == _lease.myself().host
        assert quick.passed == pytest.approx(_lease.WATCH if skew > 0 else _lease.LAPSE)


async def test_a_paused_owner_is_succeeded_and_can_do_nothing_when_it_wakes(tmp_path, monkeypatch):
    """kill -STOP, takeover, kill -CONT: it writes nothing and sends nothing."""
    settings = WorldSettings(duration=(200, 200))
    store = tmp_path / "run.db"
    with Simulator(speed=400, settings=settings) as sim:
        argv = [sys.executable, str(CHILD), sim.url, sim.api_key, str(store), "40", "10", "1"]
        with subprocess.Popen(
            argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        ) as child:
            assert child.stdout is not None
            for line in child.stdout:
                if line.strip() == "ShardSubmitted":
                    break
            child.send_signal(signal.SIGSTOP)
            before = len(sim.creates)
            # For the test's successor a lease lapses at once; the owner's own is what it was.
            monkeypatch.setattr(_lease, "LAPSE", 0.0)
            await asyncio.sleep(0.01)
            async with runner_on(sim, store, limits=ShardLimits(max_requests=10)) as runner:
                task = asyncio.create_task(runner.run(items(40)))
                while len(sim.creates) == before:
                    await asyncio.sleep(0.005)
                child.send_signal(signal.SIGCONT)
                result = await task
            _, complaint = await asyncio.to_thread(child.communicate)

        assert result.complete
        assert_own_answers(result, items(40))
        assert set(sent(sim).values()) == {1}
        assert child.returncode != 0
        assert "owned by another live process" in complaint


async def test_a_sleeper_proves_its_lease_before_it_sends(tmp_path):
    """Just before each POST the run is proved to be ours, on a clock that counts sleep."""

    class Sleepy(SystemClock):
        asleep = 0.0

        def awake(self):
            return super().awake() + self.asleep

    proofs = []
    with use_clock(Sleepy()) as sleepy:

        def nap(_event):
            sleepy.asleep += 60.0

        async with (
            simulate() as sim,
            runner_on(sim, tmp_path / "run.db", on_event=nap) as runner,
        ):
            store = runner._store
            renew = store.renew

            async def counted(lease, now):
                proofs.append(len(sim.world.batches))
                return await renew(lease, now)

            store.renew = counted
            result = await runner.run(items(3))

    assert result.complete
    assert proofs[0] == 0


async def test_who_is_cancelled_twice_can_go_on_at_once(tmp_path, monkeypatch):
    """The second cancel falls into giving the run up; the same process is not locked out."""
    heard = Heard()
    async with simulate() as sim, runner_on(sim, tmp_path / "run.db", on_event=heard) as runner:
        task = asyncio.create_task(runner.run(items(30)))
        release = runner._store.release

        async def interrupted(lease):
            task.cancel()
            await asyncio.sleep(0)
            await release(lease)

        monkeypatch.setattr(runner._store, "release", interrupted)
        await heard.until(ShardSubmitted)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        monkeypatch.undo()

        assert (await runner.run(items(30))).complete


async def test_the_lease_is_kept_while_items_are_read(tmp_path, monkeypatch):
    """A source of items may be slow: nobody takes the run over meanwhile."""
    monkeypatch.setattr(_lease, "HEARTBEAT", 0.01)
    monkeypatch.setattr(_lease, "LAPSE", 0.1)
    reading = asyncio.Event()

    async def slowly():
        for number, item in enumerate(items(30)):
            yield item
            await asyncio.sleep(0.01)
            if number == 20:
                reading.set()

    async with simulate() as sim:
        async with runner_on(sim, tmp_path / "run.db") as first:
            task = asyncio.create_task(first.run(slowly()))
            await reading.wait()
            async with runner_on(sim, tmp_path / "run.db") as second:
                with pytest.raises(RunLocked):
                    await second.run(items(30))
            assert (await task).complete
