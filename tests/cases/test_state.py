"""C31 to C35: what goes wrong with what is kept between two calls."""

from __future__ import annotations

import asyncio
import itertools
import signal
import sqlite3
import time
from pathlib import Path

import anthropic
import pytest
from tests.cli.support import FAST as FAST_FLAGS
from tests.cli.support import Shell, clean_env, item, write_items
from tests.support import (
    EAGER,
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
    Org,
    ShardLimits,
    StoreBusy,
    StoreError,
    StoreFull,
)
from batchwright.events import RunInterrupted, ShardHeld, ShardSubmitted
from batchwright.simulator import Delay, Drop, Error, Hang, Simulator, Slow, WorldSettings
from batchwright.stores import MemoryStore, SQLiteStore
from batchwright.testing import simulate

LONG = WorldSettings(duration=(30_000, 30_000))
WRITES = frozenset(
    {"acquire", "renew", "release", "begin_intake", "stage", "commit_intake", "start_wave"}
    | {"plan_shard", "move_shard", "settle", "put_facts"}
)


# -- C31: a damaged, locked or full state store ------------------------------------------------


async def test_c31_a_torn_end_loses_only_itself(tmp_path, monkeypatch):
    """(a) Whatever is cut off the end of the journal: what was stored before goes on."""
    store = tmp_path / "run.db"
    heard = Heard()
    async with simulate(settings=LONG) as sim:
        async with runner_on(sim, store, on_event=heard) as runner:
            task = asyncio.create_task(runner.run(items(30)))
            await heard.until(ShardSubmitted)
            pages = {p.name: p.read_bytes() for p in tmp_path.iterdir() if "-shm" not in p.name}
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
        sim.world.finish(next(iter(sim.world.batches)))
        # Who wrote it died with the machine.
        monkeypatch.setattr("batchwright._lease._is_dead", lambda owner, here: True)
        journal = pages["run.db-wal"]
        for number, cut in enumerate((1, 2_000, 4_000)):
            torn = tmp_path / f"torn-{number}"
            torn.mkdir()
            (torn / "run.db").write_bytes(pages["run.db"])
            (torn / "run.db-wal").write_bytes(journal[:-cut])
            async with runner_on(sim, torn / "run.db") as runner:
                result = await runner.run(items(30))
            assert result.complete
            assert_own_answers(result, items(30))
        assert len(sim.creates) == 1


class FullAt:
    """A store whose disk is full from the *nth* write on."""

    def __init__(self, store: MemoryStore, nth: int) -> None:
        self._store = store
        self._nth = nth
        self.writes = 0

    def __getattr__(self, name: str):
        method = getattr(self._store, name)
        if name not in WRITES:
            return method

        async def write(*args, **options):
            self.writes += 1
            if self.writes >= self._nth:
                raise StoreFull("no space left for the store")
            return await method(*args, **options)

        return write


async def test_c31_a_disk_that_fills_up_at_any_write():
    """(b) At each write in turn: nothing is sent without its intent, and all of it is resumed."""
    for nth in itertools.count(1):
        kept = MemoryStore()
        store = FullAt(kept, nth)
        async with simulate(settings=WorldSettings(duration=(600, 600))) as sim:
            limits = ShardLimits(max_requests=2)
            async with runner_on(sim, store, limits=limits) as runner:
                try:
                    await runner.run(items(4))
                except StoreFull:
                    assert store.writes >= nth
                else:
                    break
            intents = [s.sent_at for s in await kept.read_shards("default")] if nth > 1 else []
            assert len(sim.creates) <= sum(at is not None for at in intents)

            async with runner_on(sim, kept, limits=limits) as runner:
                result = await runner.run(items(4))
            assert result.complete
            assert set(sent(sim).values()) == {1}, f"sent twice when write {nth} failed"
    assert nth > 15


async def test_c31_a_store_that_others_hold_is_waited_for(tmp_path):
    """(c) Within its limit nothing is lost and the loop goes on; beyond, it says what to close."""
    path = tmp_path / "run.db"
    heard = Heard()
    gaps: list[float] = []

    async def beat() -> None:
        while True:
            before = time.monotonic()
            await asyncio.sleep(0.005)
            gaps.append(time.monotonic() - before)

    async with simulate() as sim:
        store = SQLiteStore(path, busy_timeout=5.0)
        async with runner_on(sim, store, on_event=heard) as runner:
            heart = asyncio.create_task(beat())
            task = asyncio.create_task(runner.run(items(20)))
            await heard.until(ShardSubmitted)
            other = sqlite3.connect(path, isolation_level=None)
            other.execute("BEGIN IMMEDIATE")
            beats = len(gaps)
            for _ in range(60):
                await asyncio.sleep(0.005)
            assert not task.done()
            # Counted, not timed: a loop that waited for the lock would not beat at all.
            assert len(gaps) - beats > 30
            other.execute("ROLLBACK")
            assert (await task).complete
            heart.cancel()

        other.execute("BEGIN IMMEDIATE")
        impatient = SQLiteStore(path, busy_timeout=0.05)
        with pytest.raises(StoreBusy, match="Close what"):
            async with runner_on(sim, impatient) as runner:
                await runner.run(items(20))
        other.close()


