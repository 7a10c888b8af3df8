"""The sync path by itself: direct calls, bounded, paced, durable, the same outcomes."""

from __future__ import annotations

import asyncio
import time

import pytest
from tests.support import (
    EAGER,
    UNPACED,
    assert_conserved,
    assert_own_answers,
    items,
    params,
    runner_on,
)

from batchwright import CanaryFailed, Item, RetryBudget, ShardLimits, SyncLimits
from batchwright.simulator import Call, Delay, Error, WorldSettings, errored, succeed
from batchwright.testing import simulate


async def test_policy_sync_answers_everything_directly():
    """No batch is made; each item has its own answer, once, by direct call."""
    async with simulate() as sim, runner_on(sim, policy="sync", sync=UNPACED) as runner:
        asked = items(700)
        result = await runner.run(asked)

        assert result.complete
        assert_own_answers(result, asked)
        assert_conserved(result, 700)
        assert {o.via for o in result.outcomes} == {"sync"}
        assert {o.attempts for o in result.outcomes} == {1}
        assert len(sim.calls("message")) == 700
        assert sim.creates == []
        (spent,) = result.report.tokens
        assert (spent.via, spent.answers) == ("sync", 700)


async def test_c11_refusals_narrow_the_pool():
    """429 above two calls at once: all delivered, and never many more than fit are under way."""
    async with simulate() as sim, runner_on(sim, policy="sync") as runner:

        def limit(call: Call) -> Error | Delay:
            busy = sum(r.status is None and r.route == "message" for r in sim.requests)
            return Error(429, retry_after=0.005) if busy > 2 else Delay(0.002)

        sim.on("message", limit)
        result = await runner.run(items(20))

        assert result.complete
        assert {o.attempts for o in result.outcomes} == {1}
        refused = [call for call in sim.calls("message") if call.status == 429]
        assert len(refused) < 40


async def test_c41_the_budget_of_a_direct_call_is_exact():
    """One layer of retries: call_attempts requests for each attempt of the item, no more."""
    retry = RetryBudget(max_attempts=2, call_attempts=3, backoff=0.001, max_backoff=0.002)
    for status in (500, 529):
        async with simulate() as sim, runner_on(sim, policy="sync", retry=retry) as runner:
            sim.on("message", Error(status))
            result = await runner.run(items(1))

            assert [(o.reason, o.attempts) for o in result.unresolved] == [("exhausted", 2)]
            assert len(sim.calls("message")) == 6


async def test_faults_of_direct_calls_go_through_the_same_table():
    """The item's fault is quarantined, the moment's retried, the account's stops the org."""
    async with simulate() as sim, runner_on(sim, policy="sync") as runner:
        sim.fate_for("x", errored("api_error"))
        bad = lambda text: lambda call: text in str(call.params)  # noqa: E731
        sim.on(bad("question 0 "), Error(400, message="messages: bad"))
        sim.on(bad("question 1 "), [Error(500), Error(529), None])
        sim.on(bad("question 2 "), Error(404, message="model: nope"))
        result = await runner.run(items(12))

        assert [o.id for o in result.quarantined] == ["doc-0", "doc-2"]
        assert "messages: bad" in result["doc-0"].error.message
        assert result["doc-1"].status == "succeeded"
        assert result.counts["succeeded"] == 10


async def test_an_account_fault_stops_the_pool():
    """401: a few calls, not thousands; the items wait, uncharged, for the next run."""
    async with simulate() as sim, runner_on(sim, policy="sync") as runner:
        rule = sim.on("message", Error(401))
        result = await runner.run(items(300))

        assert {(o.reason, o.attempts) for o in result.unresolved} == {("account", 0)}
        assert len(sim.calls("message")) < 70
        assert result.stopped[0][0] == "account"
        sim.off(rule)
        assert (await runner.run(items(300))).complete


async def test_c43_large_answers_are_streamed():
    """An item that a batch takes is taken directly too: long answers are streamed and joined."""
    asked = [
        Item("plain", params("plain", max_tokens=1_000)),
        Item("long", params("long", max_tokens=64_000)),
    ]
    async with simulate() as sim, runner_on(sim, policy="sync") as runner:
        result = await runner.run(asked)

        assert result.complete
        assert_own_answers(result, [(item.id, dict(item.params)) for item in asked])
        plain, long = result.messages["plain"], result.messages["long"]
        assert type(plain) is type(long)
        assert set(result["plain"].answer) - set(result["long"].answer) <= {
            "container",
            "stop_details",
        }
        assert long.usage.output_tokens > 0


async def test_betas_travel_in_the_header():
    """The same header that a batch would have had."""
    asked = [Item("x", params("x"), headers={"anthropic-beta": "context-1m-2025-08-07"})]
    async with simulate() as sim, runner_on(sim, policy="sync") as runner:
        assert (await runner.run(asked)).complete
        (call,) = sim.calls("message")
        assert call.headers["anthropic-beta"] == "context-1m-2025-08-07"


