"""The main job end to end over HTTP: every item's own answer, once, in order."""

from __future__ import annotations

import asyncio
from collections import Counter

import anthropic
import pytest
from tests.support import (
    FAST,
    Heard,
    assert_conserved,
    assert_own_answers,
    items,
    params,
    runner_on,
    sent,
)

from batchwright import (
    BatchRunner,
    ConfigurationError,
    IncompleteRun,
    Item,
    Polling,
    ShardLimits,
    Stay,
)
from batchwright import run as blocking_run
from batchwright.events import Progressed, ShardSubmitted
from batchwright.simulator import Simulator, WorldSettings, errored
from batchwright.testing import simulate

SMALL = ShardLimits(max_requests=10)


@pytest.mark.slow
async def test_ninety_thousand_items_over_http(tmp_path):
    """R1, R2, R8, R13: 12 to 18 sub-batches, none too large, concurrent; each its own answer."""
    asked = [(f"judge/{i}", params(f"Is text {i} good?")) for i in range(90_000)]
    with Simulator(speed=3_000, settings=WorldSettings(duration=(60, 3_600))) as sim:
        async with runner_on(sim, tmp_path / "run.db", polling=Polling(interval=0.2)) as runner:
            result = await runner.run(iter(asked))

        sizes = [len(create.custom_ids) for create in sim.creates]
        assert 12 <= len(sizes) <= 18
        assert max(sizes) <= 8_000
        assert min(sizes) >= 5_000
        assert max(create.body_size for create in sim.creates) <= 250_000_000
        assert sim.peak_creates > 1
        assert set(sent(sim).values()) == {1}
        assert sim.world.books().billed_twice == {}
    assert result.complete
    assert_conserved(result, 90_000)
    assert [outcome.id for outcome in result.outcomes] == [item_id for item_id, _ in asked]
    assert_own_answers(result, asked)


async def test_bodies_travel_with_their_length_declared():
    """An upload is neither chunked nor compressed: the safe form for the API's edge."""
    async with simulate() as sim, runner_on(sim, limits=SMALL) as runner:
        await runner.run(items(25))

        assert len(sim.creates) == 3
        for create in sim.creates:
            assert create.content_length == str(create.body_size)
            assert create.transfer_encoding is None
            assert create.content_encoding is None


async def test_all_forms_of_items_and_sources():
    """Items, pairs and the API's own dicts; lists, generators, async generators; read once."""
    given = [
        Item("a", params("a"), metadata={"row": 1}),
        ("b", params("b")),
        {"custom_id": "c", "params": params("c"), "metadata": [3]},
        {"id": "d d", "params": params("d")},
    ]

    async def source():
        for item in given:
            await asyncio.sleep(0)
            yield item

    async with simulate() as sim, runner_on(sim) as runner:
        for run_id, form in (("list", given), ("gen", iter(given)), ("async", source())):
            result = await runner.run(form, run_id=run_id)

            assert list(result.messages) == ["a", "b", "c", "d d"]
            assert result["a"].metadata == {"row": 1}
            assert result["c"].metadata == [3]


async def test_the_same_id_in_two_runs_is_two_questions():
    """The run's name is part of the wire id, so an answer proves whose it is."""
    async with simulate() as sim, runner_on(sim) as runner:
        first = await runner.run(items(1), run_id="one")
        second = await runner.run(items(1), run_id="two")

        assert first["doc-0"].custom_id != second["doc-0"].custom_id
        assert len(sim.creates) == 2


async def test_a_finished_run_is_answered_from_the_store():
    """A second call sends nothing."""
    async with simulate() as sim, runner_on(sim) as runner:
        await runner.run(items(5))
        result = await runner.run(items(5))

        assert result.complete
        assert len(sim.creates) == 1


async def test_the_result_covers_the_items_passed():
    """More items may join a run; the result is about those of this call, in their order."""
    asked = items(6)
    async with simulate() as sim, runner_on(sim) as runner:
        await runner.run(asked[:4])
        result = await runner.run([asked[5], asked[3]])

        assert [outcome.id for outcome in result.outcomes] == ["doc-5", "doc-3"]
        assert len(sim.creates) == 2
        assert len(sim.creates[1].custom_ids) == 1


async def test_no_items():
    """Nothing to do is done at once, without a create."""
    async with simulate() as sim, runner_on(sim) as runner:
        result = await runner.run([])

        assert result.complete
        assert len(result) == 0
        assert sim.creates == []


async def test_without_async_with_and_under_two_loops(tmp_path):
    """What a call opens it closes; nothing is bound to a loop before it runs."""
    with Simulator(speed=12_000) as sim:

        def job(part):
            async def work():
                async with anthropic.AsyncAnthropic(**sim.client_options()) as client:
                    runner = BatchRunner(client=client, store=tmp_path / "run.db", polling=FAST)
                    return await runner.run(part)

            return work()

        asked = items(4)
        first = await asyncio.to_thread(lambda: asyncio.run(job(asked[:2])))
        second = await asyncio.to_thread(lambda: asyncio.run(job(asked)))

    assert first.complete
    assert second.complete
    assert_own_answers(second, asked)


async def test_one_runner_object_under_two_loops():
    """One object may serve two asyncio.run calls: its own client is made anew."""
    with Simulator(speed=12_000) as sim, pytest.MonkeyPatch.context() as patch:
        patch.setenv("ANTHROPIC_BASE_URL", sim.url)
        patch.setenv("ANTHROPIC_API_KEY", sim.api_key)
        runner = BatchRunner(store="memory://", polling=FAST)
        asked = items(4)

        first = await asyncio.to_thread(lambda: asyncio.run(runner.run(asked[:2])))
        second = await asyncio.to_thread(lambda: asyncio.run(runner.run(asked)))

    assert first.complete
    assert second.complete


