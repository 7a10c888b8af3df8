"""Where the parts of a wave meet: stops, closed paths, leaving early, one odd answer among many."""

from __future__ import annotations

import asyncio
import json
import time
from collections import Counter
from contextlib import AsyncExitStack

import anthropic
import pytest
from tests.support import (
    EAGER,
    FAST,
    UNPACED,
    Heard,
    assert_own_answers,
    items,
    params,
    runner_on,
    sent,
)

from batchwright import (
    BatchRunner,
    Item,
    Org,
    Polling,
    RetryBudget,
    ShardLimits,
    Stay,
    Switch,
    SyncLimits,
)
from batchwright._wave import Wave
from batchwright.cli._exits import Exit, exit_of
from batchwright.events import PolicyBroke, ShardSubmitted
from batchwright.simulator import (
    Delay,
    Drop,
    Error,
    Lines,
    Mutate,
    Respond,
    WorldSettings,
    errored,
    succeed,
)
from batchwright.testing import simulate

FIVE = ShardLimits(max_requests=5)


async def two_orgs(sim, stack, **options):
    """Return a runner on two accounts of their own, `a` and `b`."""
    clients = [
        await stack.enter_async_context(
            anthropic.AsyncAnthropic(base_url=sim.url, api_key=f"key-{name}")
        )
        for name in "ab"
    ]
    orgs = [
        Org("a", clients[0], max_queued=options.pop("max_queued", None)),
        Org("b", clients[1]),
    ]
    return BatchRunner(orgs=orgs, store="memory://", polling=FAST, retry=EAGER, **options)


@pytest.mark.parametrize("stop", [Error(401), Error(429, retry_after=7_200)])
async def test_a_stop_while_the_queue_is_full_lets_everybody_go(stop):
    """A gate that was closed again behind the stop does not hold the others for ever."""

    def answer(call):
        if call.number == 1:
            return None
        return Delay(0.02, stop) if call.number == 2 else Delay(0.06, Error(429, retry_after=0.01))

    async with simulate() as sim, runner_on(sim, limits=FIVE) as runner:
        sim.on("create", answer)
        result = await runner.run(items(40))

        assert result.counts["succeeded"] == 5
        assert len(result.unresolved) == 35


async def test_items_without_any_path_end_the_wave():
    """No batches for the account, and too much for a direct call: told, not waited for."""
    asked = [
        *items(3),
        ("big", params("x" * 3_000)),
        Item("long", params("l"), headers={"anthropic-beta": "output-300k-2026-03-24"}),
    ]
    async with (
        simulate() as sim,
        runner_on(sim, policy="balanced", sync=SyncLimits(max_bytes=1_000)) as runner,
    ):
        sim.on("create", Error(403))
        result = await runner.run(asked)

        assert result.counts["succeeded"] == 3
        assert {(o.id, o.reason) for o in result.unresolved} == {
            ("big", "account"),
            ("long", "account"),
        }


async def test_a_share_grows_where_no_account_makes_batches():
    """Half of the items cannot stay on a path that is not there."""

    class Part:
        confirmations = 1

        def decide(self, snapshot):
            return Switch("a part", share=0.3)

    async with simulate() as sim, runner_on(sim, policy=Part()) as runner:
        sim.on("create", Error(403))
        assert (await runner.run(items(30))).complete


@pytest.mark.parametrize("fault", [Error(500), Drop("before")])
async def test_creates_that_never_get_through_end_the_wave(fault):
    """Each was looked up and never made; a body is not uploaded again and again for ever."""
    async with simulate() as sim, runner_on(sim) as runner:
        rule = sim.on("create", fault)
        result = await runner.run(items(3))

        assert {o.reason for o in result.unresolved} == {"interrupted"}
        assert len(sim.calls("create")) == EAGER.call_attempts
        assert "no answer" in result.stopped[0][1]
        sim.off(rule)
        assert (await runner.run(items(3))).complete


async def test_a_direct_stream_left_early_keeps_what_was_answered():
    """Paid answers are stored also when nobody reads the stream any more."""
    async with (
        simulate() as sim,
        runner_on(sim, policy="sync", canary=0, sync=UNPACED) as runner,
    ):
        stream = runner.stream(items(3_000))
        await anext(stream)
        while len(sim.calls("message")) < 2_010:
            await asyncio.sleep(0.01)
        await stream.aclose()
        answered = sum(call.status == 200 for call in sim.calls("message"))

        assert (await runner.status()).progress.succeeded == answered
        with pytest.raises(StopAsyncIteration):
            await anext(stream)


async def test_leaving_a_stream_does_not_swallow_our_own_cancel():
    """A task that is cancelled while it leaves the block stays cancelled."""
    async with simulate() as sim, runner_on(sim, policy="sync", canary=0) as runner:
        sim.on("message", lambda call: Delay(0.2) if call.number > 1 else None)

        async def consume():
            async with runner.stream(items(20)) as stream:
                async for _ in stream:
                    leaving.set()
                    break

        leaving = asyncio.Event()
        task = asyncio.create_task(consume())
        await leaving.wait()
        await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task


