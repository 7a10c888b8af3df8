"""Cases with the sync path in play; C41, C43 and C44 stand in tests/runs."""

from __future__ import annotations

import pytest
from tests.runs.test_switch import Once, assert_nothing_answered_twice
from tests.support import Heard, assert_own_answers, items, runner_on, sent

from batchwright import AdaptivePolicy, ShardLimits
from batchwright.events import OrgPaused, SwitchDecided
from batchwright.simulator import Error, WorldSettings, errored
from batchwright.testing import simulate

TEN = ShardLimits(max_requests=10)


@pytest.mark.parametrize(
    "refusal",
    [
        Error(402),
        Error(429, error_code="enforced_spend_limit_reached"),
        Error(400, message="You have reached your specified API usage limits."),
        Error(400, message="Your credit balance is too low to access the Anthropic API."),
    ],
    ids=["402", "spend cap", "own limit", "credit"],
)
async def test_c08_account_faults_of_direct_calls_stop_the_org(refusal):
    """In all their forms: nothing quarantined, nothing charged, the items wait for the funding."""
    async with simulate() as sim, runner_on(sim, policy="sync") as runner:
        rule = sim.on("message", refusal)
        result = await runner.run(items(200))

        assert result.quarantined == ()
        assert {(o.reason, o.attempts) for o in result.unresolved} == {("account", 0)}
        assert len(sim.calls("message")) < 70
        sim.off(rule)
        assert (await runner.resume()).complete


async def test_c10_a_full_queue_does_not_hold_up_direct_calls():
    """A wave that has switched goes on while creates would still be refused."""
    settings = WorldSettings(duration=(60_000, 60_000), cancel_seconds=(5, 5))
    async with simulate(settings=settings) as sim:
        async with runner_on(sim, policy=Once(drain="all"), limits=TEN) as runner:
            sim.on(
                "create",
                lambda call: Error(429, retry_after=0.05) if len(sent(sim)) >= 20 else None,
            )
            asked = items(60)
            result = await runner.run(asked)

        assert result.complete
        assert_own_answers(result, asked)
        assert_nothing_answered_twice(sim, result, asked)


@pytest.mark.parametrize("policy", ["balanced", "latency", AdaptivePolicy("cost", wedge_after=600)])
async def test_c11_without_batches_the_items_go_directly_where_the_policy_may(policy):
    """One create, remembered; then bounded direct calls, 429 honoured, everything delivered."""
    heard = Heard()
    async with (
        simulate() as sim,
        runner_on(sim, policy=policy, limits=TEN, on_event=heard) as runner,
    ):
        sim.on("create", Error(403, message="This key may not use batches."))
        busy = {"now": 0}

        def limit(call):
            busy["now"] = sum(r.status is None and r.route == "message" for r in sim.requests)
            return Error(429, retry_after=0.005) if busy["now"] > 4 else None

        sim.on("message", limit)
        asked = items(150)
        result = await runner.run(asked)

        assert result.complete
        assert_own_answers(result, asked)
        assert len(sim.calls("create")) == 1
        assert {o.attempts for o in result.outcomes} == {1}
        assert len(heard.of(SwitchDecided)) == 1


async def test_c11_without_batches_a_policy_that_may_not_switch_stops_with_a_clear_message():
    """cost and batch do not spend more than they were asked to."""
    for policy in ("cost", "batch"):
        heard = Heard()
        async with (
            simulate() as sim,
            runner_on(sim, policy=policy, limits=TEN, on_event=heard) as runner,
        ):
            sim.on("create", Error(403, message="This key may not use batches."))
            result = await runner.run(items(30))

            assert {o.reason for o in result.unresolved} == {"account"}
            assert sim.calls("message") == []
            (paused,) = heard.of(OrgPaused)
            assert "may not use batches" in paused.reason


@pytest.mark.parametrize("status", [400, 409])
async def test_c35_a_batch_that_has_just_ended_is_read_and_not_asked_again(status):
    """The cancel of a switch comes too late: the answers are there, and they are kept."""
    settings = WorldSettings(duration=(9_000, 9_500))
    async with (
        simulate(settings=settings) as sim,
        runner_on(sim, policy=Once(drain="all"), limits=TEN) as runner,
    ):
        sim.on("cancel", Error(status, message="it has ended"))
        asked = items(40)
        result = await runner.run(asked)

        assert result.complete
        assert {o.via for o in result.outcomes} == {"batch"}
        assert len(sim.world.books().billed) == 40


async def test_c36_tokens_are_counted_once_and_by_path():
    """Batch and direct answers apart, each once over restarts; errors and cancels count nothing."""
    settings = WorldSettings(duration=(60_000, 60_000), cancel_seconds=(5, 5), cancel_in_flight=0.5)
    async with simulate(settings=settings) as sim:
        async with runner_on(sim, policy=Once(drain="all"), limits=TEN) as runner:
            sim.fate_for("doc-0", errored("invalid_request_error"))
            sim.on(lambda call: "question 1 " in str(call.params), Error(400))
            first = await runner.run(items(100))
            again = await runner.resume()

        by_path = {spent.via: spent.answers for spent in again.report.tokens}
        paths = [o.via for o in again.outcomes if o.status == "succeeded"]
        assert by_path == {"batch": paths.count("batch"), "sync": paths.count("sync")}
        assert by_path == {spent.via: spent.answers for spent in first.report.tokens}
        assert sum(by_path.values()) == again.counts["succeeded"]
        assert again.report.waste == []