async def test_the_blocking_form_says_what_to_await():
    """Inside a running loop one sentence says what to do instead."""
    with pytest.raises(ConfigurationError, match="await batchwright.BatchRunner"):
        blocking_run(items(1))


async def test_the_blocking_form_works_in_a_script():
    """Outside a loop it runs to the end."""
    with Simulator(speed=12_000) as sim, pytest.MonkeyPatch.context() as patch:
        patch.setenv("ANTHROPIC_BASE_URL", sim.url)
        patch.setenv("ANTHROPIC_API_KEY", sim.api_key)

        result = await asyncio.to_thread(blocking_run, items(3), store="memory://", polling=FAST)

    assert result.complete


async def test_numbers_never_lie():
    """R4: the six numbers of every progress sum to the total, and outcomes never shrink."""
    heard = Heard()
    settings = WorldSettings(error_rate=0.2, expire_rate=0.1)
    async with (
        simulate(settings=settings) as sim,
        runner_on(sim, limits=SMALL, on_event=heard) as runner,
    ):
        await runner.run(items(60))

    told = heard.of(Progressed)
    assert told
    done = 0
    for event in told:
        parts = (event.succeeded, event.quarantined, event.rejected, event.unresolved)
        assert event.waiting + event.in_flight + sum(parts) == event.total == 60
        assert event.succeeded >= done
        done = event.succeeded


async def test_live_batches_are_a_window_and_not_a_wave():
    """A new shard leaves as soon as any one has ended, never after a whole wave."""
    slow = {1: 3_000.0}
    settings = WorldSettings(duration=lambda number, _: slow.get(number, 60.0))
    heard = Heard()
    async with (
        simulate(settings=settings) as sim,
        runner_on(sim, limits=ShardLimits(max_requests=5, max_live=3), on_event=heard) as runner,
    ):
        result = await runner.run(items(45))

        ends = {b.batch_id: b.ended_at for b in result.report.batches}
        first = max(ends, key=lambda batch_id: ends[batch_id])
        slowest = next(b for b in result.report.batches if b.batch_id == first)
        others = [b.created_at for b in result.report.batches if b.batch_id != first]
        assert max(others) < slowest.ended_at
    assert result.complete
    assert len(heard.of(ShardSubmitted)) == 9


async def test_collect_false_keeps_no_answers(tmp_path):
    """Answers are read from the store by `async for` or written by `to_jsonl`."""
    settings = WorldSettings(fate=None)
    async with simulate(settings=settings) as sim:
        async with runner_on(sim, tmp_path / "run.db") as runner:
            result = await runner.run(items(30), collect=False)

        with pytest.raises(ConfigurationError, match="async for"):
            _ = result.outcomes
        ids = [outcome.id async for outcome in result]
        written = result.to_jsonl(tmp_path / "out.jsonl")

    assert ids == [item_id for item_id, _ in items(30)]
    assert written == 30
    assert len((tmp_path / "out.jsonl").read_bytes().splitlines()) == 30
    assert result.complete


async def test_to_jsonl_may_be_awaited(tmp_path):
    """The call is done when it returns; awaiting its answer is harmless."""
    async with simulate() as sim, runner_on(sim) as runner:
        result = await runner.run(items(2))

        assert await result.to_jsonl(tmp_path / "out.jsonl") == 2


async def test_raise_if_incomplete_carries_the_result():
    """R14, R33: all items failing is a list of unresolved ids, not an empty success."""
    async with simulate() as sim, runner_on(sim) as runner:
        sim.fate_for("*", errored("api_error"))
        result = await runner.run(items(3))

    assert not result.complete
    assert [o.reason for o in result.unresolved] == ["exhausted"] * 3
    with pytest.raises(IncompleteRun, match="0 of 3 items succeeded") as raised:
        result.raise_if_incomplete()
    assert raised.value.result is result


async def test_the_policy_is_asked_at_the_start_and_on_ticks():
    """R35: a DispatchPolicy sees a frozen snapshot; here it stays."""
    asked = []

    class Curious:
        def decide(self, snapshot):
            asked.append(snapshot)
            return Stay("only looking")

    async with simulate() as sim, runner_on(sim, policy=Curious()) as runner:
        await runner.run(items(3))

    assert asked[0].moment == "start"
    assert asked[0].total == 3


@pytest.mark.parametrize("store", ["memory://", "file"])
async def test_stream_yields_each_outcome_once(tmp_path, store):
    """Outcomes come as soon as they are durable; what stays unresolved comes at the end."""
    where = tmp_path / "run.db" if store == "file" else store
    async with simulate() as sim, runner_on(sim, where, limits=SMALL) as runner:
        sim.fate_for("doc-3", errored("overloaded_error"))
        sim.fate_for("doc-4", errored("invalid_request_error"))

        seen = [outcome async for outcome in runner.stream(items(25))]
        again = [outcome.id async for outcome in runner.stream(items(25))]

    assert Counter(o.id for o in seen) == Counter(item_id for item_id, _ in items(25))
    assert seen[-1].id == "doc-3"
    assert seen[-1].reason == "exhausted"
    assert Counter(again) == Counter(o.id for o in seen)


async def test_a_stream_left_early_stops_the_run_with_its_state_saved(tmp_path):
    """Leaving the iteration is an interruption like any other: the next call goes on."""
    async with simulate() as sim, runner_on(sim, tmp_path / "run.db", limits=SMALL) as runner:
        async with runner.stream(items(30)) as stream:
            async for _ in stream:
                break
        result = await runner.run(items(30))

        assert result.complete
        assert set(sent(sim).values()) == {1}
