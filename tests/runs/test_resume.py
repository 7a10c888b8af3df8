"""Interruption is the normal case: what is sent after it is exactly what has no answer."""

from __future__ import annotations

import asyncio
import signal
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest
from tests.support import (
    FAST,
    Heard,
    assert_conserved,
    assert_own_answers,
    items,
    params,
    run_interrupted,
    runner_on,
    sent,
)

from batchwright import (
    BatchRunner,
    ChangedItem,
    ConfigurationError,
    DuplicateItem,
    IntakeError,
    MassRefusal,
    OtherRun,
    RunLocked,
    ShardLimits,
)
from batchwright.errors import StoreError
from batchwright.events import ItemsMerged, RunInterrupted, ShardSubmitted
from batchwright.simulator import Simulator, Slow, WorldSettings, errored
from batchwright.testing import simulate

CHILD = Path(__file__).with_name("child.py")


def kill_child_at(
    sim: Simulator, store: Path, event: str, *, count: int, shard: int, nth: int = 1
) -> None:
    """Run the child until it tells *event* for the *nth* time, then kill it at once."""
    argv = [sys.executable, CHILD, sim.url, sim.api_key, store, str(count), str(shard)]
    with subprocess.Popen([str(a) for a in argv], stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        for line in child.stdout:
            nth -= line.strip() == event
            if nth <= 0:
                break
        child.send_signal(signal.SIGKILL)
        child.stdout.close()
        assert child.wait() == -signal.SIGKILL


@pytest.mark.parametrize(
    ("event", "nth"),
    [("BatchPolled", 3), ("ItemsMerged", 1), ("ShardSubmitted", 2), ("ShardPlanned", 1)],
)
async def test_killed_and_run_again(tmp_path, event, nth):
    """R11, R12, R32: kill -9 during poll and during harvest; then exactly the missing is sent."""
    store = tmp_path / "run.db"
    asked = items(1_200)
    settings = WorldSettings(duration=(330, 500), error_rate=0.02)
    with Simulator(speed=500, settings=settings) as sim:
        if event == "ItemsMerged":
            sim.on("results", Slow(0.01, size=10_000))
        await asyncio.to_thread(kill_child_at, sim, store, event, count=1_200, shard=400, nth=nth)
        before = sent(sim)
        stored = _answered(store)
        sim.off()
        async with runner_on(sim, store, limits=ShardLimits(max_requests=400)) as runner:
            result = await runner.run(asked)

        assert result.complete
        assert_conserved(result, 1_200)
        assert_own_answers(result, asked)
        if event == "ItemsMerged":
            assert 0 < len(stored) < 1_200
        # Whatever the server had registered before the kill was read and not sent again, except
        # for what it answered by an error.
        books = sim.world.books()
        assert books.billed_twice == {}
        twice = {custom_id for custom_id, times in sent(sim).items() if times > 1}
        assert twice <= {o.custom_id for o in result.outcomes if o.attempts > 1}
        assert set(before) <= set(sent(sim))


def _answered(store: Path) -> set[int]:
    with sqlite3.connect(store) as db:
        found = {key for (key,) in db.execute("SELECT key FROM answers")}
    db.close()
    return found


async def test_resume_sends_exactly_the_missing(tmp_path):
    """R11: a part is checkpointed; then the server receives just what has no answer."""
    asked = items(12)
    async with simulate() as sim:
        async with runner_on(sim, tmp_path / "run.db") as runner:
            sim.fate_for("doc-3", [errored("billing_error")])
            sim.fate_for("doc-7", [errored("billing_error")])
            first = await runner.run(asked)
            assert first.counts["succeeded"] == 10

        async with runner_on(sim, tmp_path / "run.db") as runner:
            second = await runner.run(asked)

        missing = {first["doc-3"].custom_id, first["doc-7"].custom_id}
        assert set(sim.creates[1].custom_ids) == missing
        assert len(sim.creates) == 2
        assert second.complete


async def test_resume_needs_no_items(tmp_path):
    """Requests are kept: a run goes on from the store alone."""
    asked = items(6)
    async with simulate() as sim:
        async with runner_on(sim, tmp_path / "run.db") as runner:
            sim.fate_for("doc-3", [errored("billing_error")])
            await runner.run(asked)
        async with runner_on(sim, tmp_path / "run.db") as runner:
            result = await runner.resume()

    assert result.complete
    assert_own_answers(result, asked)


async def test_task_cancel_saves_the_state(tmp_path):
    """A cancelled task passes CancelledError on; the batches go on; the next call reads them."""
    heard = Heard()
    settings = WorldSettings(duration=(5_000, 5_000))
    async with simulate(settings=settings) as sim:
        async with runner_on(sim, tmp_path / "run.db", on_event=heard) as runner:
            await run_interrupted(runner, items(5), heard)
            (told,) = heard.of(RunInterrupted)
            assert told.live == 1
            assert "batchwright resume" in told.advice
            assert sim.calls("cancel") == []

            result = await runner.run(items(5))

        assert result.complete
        assert len(sim.creates) == 1


async def test_cancel_during_a_create_waits_for_its_id(tmp_path):
    """The one answer that tells whether a batch exists is waited for, and stored."""
    from batchwright.simulator import Delay

    async with simulate() as sim:
        async with runner_on(sim, tmp_path / "run.db") as runner:
            sim.on("create", Delay(0.05, when="after"), times=1)
            task = asyncio.create_task(runner.run(items(5)))
            while not sim.world.batches:
                await asyncio.sleep(0.002)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task

            result = await runner.run(items(5))

        assert result.complete
        assert len(sim.creates) == 1


async def test_a_second_owner_is_refused_before_any_post(tmp_path):
    """One live process owns a run; another one sends nothing."""
    heard = Heard()
    settings = WorldSettings(duration=(5_000, 5_000))
    async with simulate(settings=settings) as sim:
        async with runner_on(sim, tmp_path / "run.db", on_event=heard) as first:
            task = asyncio.create_task(first.run(items(5)))
            await heard.until(ShardSubmitted)
            async with runner_on(sim, tmp_path / "run.db") as second:
                with pytest.raises(RunLocked, match="owned by another live process"):
                    await second.run(items(5))
                with pytest.raises(RunLocked):
                    await second.cancel()
                status = await second.status()
                assert status.owner is not None
                assert status.progress.in_flight == 5
            await task

        assert len(sim.creates) == 1


async def test_duplicate_ids_are_refused_before_any_post(tmp_path):
    """R10: named with both positions; there is no option to wave it through."""
    async with simulate() as sim, runner_on(sim, tmp_path / "run.db") as runner:
        with pytest.raises(DuplicateItem, match=r"'doc-2'.*positions 2 and 5") as raised:
            await runner.run([*items(5), items(5)[2], *items(3, "more")])

        assert raised.value.positions == (2, 5)
        assert sim.requests == []
        # Nothing of the refused call is left behind.
        assert (await runner.run(items(3, "other"))).complete


async def test_duplicates_far_apart_are_found():
    """Uniqueness is over the whole input, not within a chunk."""
    asked = items(2_500)
    async with simulate() as sim, runner_on(sim) as runner:
        with pytest.raises(DuplicateItem, match="positions 0 and 2500"):
            await runner.run([*asked, asked[0]])

        assert sim.creates == []


async def test_changed_items_are_refused_before_any_post(tmp_path):
    """Same id, other question: noticed, named, with the remedies; an old answer is never given."""
    asked = items(4)
    changed = [*asked[:2], ("doc-2", params("another question")), asked[3]]
    async with simulate() as sim, runner_on(sim, tmp_path / "run.db") as runner:
        first = await runner.run(asked)
        with pytest.raises(ChangedItem, match=r"'doc-2' at position 2") as raised:
            await runner.run(changed)
        assert "on_changed" in str(raised.value)
        assert len(sim.creates) == 1

    async with simulate() as sim:
        async with runner_on(sim, tmp_path / "run.db", on_changed="keep") as runner:
            kept = await runner.run(changed)
            assert kept["doc-2"].raw == first["doc-2"].raw
        async with runner_on(sim, tmp_path / "run.db", on_changed="rerun") as runner:
            rerun = await runner.run(changed)
        assert_own_answers(rerun, changed)
        assert rerun["doc-1"].raw == first["doc-1"].raw
        assert [len(create.custom_ids) for create in sim.creates] == [1]


async def test_another_job_is_refused(tmp_path):
    """Items of which none is known to a run that holds others are another job."""
    async with simulate() as sim, runner_on(sim, tmp_path / "run.db") as runner:
        await runner.run(items(3))
        with pytest.raises(OtherRun, match="another run_id"):
            await runner.run(items(3, "other"))

        assert (await runner.run(items(3, "other"), run_id="second")).complete


async def test_one_mistake_in_most_items_stops_the_run():
    """More than half refused for one reason is said once, before anything is sent."""
    asked = [(f"doc-{i}", params("x", temperature=0.1 * i)) for i in range(12)]
    async with simulate() as sim, runner_on(sim) as runner:
        with pytest.raises(MassRefusal, match="12 of 12") as raised:
            await runner.run(asked)
        assert "2023-06-01" in str(raised.value)
        assert sim.requests == []


async def test_a_few_refused_items_are_quarantined_and_the_others_go_on():
    """The item's own fault is its own; repaired, it is taken without a word."""
    asked = items(5)
    bad = [*asked, ("nan", params("x", metadata={"score": float("nan")}))]
    async with simulate() as sim, runner_on(sim) as runner:
        result = await runner.run(bad)
        (refused,) = result.quarantined
        assert refused.id == "nan"
        assert "params.metadata.score" in refused.error.message
        assert result.counts["succeeded"] == 5

        repaired = await runner.run([*asked, ("nan", params("x", metadata={"score": 1.0}))])
        assert repaired.complete


async def test_items_that_are_none_name_their_position():
    """Nothing is guessed: forms, ids and missing parts are told apart, before anything is sent."""
    cases = [
        ([*items(2), "text"], "position 2 is a str"),
        ([(7, params("x"))], r"id 7, a int"),
        ([{"params": params("x")}], "position 0 has neither"),
        ([{"custom_id": "a"}], 'has no "params"'),
        ([{"custom_id": "a", "params": {}, "prompt": "x"}], "'prompt'"),
        ([("half \ud83d", params("x"))], "lone surrogate"),
        ("a string", "must be an iterable"),
        ({"a": params("x")}, "items.items"),
    ]
    async with simulate() as sim, runner_on(sim) as runner:
        for given, message in cases:
            with pytest.raises(IntakeError, match=message):
                await runner.run(given)
        assert sim.requests == []


async def test_an_intake_that_was_interrupted_says_so(tmp_path):
    """A half-read run is not a run: resume says that nothing was sent and what to do."""

    async def source():
        for item in items(1_500):
            yield item
        raise OSError("the disk of the caller failed")

    async with simulate() as sim, runner_on(sim, tmp_path / "run.db") as runner:
        with pytest.raises(OSError, match="the disk of the caller"):
            await runner.run(source())
        with pytest.raises(IntakeError, match="run it again with the items"):
            await runner.resume()
        assert (await runner.status()).intake_complete is False
        assert sim.requests == []
        assert (await runner.run(items(3))).complete


async def test_unknown_runs_are_named(tmp_path):
    """A typo in the run's name lists the names there are."""
    async with simulate() as sim, runner_on(sim, tmp_path / "run.db") as runner:
        await runner.run(items(1), run_id="judge")
        for call in (runner.resume, runner.status, runner.cancel, runner.report):
            with pytest.raises(ConfigurationError, match="'judge'"):
                await call("jugde")


async def test_cancel_ends_the_run_and_keeps_what_was_answered(tmp_path):
    """Live batches are canceled and read; the rest waits for a person's word."""
    heard = Heard()
    settings = WorldSettings(duration=(50_000, 50_000), cancel_in_flight=0.5)
    async with simulate(settings=settings) as sim:
        async with runner_on(sim, tmp_path / "run.db", on_event=heard) as runner:
            await run_interrupted(runner, items(40), heard)
            result = await runner.cancel()

            assert len(sim.calls("cancel")) == 1
            assert {o.reason for o in result.unresolved} == {"canceled"}
            assert 0 < result.counts["succeeded"] < 40
            assert_conserved(result, 40)
            again = await runner.resume()
            assert len(again.unresolved) == len(result.unresolved)
            assert len(sim.creates) == 1
            sim.world.configure(duration=(60, 60))
            final = await runner.resume(resubmit=["canceled"])
            assert final.complete
            assert len(sim.creates[1].custom_ids) == len(result.unresolved)


async def test_harvest_merges_while_the_download_runs(tmp_path):
    """R13: results are streamed: the first lines are durable before the last have come."""
    heard = Heard()
    async with simulate() as sim, runner_on(sim, tmp_path / "run.db", on_event=heard) as runner:
        await runner.run(items(4_500))

    assert len(heard.of(ItemsMerged)) >= 3


async def test_the_store_is_closed_after_use(tmp_path):
    """No thread and no connection is left behind."""
    import threading

    before = set(threading.enumerate())
    async with simulate() as sim:
        async with runner_on(sim, tmp_path / "run.db") as runner:
            await runner.run(items(2))
        left = [t for t in threading.enumerate() if t not in before and "batchwright" in t.name]

    assert left == []


def test_a_runner_that_never_runs_opens_nothing(tmp_path):
    """Construction alone touches neither disk nor loop."""
    BatchRunner(store=tmp_path / "run.db", polling=FAST)

    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("fate", ["deleted", "replaced"])
async def test_a_store_that_goes_away_stops_the_sending(tmp_path, fate):
    """What would be known to no later run is not sent; the message says how to go on."""
    store = tmp_path / "run.db"
    heard = Heard()
    limits = ShardLimits(max_requests=5, max_live=1)
    async with simulate(settings=WorldSettings(duration=(2_000, 2_000))) as sim:
        async with runner_on(sim, store, limits=limits, on_event=heard) as runner:
            task = asyncio.create_task(runner.run(items(60)))
            await heard.until(ShardSubmitted)
            before = len(sim.creates)
            for name in tmp_path.iterdir():
                name.unlink()
            if fate == "replaced":
                store.write_bytes(b"")
            with pytest.raises(StoreError, match=f"was {fate}.*batchwright recover"):
                await task
        assert len(sim.creates) == before
