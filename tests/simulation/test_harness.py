"""The loop itself, and whether the harness does to a process what it says."""

from __future__ import annotations

import asyncio
import threading
import time

import anyio
import pytest
from tests.simulation import faults
from tests.simulation.__main__ import _parser, _scenario
from tests.simulation.levels import play_at
from tests.simulation.loop import DAY, SimDeadlock, SimHorizon, VirtualLoop
from tests.simulation.world import Scenario

from batchwright import _threads


def on(loop: VirtualLoop, work):
    """Run *work* on *loop*, and close it."""
    try:
        return loop.run_until_complete(work)
    finally:
        loop.drop_all()
        loop.close()


def test_a_month_of_sleep_takes_no_time():
    loop = VirtualLoop()
    began = time.perf_counter()
    on(loop, asyncio.sleep(30 * DAY))
    assert loop.time() == 30 * DAY
    assert time.perf_counter() - began < 1.0


def test_timeouts_of_asyncio_and_anyio_run_on_virtual_time():
    async def work():
        loop = asyncio.get_running_loop()
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(3_600.0):
                await asyncio.sleep(7_200.0)
        with anyio.move_on_after(60.0) as scope:
            await anyio.Event().wait()
        assert scope.cancelled_caught
        return loop.time()

    assert on(VirtualLoop(), work()) == 3_660.0


def test_what_nothing_will_wake_is_told_by_name():
    async def wait_for_ever():
        await asyncio.get_running_loop().create_future()

    async def work():
        await asyncio.create_task(wait_for_ever(), name="the one that waits")

    with pytest.raises(SimDeadlock, match="the one that waits"):
        on(VirtualLoop(), work())


def test_what_never_ends_is_told():
    async def busy():
        while True:
            await asyncio.sleep(0)

    async def patient():
        while True:
            await asyncio.sleep(3_600.0)

    with pytest.raises(SimHorizon, match="turns"):
        on(VirtualLoop(steps=1_000), busy())
    with pytest.raises(SimHorizon, match="virtual day"):
        on(VirtualLoop(), patient())


def _order(seed: int | None) -> list[int]:
    fired: list[int] = []

    async def work():
        loop = asyncio.get_running_loop()
        for number in range(8):
            loop.call_at(5.0, fired.append, number)
        await asyncio.sleep(6.0)

    on(VirtualLoop(seed), work())
    return fired


def test_timers_of_one_moment_fire_in_the_order_of_the_seed():
    assert _order(None) == list(range(8))
    assert _order(1) == _order(1)
    assert len({tuple(_order(seed)) for seed in range(6)}) > 3


def test_the_clock_holds_while_a_thread_works():
    async def work():
        worker = _threads.Worker("sim-test")
        loop = asyncio.get_running_loop()
        try:
            hour = loop.call_later(3_600.0, pytest.fail, "the clock ran on")
            await worker.call(lambda: threading.Event().wait(0.05))
            hour.cancel()
            return loop.time()
        finally:
            worker.stop()

    assert on(VirtualLoop(), work()) == 0.0


def test_a_killed_process_does_nothing_more():
    played = play_at(Scenario(seed=0, crash=(40,)))
    history = played.world.history
    (fell,) = [i for i, (_, life, what) in enumerate(history.lines) if what.startswith("KILLED")]
    later = [what for _, life, what in history.lines[fell + 1 :] if life == 1]
    assert played.endings[0].how == "killed"
    assert not [what for what in later if " > " in what]


@pytest.mark.parametrize("act", ["cancel", "error", "outage", "pause"])
def test_the_other_acts_happen(act: str):
    played = play_at(Scenario(seed=0, crash=(40,), act=act))
    notes = " ".join(note.text for note in played.world.history.notes)
    assert played.world.struck == [40]
    told = {"cancel": "TOLD TO STOP", "error": "", "outage": "OUTAGE", "pause": "PAUSED"}
    assert told[act] in notes


def test_a_run_is_played_again_from_its_line():
    scenario = Scenario(
        seed=7,
        crash=(12, 60),
        act="pause",
        faults=frozenset({"lost_create", "cut_results"}),
        store="sqlite",
        successor="elsewhere",
    )
    words = scenario.line().split()[3:]
    assert _scenario(_parser().parse_args(words)) == scenario


def test_unknown_faults_are_refused():
    with pytest.raises(ValueError, match="lost_creates"):
        faults.parse("lost_creates")
