"""The switch: decided by the policy, carried out once, nothing answered twice."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from datetime import UTC, datetime

import anthropic
import pytest
from tests.support import (
    EAGER,
    FAST,
    Heard,
    assert_conserved,
    assert_own_answers,
    items,
    runner_on,
    sent,
)

from batchwright import (
    AdaptivePolicy,
    BatchRunner,
    Deadline,
    Org,
    ShardLimits,
    Stay,
    Switch,
    SyncLimits,
    WaveSnapshot,
)
from batchwright.events import BatchCanceled, SwitchDecided, WaveLooksWedged
from batchwright.simulator import ScaledClock, Simulator, WorldSettings
from batchwright.testing import simulate

#: Every batch sits for most of a day; a cancel drains within a minute, some requests finish.
WEDGED = WorldSettings(
    duration=(80_000, 84_000), cancel_seconds=(10, 50), cancel_in_flight=0.1, keep_bodies=True
)
TEN = ShardLimits(max_requests=10)


async def three_orgs(sim: Simulator, stack: AsyncExitStack) -> list[Org]:
    """Return three accounts of their own on *sim*."""
    clients = [
        await stack.enter_async_context(
            anthropic.AsyncAnthropic(base_url=sim.url, api_key=f"key-of-{name}")
        )
        for name in ("a", "b", "c")
    ]
    return [Org(name, client) for name, client in zip("abc", clients, strict=True)]


def direct(sim: Simulator) -> list[str]:
    """Return the questions that were asked directly, probes left out."""
    texts = [call.params["messages"][0]["content"] for call in sim.messages]
    return [text for text in texts if text != "."]


def assert_nothing_answered_twice(sim: Simulator, result, asked) -> None:
    """The server's books: what a batch answered was not asked directly, and nothing twice."""
    text_of = {result[key].custom_id: body["messages"][0]["content"] for key, body in asked}
    asked_directly = direct(sim)
    assert len(asked_directly) == len(set(asked_directly))
    billed = {text_of[custom_id] for custom_id in sim.world.books().billed}
    assert billed.isdisjoint(asked_directly)
    assert sim.world.books().billed_twice == {}


async def test_a_wedged_wave_switches_once():
    """R17-R19, R25, R27: 55 sub-batches of 3 orgs; canceled by their owners, the rest direct."""
    heard = Heard()
    asked = items(550)
    async with simulate(settings=WEDGED) as sim, AsyncExitStack() as stack:
        orgs = await three_orgs(sim, stack)
        runner = BatchRunner(
            orgs=orgs,
            store="memory://",
            policy="balanced",
            limits=TEN,
            polling=FAST,
            retry=EAGER,
            on_event=heard,
        )
        result = await runner.run(asked)

        assert result.complete
        assert_conserved(result, 550)
        assert_own_answers(result, asked)
        assert len(heard.of(SwitchDecided)) == 1
        assert {o.via for o in result.outcomes} == {"batch", "sync"}
        assert_nothing_answered_twice(sim, result, asked)
        owners = {c.batch_id: c.workspace for c in sim.creates}
        assert len({owners[call.batch_id] for call in sim.calls("cancel")}) == 3
        assert all(owners[call.batch_id] == call.workspace for call in sim.calls("cancel"))
        assert all(o.attempts == 1 for o in result.outcomes)
        (decided,) = heard.of(SwitchDecided)
        assert decided.remaining == 550
        assert decided.facts["sync_finish"]["source"]


async def test_a_healthy_wave_does_not_switch():
    """R22, R27: batches that end within minutes are left alone, whatever the policy."""
    settings = WorldSettings(duration=(60, 400))
    for policy in ("balanced", "cost", "batch"):
        heard = Heard()
        async with (
            simulate(settings=settings) as sim,
            runner_on(sim, policy=policy, limits=TEN, on_event=heard) as runner,
        ):
            result = await runner.run(items(100))

            assert result.complete
            assert heard.of(SwitchDecided) == []
            assert sim.calls("cancel") == []
            assert direct(sim) == []