async def test_c31_a_folder_that_cannot_be_written_fails_before_the_first_request(
    tmp_path, monkeypatch
):
    """(d) Said at once, with the folder's name."""
    # The tests may run as root, who may write anywhere: the answer of the system is put in.
    path = tmp_path / "run.db"
    path.touch()
    monkeypatch.setattr("os.access", lambda target, mode: Path(target) != tmp_path)
    async with simulate() as sim:
        with pytest.raises(StoreError, match="not writable"):
            async with runner_on(sim, path) as runner:
                await runner.run(items(2))
        assert sim.requests == []


# -- C32: same keys, different questions -------------------------------------------------------


@pytest.mark.parametrize("change", ["one question", "model of all", "a header"])
async def test_c32_a_changed_question_is_noticed_before_any_request(tmp_path, change):
    """The item is named with what to do; an old answer is never given for a new question."""
    asked = items(3)
    if change == "one question":
        changed = [*asked[:1], ("doc-1", params("another")), *asked[2:]]
    elif change == "model of all":
        changed = [(item_id, {**body, "model": "claude-sonnet-5"}) for item_id, body in asked]
    else:
        flag = {"anthropic-beta": "context-1m-2025-08-07"}
        changed = [
            {"id": i, "params": body, **({"headers": flag} if i == "doc-1" else {})}
            for i, body in asked
        ]
    async with simulate() as sim, runner_on(sim, tmp_path / "run.db") as runner:
        first = await runner.run(asked)
        before = len(sim.requests)
        named = "doc-0" if change == "model of all" else "doc-1"
        with pytest.raises(ChangedItem, match=rf"'{named}'.*on_changed"):
            await runner.run(changed)
        assert len(sim.requests) == before
        again = await runner.run(asked)
        assert [o.raw for o in again.outcomes] == [o.raw for o in first.outcomes]
        assert len(sim.creates) == 1


# -- C33: resumed with another key -------------------------------------------------------------


async def interrupted(sim: Simulator, store: Path, key: str, *, lost: bool = False) -> None:
    """Leave a live batch behind that *key* has made; with *lost* its create got no answer."""
    heard = Heard()
    async with runner_on(sim, store, api_key=key, on_event=heard) as runner:
        rules = [sim.on("create", Drop("after"), times=1)] if lost else []
        rules += [sim.on("list", lambda call: Error(500) if sim.creates else None)] if lost else []
        task = asyncio.create_task(runner.run(items(3)))
        while not (sim.world.batches if lost else heard.of(ShardSubmitted)):
            await asyncio.sleep(0.002)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        for rule in rules:
            sim.off(rule)


@pytest.mark.parametrize("preflight", [True, False])
async def test_c33_another_workspace_s_key_neither_reads_nor_resends(tmp_path, preflight):
    """Held with the reason, and read as soon as the right key is back."""
    store = tmp_path / "run.db"
    heard = Heard()
    async with simulate(settings=WorldSettings(duration=(6_000, 6_000))) as sim:
        await interrupted(sim, store, "sk-first-key-0001")
        async with runner_on(
            sim, store, api_key="sk-second-key-0002", on_event=heard, preflight=preflight
        ) as runner:
            result = await runner.resume()
        reason = "foreign" if preflight else "not_found"
        assert {o.reason for o in result.unresolved} == {reason}
        (held,) = heard.of(ShardHeld)
        assert "another credential" in held.remedy
        assert len(sim.creates) == 1

        async with runner_on(sim, store, api_key="sk-first-key-0001") as runner:
            again = await runner.resume()
        assert again.complete
        assert {o.attempts for o in again.outcomes} == {1}
        assert len(sim.creates) == 1
        text = b"".join(p.read_bytes() for p in tmp_path.iterdir())
        assert b"first-key" not in text
        assert b"second-key" not in text