async def test_what_does_not_fit_a_direct_call_stays_on_the_batch_path():
    """Too large for the Messages API, or with what only batches have: sent in a batch."""
    big = ("big", params("x" * 5_000))
    long = Item("300k", params("long"), headers={"anthropic-beta": "output-300k-2026-03-24"})
    async with (
        simulate() as sim,
        runner_on(sim, policy="sync", sync=SyncLimits(max_bytes=4_000)) as runner,
    ):
        result = await runner.run([*items(5), big, long])

        assert result.complete
        assert result["big"].via == result["300k"].via == "batch"
        assert {result[f"doc-{i}"].via for i in range(5)} == {"sync"}


async def test_an_interruption_keeps_the_answers_under_way(tmp_path):
    """Calls that are out may finish, since they are paid for; nothing is asked twice."""
    async with simulate() as sim, runner_on(sim, tmp_path / "run.db", policy="sync") as runner:
        sim.on("message", Delay(0.03))
        task = asyncio.create_task(runner.run(items(100)))
        while len(sim.messages) < 20:
            await asyncio.sleep(0.002)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        asked_before = len(sim.calls("message"))
        assert asked_before < 100
        sim.off()
        result = await runner.run(items(100))

        assert result.complete
        assert len(sim.calls("message")) == 100


async def test_rejected_and_truncated_answers_are_what_they_are_on_the_batch_path():
    """validate and flags do not know the path."""

    def check(outcome):
        return "question 1 " not in outcome.text

    async with simulate() as sim, runner_on(sim, policy="sync", validate=check) as runner:
        result = await runner.run(items(4))

        assert [o.id for o in result.rejected] == ["doc-1"]
        assert result.counts["succeeded"] == 3


async def test_a_pool_is_bounded():
    """Never more calls at once than the limit, and all of them used."""
    async with (
        simulate() as sim,
        runner_on(sim, policy="sync", sync=SyncLimits(concurrency=5)) as runner,
    ):
        sim.on("message", Delay(0.002))
        result = await runner.run(items(60))

        assert result.complete
        assert sim.peak_concurrency("message") == 5


async def test_answers_of_both_paths_stand_in_one_result():
    """Retries after a switch, batch first, direct later, and the books say which was which."""
    async with simulate() as sim:
        async with runner_on(sim, limits=ShardLimits(max_requests=5), retry=EAGER) as runner:
            sim.fate_for("doc-1", [errored("billing_error"), succeed()])
            first = await runner.run(items(10))
            assert not first.complete
            store = runner._store
        async with runner_on(sim, store, policy="sync") as runner:
            result = await runner.resume()

        assert result.complete
        assert {o.id for o in result.outcomes if o.via == "sync"} == {"doc-1"}


async def test_a_canary_goes_ahead_and_its_answer_counts():
    """One item of each shape is asked directly before a large first wave, and only then."""
    asked = items(30)
    other = [("other", params("x", model="claude-sonnet-4-5"))]
    async with simulate() as sim, runner_on(sim, canary=20) as runner:
        result = await runner.run([*asked, *other])

        assert result.complete
        assert len(sim.calls("message")) == 2
        assert [o.id for o in result.outcomes if o.via == "sync"] == ["doc-0", "other"]
        assert sum(len(create.custom_ids) for create in sim.creates) == 29
        assert_own_answers(result, [*asked, *other])
        more = await runner.run([*items(60), *other])
        assert more.complete
        assert len(sim.calls("message")) == 2


@pytest.mark.parametrize(
    "refusal",
    [Error(400, message="tools.0: Field required"), Error(404, message="model: claude-nope")],
)
async def test_a_canary_that_fails_stops_everything_before_it_is_sent(refusal):
    """The mistake is told at once; mended items are taken without a word."""
    async with simulate() as sim, runner_on(sim, canary=20) as runner:
        rule = sim.on("message", refusal)
        with pytest.raises(CanaryFailed, match=refusal.message) as raised:
            await runner.run(items(30))
        assert raised.value.item_id == "doc-0"
        assert sim.creates == []

        sim.off(rule)
        mended = [(key, {**body, "max_tokens": 65}) for key, body in items(30)]
        assert (await runner.run(mended)).complete


@pytest.mark.parametrize("fault", [Error(403), Error(429), Error(500), Error(404)])
async def test_a_canary_that_cannot_say_says_nothing(fault):
    """Where direct calls are busy, forbidden or not there, the batches go out."""
    async with simulate() as sim, runner_on(sim, canary=20) as runner:
        sim.on("message", fault)
        result = await runner.run(items(30))

        assert result.complete
        assert {o.via for o in result.outcomes} == {"batch"}


async def test_the_limit_of_tokens_paces_direct_calls():
    """Requests are unlimited, tokens are not: after a burst, as many leave as the headers allow."""
    settings = WorldSettings(message_tpm=60_000.0)
    async with simulate(settings=settings, speed=1.0) as sim:
        async with runner_on(sim, policy="sync") as runner:
            asked = [(f"doc-{n}", params(f"question {n} " + "word " * 90)) for n in range(80)]
            began = time.monotonic()
            result = await runner.run(asked)
            took = time.monotonic() - began

        assert result.complete
        (spent,) = result.report.tokens
        allowed = 60_000 / (spent.input / spent.answers) / 60
        # Eight leave before the first answer tells, then four seconds' worth at once.
        assert took > (80 - 8 - 4 * allowed - 1) / allowed > 1.0