async def test_an_item_that_says_stream_false_may_be_long():
    """The body's word on streaming does not override the way a long answer is read."""
    asked = [("a", params("q", stream=False) | {"max_tokens": 30_000})]
    async with simulate() as sim, runner_on(sim, policy="sync") as runner:
        assert (await runner.run(asked)).complete
        assert len(sim.calls("message")) == 1


async def test_a_tool_with_a_property_called_max_tokens():
    """The item's own max_tokens decides how it is asked, wherever it stands in the body."""
    schema = {"type": "object", "properties": {"x": 1}, "max_tokens": 7}
    body = {"tools": [{"name": "t", "input_schema": schema}]} | params("q", max_tokens=64_000)
    async with simulate() as sim, runner_on(sim, policy="sync") as runner:
        sim.on("message", lambda call: None if call.params.get("stream") else Error(400))
        assert (await runner.run([("a", body)])).complete


async def test_a_canarys_answer_is_judged_like_any_other():
    """Refused by validate, it is rejected; unreadable, it says nothing."""
    async with simulate() as sim, runner_on(sim, canary=1, validate=lambda _: False) as runner:
        assert (await runner.run(items(5))).counts["rejected"] == 5
    async with simulate() as sim, runner_on(sim, canary=1) as runner:
        sim.on("message", Respond(200, b'{"type":"message","con'))
        assert (await runner.run(items(5))).complete


async def test_a_validator_that_is_cancelled_from_within_accepts_nothing():
    """An answer that was not judged waits for its judgement."""

    async def broken(_):
        future = asyncio.get_running_loop().create_future()
        future.cancel()
        await future

    async with simulate() as sim, runner_on(sim, validate=broken) as runner:
        result = await runner.run(items(3))
        assert {o.reason for o in result.unresolved} == {"validator"}


async def test_json_that_is_no_message_is_no_answer():
    """A login page in JSON with status 200 is tried again within the budget, and never believed."""
    async with simulate() as sim, runner_on(sim, policy="sync") as runner:
        sim.on("message", Respond(200, {"status": "ok, I am a captive portal"}))
        result = await runner.run(items(2))
        assert {o.reason for o in result.unresolved} == {"exhausted"}


async def test_one_odd_answer_takes_no_other_down():
    """A stop reason of another shape is kept as it came, on both paths."""

    def odd(reply):
        reply.body["stop_reason"] = ["end_turn"]

    def odd_line(lines):
        told = [json.loads(line) for line in lines]
        told[2]["result"]["message"]["stop_reason"] = ["end_turn"]
        return [json.dumps(one).encode() + b"\n" for one in told]

    async with simulate() as sim, runner_on(sim, policy="sync") as runner:
        sim.on(lambda call: call.route == "message" and call.number == 3, Mutate(odd))
        assert (await runner.run(items(6))).complete
    async with simulate() as sim, runner_on(sim) as runner:
        sim.on("results", Lines(odd_line))
        assert (await runner.run(items(6))).complete


async def test_halving_one_shard_strands_no_other(tmp_path):
    """Narrow limits and a bad item without an index: all the others are answered in this wave."""
    limits = ShardLimits(max_requests=8, concurrency=1, max_live=1)

    def refuse(call):
        bad = any(custom_id.startswith("doc-3-") for custom_id in call.custom_ids)
        return Error(400, message="something is bad") if bad else None

    async with simulate() as sim, runner_on(sim, tmp_path / "run.db", limits=limits) as runner:
        sim.on("create", refuse)
        result = await runner.run(items(60))

        assert [o.id for o in result.quarantined] == ["doc-3"]
        assert result.counts["succeeded"] == 59


async def test_what_a_stopped_org_did_not_ask_the_other_asks():
    """One key is revoked in the middle of direct calls; exit status follows what is left undone."""
    async with simulate() as sim, AsyncExitStack() as stack:
        runner = await two_orgs(sim, stack, policy="sync", canary=0, sync=UNPACED)
        asked: Counter[str] = Counter()

        def revoke(call):
            asked[call.api_key] += 1
            return Error(401) if call.api_key == "key-a" and asked["key-a"] > 5 else None

        sim.on("message", revoke)
        result = await runner.run(items(700))

        assert result.complete
        assert result.stopped[0][0] == "account"
        assert exit_of(result) is Exit.DONE


async def test_an_org_without_room_does_not_hold_up_the_others():
    """A small max_queued bounds its own account alone."""
    heard = Heard()
    async with simulate(settings=WorldSettings(duration=(20_000, 20_000))) as sim:
        async with AsyncExitStack() as stack:
            limits = ShardLimits(max_requests=50)
            runner = await two_orgs(sim, stack, limits=limits, max_queued=5, on_event=heard)
            task = asyncio.create_task(runner.run(items(400)))
            # What the runner has said counts: the server knows of a create before the runner does.
            while sum(event.count for event in heard.of(ShardSubmitted)) < 400:
                await asyncio.sleep(0.005)
            load: Counter[str] = Counter()
            for event in heard.of(ShardSubmitted):
                load[event.org] += event.count
            assert load == {"a": 5, "b": 395}
            assert (await task).complete