async def test_c33_the_absence_of_a_lost_create_is_not_told_by_another_workspace(tmp_path):
    """Its list shows nothing, which says nothing: held, not sent again."""
    store = tmp_path / "run.db"
    # Calm: in a world of hours a second, a moment's stall puts a create outside its time limit.
    async with simulate(speed=600.0) as sim:
        await interrupted(sim, store, "sk-first-key-0001", lost=True)
        async with runner_on(sim, store, api_key="sk-second-key-0002") as runner:
            result = await runner.resume()
        assert {o.reason for o in result.unresolved} == {"ambiguous"}
        assert len(sim.creates) == 1
        async with runner_on(sim, store, api_key="sk-first-key-0001") as runner:
            assert (await runner.resume()).complete
        assert len(sim.creates) == 1


@pytest.mark.parametrize("labels", [("default", "more"), ("more", "default"), ("x", "y")])
async def test_c33_both_keys_under_whatever_labels(tmp_path, labels):
    """The batch is read with the credential of its workspace."""
    store = tmp_path / "run.db"
    async with simulate(settings=WorldSettings(duration=(3_000, 3_000))) as sim:
        await interrupted(sim, store, "sk-first-key-0001")
        async with (
            anthropic.AsyncAnthropic(base_url=sim.url, api_key="sk-first-key-0001") as first,
            anthropic.AsyncAnthropic(base_url=sim.url, api_key="sk-second-key-0002") as second,
        ):
            orgs = [Org(labels[0], first), Org(labels[1], second)]
            async with BatchRunner(orgs=orgs, store=store, polling=FAST, retry=EAGER) as runner:
                result = await runner.resume()
        assert result.complete
        assert len(sim.creates) == 1


async def test_c33_a_rotated_key_goes_on(tmp_path):
    """Same workspace, new key: nothing is held and nothing is sent."""
    keys = {"sk-first-key-0001": "ours", "sk-second-key-0002": "ours"}
    store = tmp_path / "run.db"
    settings = WorldSettings(duration=(3_000, 3_000), keys=keys)
    async with simulate(settings=settings) as sim:
        await interrupted(sim, store, "sk-first-key-0001")
        async with runner_on(sim, store, api_key="sk-second-key-0002") as runner:
            assert (await runner.resume()).complete
        assert len(sim.creates) == 1


# -- C34: Ctrl-C, task.cancel() and the orphan batch -------------------------------------------

POINTS = {
    "create": ("create", Delay(0.04, when="after")),
    "poll": ("retrieve", Delay(0.04)),
    "results": ("results", Slow(0.004, size=2_000)),
}


@pytest.mark.parametrize("point", POINTS)
async def test_c34_a_cancelled_task_saves_its_state_and_leaves_the_batches(tmp_path, point):
    """In a create, a look, a download: CancelledError goes on, the batches too, no task is left."""
    route, action = POINTS[point]
    heard = Heard()
    others = asyncio.all_tasks()
    async with simulate(settings=WorldSettings(duration=(900, 900))) as sim:
        async with runner_on(sim, tmp_path / "run.db", on_event=heard) as runner:
            rule = sim.on(route, action)
            task = asyncio.create_task(runner.run(items(30)))
            while not sim.calls(route) or (point == "create" and not sim.world.batches):
                await asyncio.sleep(0.002)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            left = [t for t in asyncio.all_tasks() - others if "batchwright/_" in repr(t)]
            assert left == []
            (told,) = heard.of(RunInterrupted)
            assert told.advice.startswith("batchwright resume")
            sim.off(rule)
            assert sim.calls("cancel") == []
            assert (await runner.resume()).complete
        assert len(sim.creates) == 1


async def test_c34_batches_can_be_canceled_without_waiting_for_their_ends(tmp_path):
    """One cancel for each live batch; what they still give is read; the rest waits for a word."""
    heard = Heard()
    limits = ShardLimits(max_requests=10)
    settings = WorldSettings(duration=(1e6, 1e6), cancel_in_flight=0.5)
    async with (
        simulate(settings=settings) as sim,
        runner_on(sim, tmp_path / "run.db", on_event=heard, limits=limits) as runner,
    ):
        task = asyncio.create_task(runner.run(items(30)))
        while len(heard.of(ShardSubmitted)) < 3:
            await asyncio.sleep(0.002)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        said = await runner.request_cancel()
        assert sorted(said.asked) == sorted(sim.world.batches)
        assert said.refused == {}
        assert len(sim.calls("cancel")) == 3

        result = await runner.resume()
        assert {o.reason for o in result.unresolved} == {"canceled"}
        assert 0 < result.counts["succeeded"] < 30
        assert_conserved(result, 30)
        assert len(sim.creates) == 3