async def test_a_slow_wave_that_still_beats_direct_calls_does_not_switch():
    """R22: hours of batches are fine where direct calls would take longer."""
    heard = Heard()
    async with (
        simulate(settings=WorldSettings(duration=(20_000, 40_000))) as sim,
        runner_on(
            sim,
            policy=AdaptivePolicy("balanced", wedge_after=None),
            sync=SyncLimits(rpm=1),
            limits=TEN,
            on_event=heard,
        ) as runner,
    ):
        result = await runner.run(items(3_000))

        assert result.complete
        assert heard.of(SwitchDecided) == []


async def test_cost_never_switches_by_itself_and_alarms_once():
    """R21, R23: the alarm says what both paths would take, what it costs, and what to type."""
    heard = Heard()
    settings = WorldSettings(duration=(20_000, 20_000))
    async with (
        simulate(settings=settings) as sim,
        runner_on(sim, limits=TEN, on_event=heard) as runner,
    ):
        result = await runner.run(items(50))

        assert result.complete
        assert heard.of(SwitchDecided) == []
        (alarm,) = heard.of(WaveLooksWedged)
        assert "batchwright switch" in alarm.advice
        assert alarm.facts["sync_finish"]["likely"] is not None
        assert {o.via for o in result.outcomes} == {"batch"}


async def test_a_verdict_must_hold():
    """A policy that flaps does not switch; consecutive verdicts are counted by the engine."""

    class Flapping:
        confirmations = 3
        asked = 0

        def decide(self, snapshot):
            self.asked += 1
            return Stay("calm") if self.asked % 3 == 0 else Switch("nervous")

    policy, heard = Flapping(), Heard()
    async with (
        simulate(settings=WorldSettings(duration=(30_000, 30_000))) as sim,
        runner_on(sim, policy=policy, limits=TEN, on_event=heard) as runner,
    ):
        # At the start a single verdict decides the route, so the first answer is to stay.
        policy.asked = 2
        result = await runner.run(items(20))

        assert result.complete
        assert policy.asked > 8
        assert heard.of(SwitchDecided) == []


class Once:
    """Switches at the third tick, on the given terms."""

    confirmations = 1

    def __init__(self, share=1.0, **terms):
        self.share = share
        self.ticks = 0
        for name, value in terms.items():
            setattr(self, name, value)

    def decide(self, snapshot):
        self.ticks += snapshot.moment == "tick"
        return Switch("now", self.share) if self.ticks >= 3 else Stay("wait")


async def test_progressive_drain_keeps_more_at_half_price():
    """Where half of the sub-batches end late, fewer are given up than by canceling all at once."""
    by_batch = {}
    for drain in ("progressive", "all"):
        settings = WorldSettings(
            duration=lambda number, _: 15_000.0 if number % 2 else 80_000.0,
            cancel_seconds=(5, 5),
            cancel_in_flight=0.0,
        )
        async with (
            simulate(settings=settings) as sim,
            runner_on(
                sim,
                policy=Once(drain=drain),
                limits=TEN,
                sync=SyncLimits(concurrency=4, rpm=6_000),
            ) as runner,
        ):
            result = await runner.run(items(400))

            assert result.complete
            by_batch[drain] = sum(o.via == "batch" for o in result.outcomes)

    assert by_batch["all"] < by_batch["progressive"]


@pytest.mark.parametrize("hours", [-9.0, 9.0])
async def test_a_clock_that_is_hours_off_moves_no_deadline(hours):
    """R18: seconds from the start are seconds, whatever this machine's clock says."""
    world = ScaledClock(1.0, start=datetime.now(UTC).timestamp() + hours * 3_600)
    settings = WorldSettings(duration=(0.3, 0.3))
    seen: list[WaveSnapshot] = []

    class Looking(Deadline):
        def decide(self, snapshot: WaveSnapshot) -> Stay | Switch:
            seen.append(snapshot)
            return super().decide(snapshot)

    async with (
        simulate(clock=world, settings=settings) as sim,
        runner_on(sim, policy=Looking(8 * 3_600.0)) as runner,
    ):
        result = await runner.run(items(3))

    assert {outcome.via for outcome in result.outcomes} == {"batch"}
    assert {snapshot.moment for snapshot in seen} == {"start", "tick"}
    assert all(0 <= (s.now - s.started_at).total_seconds() < 600 for s in seen)


