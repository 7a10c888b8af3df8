"""A lost store is rebuilt from what the API still keeps, and nothing is sent for it."""

from __future__ import annotations

import asyncio

import anthropic
import pytest
from tests.support import Heard, assert_own_answers, items, params, runner_on, sent

from batchwright import IntakeError, RetryBudget, ShardLimits
from batchwright.events import BatchRecovered, BatchSkipped
from batchwright.simulator import CutBody, Error, WorldSettings, errored, expire, succeed
from batchwright.testing import simulate

SMALL = ShardLimits(max_requests=5)


async def strangers(sim, count: int) -> None:
    """Let a colleague with the same key make batches of the same size."""
    async with anthropic.AsyncAnthropic(**sim.client_options()) as colleague:
        for number in range(count):
            requests = [{"custom_id": f"x{number}-{i}", "params": params("x")} for i in range(5)]
            await colleague.messages.batches.create(requests=requests)
    for batch in list(sim.world.batches.values())[-count:]:
        sim.world.finish(batch.id)


async def test_everything_is_found_again(tmp_path):
    """Three shards among foreign batches; the store is deleted; no create, every own answer."""
    asked = items(15)
    heard = Heard()
    async with simulate() as sim:
        await strangers(sim, 2)
        async with runner_on(sim, tmp_path / "run.db", limits=SMALL) as runner:
            first = await runner.run(asked)
        await strangers(sim, 3)
        (tmp_path / "run.db").unlink()
        creates = len(sim.creates)

        # A canary would be a direct call, and this is about sending nothing.
        async with runner_on(sim, tmp_path / "new.db", on_event=heard, canary=3) as runner:
            result = await runner.recover(asked)
            assert sim.calls("message") == []
            assert result.complete
            assert [o.raw for o in result.outcomes] == [o.raw for o in first.outcomes]
            assert result.stopped == ()
            assert len(heard.of(BatchRecovered)) == 3
            assert sum(spent.answers for spent in result.report.tokens) == 15
            assert (await runner.run(asked)).complete

        assert_own_answers(result, asked)
        assert len(sim.creates) == creates


async def test_what_failed_in_one_batch_and_was_answered_in_a_later_one():
    """Oldest first: tries are counted, the answer counts, and no budget is used up by it."""
    retry = RetryBudget(max_attempts=4, backoff=0.01, max_backoff=0.02)
    async with simulate() as sim:
        sim.fate_for("doc-1", [expire(), errored("api_error"), expire(), succeed()])
        sim.fate_for("doc-2", errored("invalid_request_error", "bad"))
        async with runner_on(sim, retry=retry) as runner:
            await runner.run(items(4))
        async with runner_on(sim, retry=RetryBudget(max_attempts=2)) as runner:
            result = await runner.recover(items(4))

        assert {o.id: (o.status, o.attempts) for o in result.outcomes} == {
            "doc-0": ("succeeded", 1),
            "doc-1": ("succeeded", 4),
            "doc-2": ("quarantined", 1),
            "doc-3": ("succeeded", 1),
        }
        assert len(sim.creates) == 4


async def test_batches_that_still_run_are_named_and_left_alone():
    """They cannot be looked into: recover again finds them; resume sends what is truly missing."""
    heard = Heard()
    settings = WorldSettings(duration=lambda number, _: 1e6 if number == 2 else 60.0)
    async with simulate(settings=settings) as sim:
        async with runner_on(sim, limits=SMALL, on_event=heard) as runner:
            task = asyncio.create_task(runner.run(items(10)))
            while len(sim.creates) < 2 or sim.calls("results") == []:
                await asyncio.sleep(0.002)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
        running = sim.creates[1].batch_id
        async with runner_on(sim, on_event=heard) as runner:
            result = await runner.recover([*items(10), ("new", params("new"))])
            assert result.counts["succeeded"] == 5
            assert {o.reason for o in result.unresolved} == {"interrupted"}
            ((_, told),) = result.stopped
            assert running in told
            assert [event.batch_id for event in heard.of(BatchSkipped)] == [running]
            assert sim.calls("cancel") == []
            assert len(sim.creates) == 2

            sim.world.finish(running)
            again = await runner.recover([*items(10), ("new", params("new"))])
            assert again.counts["succeeded"] == 10
            assert len(sim.creates) == 2
            assert (await runner.resume()).complete
        assert set(sent(sim).values()) == {1}


async def test_answers_of_another_run_or_another_question_are_not_ours():
    """The code in a custom_id is of run, item and question; similar names prove nothing."""
    async with simulate() as sim:
        async with runner_on(sim) as runner:
            await runner.run(items(3), run_id="other")
        async with runner_on(sim) as runner:
            changed = [(item_id, params("another question")) for item_id, _ in items(3)]
            assert (await runner.recover(items(3))).counts["succeeded"] == 0
            assert (await runner.recover(changed, "other")).counts["succeeded"] == 0


async def test_results_that_break_off_are_read_on_by_resume():
    """What came is kept, the batch is known, and nothing of it is sent again."""
    async with simulate() as sim:
        async with runner_on(sim) as runner:
            await runner.run(items(6))
        async with runner_on(sim) as runner:
            rule = sim.on("results", [None, *[CutBody(after_lines=2)] * 5])
            result = await runner.recover(items(6))
            assert result.counts["succeeded"] == 2
            assert result.stopped
            sim.off(rule)
            assert (await runner.resume()).complete
        assert len(sim.creates) == 1


async def test_a_key_that_may_not_read_recovers_nothing_and_says_so():
    """An account fault is told; nothing is sent."""
    async with simulate() as sim, runner_on(sim) as runner:
        await runner.run(items(3), run_id="lost")
        sim.on(lambda call: call.route != "create", Error(401))
        async with runner_on(sim) as other:
            result = await other.recover(items(3), "lost")
        assert result.stopped[0][0] == "account"
        assert len(sim.creates) == 1


async def test_items_are_checked_as_by_run():
    """The same intake, the same refusals."""
    async with simulate() as sim, runner_on(sim) as runner:
        with pytest.raises(IntakeError, match="'doc-0'"):
            await runner.recover([*items(2), *items(1)])
        assert sim.requests == []