async def test_c34_a_cancel_that_is_never_answered_holds_nobody_up(tmp_path):
    """The time limit is for all of it, and names what was not reached."""
    heard = Heard()
    async with simulate(settings=LONG) as sim:
        async with runner_on(sim, tmp_path / "run.db", on_event=heard) as runner:
            await run_interrupted(runner, items(3), heard)
            sim.on("cancel", Hang())
            said = await runner.request_cancel(timeout=0.05)
            assert said.asked == ()
            assert "no answer" in said.refused[heard.of(ShardSubmitted)[0].batch_id]
            with pytest.raises(ConfigurationError, match="no run 'other'"):
                await runner.request_cancel("other")


@pytest.mark.parametrize("how", ["leave", "cancel", "cancel hangs", "cancel, second signal"])
def test_c34_signals_and_what_becomes_of_the_batches(tmp_path, how):
    """The policy decides, the message tells; a second signal leaves at once; resume goes on."""
    settings = WorldSettings(never_ends=True, cancel_in_flight=0.0)
    with Simulator(speed=6_000, settings=settings) as sim:
        shell = Shell(tmp_path, clean_env()).at(sim)
        write_items(tmp_path / "items.jsonl", *map(item, range(10)))
        words = ["run", "items.jsonl", "--max-requests", "5", *FAST_FLAGS]
        words += [] if how == "leave" else ["--cancel-on-interrupt"]
        if "," in how or "hangs" in how:
            sim.on("cancel", Hang(), times=None if "," in how else 1)
        process = shell.start_until("sub-batch 2 sent", *words)
        process.send_signal(signal.SIGINT)
        if "," in how:
            while not sim.calls("cancel"):
                time.sleep(0.002)
            process.send_signal(signal.SIGINT)
        elif "hangs" in how:
            while len(sim.calls("cancel")) < 2:
                time.sleep(0.002)
            process.send_signal(signal.SIGTERM)
        _, err = process.communicate(timeout=30)

        assert process.returncode == 130
        assert "never awaited" not in err
        assert "Traceback" not in err
        if how == "leave":
            assert "2 batches go on" in err
            assert sim.calls("cancel") == []
        if how == "cancel":
            assert "2 batches are being canceled" in err
            assert "--resubmit canceled" in err
            assert len(sim.calls("cancel")) == 2
        for batch in sim.world.books().batches:
            sim.world.finish(batch.id)
        sim.world.configure(never_ends=False)
        again = shell("resume", "--resubmit", "canceled", *FAST_FLAGS)
        more = shell("resume", "--resubmit", "canceled", *FAST_FLAGS)
        assert more.returncode == 0, again.stderr + more.stderr
        assert sim.world.books().billed_twice == {}


# -- C35: cancelling what has just ended -------------------------------------------------------


@pytest.mark.parametrize("status", [400, 404, 409])
async def test_c35_a_cancel_that_is_refused_is_no_error(tmp_path, status):
    """(a) The batch had just ended: one cancel, and all of its answers."""
    heard = Heard()
    async with simulate(settings=LONG) as sim:
        async with runner_on(sim, tmp_path / "run.db", on_event=heard) as runner:
            await run_interrupted(runner, items(5), heard)
            sim.on("cancel", Error(status))
            sim.world.finish(next(iter(sim.world.batches)))
            result = await runner.cancel()

            assert result.complete
            assert len(sim.calls("cancel")) == 1


@pytest.mark.parametrize(("in_flight", "least", "most"), [(1.0, 20, 20), (0.5, 1, 19), (0.0, 0, 0)])
async def test_c35_the_state_follows_the_lines_and_not_the_wish(tmp_path, in_flight, least, most):
    """(b), (c) Canceled all the same, or ended in full, or half: what was answered is kept."""
    heard = Heard()
    settings = WorldSettings(duration=(1e6, 1e6), cancel_in_flight=in_flight)
    async with simulate(settings=settings) as sim:
        async with runner_on(sim, tmp_path / "run.db", on_event=heard) as runner:
            await run_interrupted(runner, items(20), heard)
            result = await runner.cancel()

            assert least <= result.counts["succeeded"] <= most
            assert {o.reason for o in result.unresolved} <= {"canceled"}
            assert_conserved(result, 20)
            assert sum(spent.answers for spent in result.report.tokens) == len(result.messages)