async def test_a_share_moves_no_more_than_its_share():
    """Half of the remainder is asked directly, the other half stays in its batches."""
    settings = WorldSettings(duration=(40_000, 40_000), cancel_seconds=(5, 5), cancel_in_flight=0.0)
    async with (
        simulate(settings=settings) as sim,
        runner_on(sim, policy=Once(share=0.5, drain="all"), limits=TEN) as runner,
    ):
        result = await runner.run(items(200))

        assert result.complete
        assert sum(o.via == "sync" for o in result.outcomes) == 100


async def test_c44_a_batch_that_will_not_end_keeps_its_items():
    """Without racing, an item is asked directly only after its batch has ended."""
    settings = WorldSettings(duration=(30_000, 30_000), cancel_seconds=(25_000, 25_000))
    async with (
        simulate(settings=settings) as sim,
        runner_on(sim, policy=Once(drain="all", cancel_timeout=1.0), limits=TEN) as runner,
    ):
        asked = items(30)
        result = await runner.run(asked)

        assert result.complete
        assert_nothing_answered_twice(sim, result, asked)


async def test_c44_racing_is_a_choice_and_its_waste_is_counted():
    """With race=True both may answer: the first durable answer wins, the other is waste."""
    settings = WorldSettings(
        duration=(30_000, 30_000), cancel_seconds=(9_000, 9_000), cancel_in_flight=1.0
    )
    async with (
        simulate(settings=settings) as sim,
        runner_on(sim, policy=Once(drain="all", race=True), limits=TEN) as runner,
    ):
        asked = items(30)
        result = await runner.run(asked)

        assert result.complete
        assert_own_answers(result, asked)
        assert {o.via for o in result.outcomes} == {"sync"}
        assert sum(waste.answers for waste in result.report.waste) == 30
        assert [spent.answers for spent in result.report.tokens] == [30]


@pytest.mark.parametrize("moment", ["decided", "canceled", "asked"])
async def test_c44_interrupted_in_a_switch_it_goes_on_with_the_same_one(tmp_path, moment):
    """R20: killed at any point, the next process goes on; one switch, nothing answered twice."""
    heard = Heard()
    asked = items(120)
    async with simulate(settings=WEDGED) as sim:

        def reached() -> bool:
            if moment == "decided":
                return bool(heard.of(SwitchDecided))
            return (
                len(heard.of(BatchCanceled)) >= 2 if moment == "canceled" else len(direct(sim)) > 9
            )

        async with runner_on(
            sim, tmp_path / "run.db", policy=Once(), limits=TEN, on_event=heard
        ) as runner:
            task = asyncio.create_task(runner.run(asked))
            while not reached():
                await asyncio.sleep(0.001)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
        async with runner_on(
            sim, tmp_path / "run.db", policy="cost", limits=TEN, on_event=heard
        ) as runner:
            result = await runner.run(asked)

        assert result.complete
        assert len(heard.of(SwitchDecided)) == 1
        assert_nothing_answered_twice(sim, result, asked)
        assert "sync" in {o.via for o in result.outcomes}


async def test_a_switch_by_hand_from_another_process(tmp_path):
    """`batchwright switch` leaves a wish in the store; the owner acts on it."""
    heard = Heard()
    async with simulate(settings=WEDGED) as sim:
        async with (
            runner_on(sim, tmp_path / "run.db", limits=TEN, on_event=heard) as owner,
            runner_on(sim, tmp_path / "run.db", limits=TEN) as other,
        ):
            task = asyncio.create_task(owner.run(items(40)))
            while len(sent(sim)) < 40:
                await asyncio.sleep(0.002)
            assert await other.switch() is None
            result = await task

        assert result.complete
        (decided,) = heard.of(SwitchDecided)
        assert "by hand" in decided.reason


async def test_a_switch_by_hand_of_a_run_that_nobody_owns(tmp_path):
    """Then the call itself carries it out, and returns the result."""
    async with simulate(settings=WEDGED) as sim:
        async with runner_on(sim, tmp_path / "run.db", limits=TEN) as runner:
            task = asyncio.create_task(runner.run(items(40)))
            while len(sent(sim)) < 40:
                await asyncio.sleep(0.002)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            result = await runner.switch()

        assert result is not None
        assert result.complete
        assert "sync" in {o.via for o in result.outcomes}