async def test_cancel_ends_the_run_for_what_came_back_too():
    """Lines that would be tried again are not, until a person says so."""
    settings = WorldSettings(cancel_in_flight=1.0, duration=(20_000, 20_000))
    async with simulate(settings=settings) as sim, runner_on(sim) as runner:
        sim.fate_for("*", [errored("api_error"), succeed()])
        task = asyncio.create_task(runner.run(items(6)))
        while not sent(sim):
            await asyncio.sleep(0.002)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        result = await runner.cancel()
        assert {o.reason for o in result.unresolved} == {"canceled"}
        await runner.resume()
        assert len(sim.creates) == 1
        assert (await runner.resume(resubmit=["canceled"])).complete


async def test_a_rejudged_answer_that_is_refused_is_tried_again_in_the_same_wave():
    """The judgement comes before the count of what waits."""
    broken = True

    def check(outcome):
        if broken:
            raise RuntimeError("a bug of the caller's")
        return outcome.attempts > 1

    async with simulate() as sim, runner_on(sim, validate=check, retry_rejected=True) as runner:
        await runner.run(items(4))
        broken = False
        assert (await runner.run(items(4))).complete


async def test_a_full_queue_uses_up_no_tries():
    """Refusals while other batches live are free; the first one after that is the first."""
    refused = 0

    def queue(call):
        nonlocal refused
        if call.number == 1 or refused > EAGER.call_attempts + 3:
            return None
        refused += 1
        return Error(429, retry_after=0.01)

    settings = WorldSettings(duration=(1_500, 1_500))
    async with simulate(settings=settings) as sim, runner_on(sim, limits=FIVE) as runner:
        sim.on("create", queue)
        assert (await runner.run(items(10))).complete


async def test_a_parked_org_charges_nothing():
    """A hint of hours for a direct call is no try of its item."""
    retry = RetryBudget(max_attempts=1, backoff=0.01, max_backoff=0.02)
    async with simulate() as sim, runner_on(sim, policy="sync", retry=retry) as runner:
        sim.on("message", Error(429, retry_after=7_200))
        result = await runner.run(items(50))
        assert {(o.reason, o.attempts) for o in result.unresolved} == {("interrupted", 0)}


async def test_large_items_in_front_do_not_keep_small_ones_off_the_sync_path():
    """Only what does not fit goes by batch, wherever it stands."""
    big = [(f"big-{n}", params("x" * 3_000 + str(n))) for n in range(300)]
    small = items(40)
    async with (
        simulate() as sim,
        runner_on(sim, policy="sync", canary=0, sync=SyncLimits(max_bytes=2_000)) as runner,
    ):
        result = await runner.run([*big, *small])

        assert result.complete
        assert {o.via for o in result.outcomes if o.id.startswith("big")} == {"batch"}
        assert {o.via for o in result.outcomes if o.id.startswith("doc")} == {"sync"}
        assert_own_answers(result, small)


async def test_a_policy_that_breaks_is_taken_to_stay():
    """It is said, and the run goes on."""

    class Broken:
        def decide(self, snapshot):
            if snapshot.moment == "tick":
                raise ZeroDivisionError("policy")
            return Stay("so far")

    heard = Heard()
    settings = WorldSettings(duration=(9_000, 9_000))
    async with (
        simulate(settings=settings) as sim,
        runner_on(sim, policy=Broken(), on_event=heard) as runner,
    ):
        assert (await runner.run(items(5))).complete
        assert heard.of(PolicyBroke)


@pytest.mark.parametrize("turn", range(4))
async def test_a_cancel_at_the_moment_of_a_time_limit_is_heeded(tmp_path, monkeypatch, turn):
    """R20: told to stop while the wave's own wait runs out, a run stops and does not return."""
    loop = asyncio.get_running_loop()
    heard = Heard()
    calm = Polling(interval=0.3)
    settings = WorldSettings(duration=(20_000, 20_000))
    async with simulate(settings=settings) as sim:
        async with runner_on(
            sim, tmp_path / "run.db", on_event=heard, polling=calm, limits=FIVE
        ) as runner:
            task = asyncio.create_task(runner.run(items(60)))
            while len(heard.of(ShardSubmitted)) < 12:
                await asyncio.sleep(0.001)

            def patience(_):
                # The loop is held up past both moments, so that both fall into one turn of it.
                loop.call_later(0.016 + 0.001 * turn, task.cancel)
                loop.call_later(0.005, time.sleep, 0.030)
                return 0.015

            monkeypatch.setattr(Wave, "_patience", patience)
            with pytest.raises(asyncio.CancelledError):
                await task
            monkeypatch.undo()
            assert (await runner.run(items(60))).complete
