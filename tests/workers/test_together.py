"""Several runners of one process on one store: each does its part, and nothing is done twice."""

from __future__ import annotations

import asyncio
from collections import Counter
from contextlib import AsyncExitStack

import anthropic
import pytest
from tests.support import (
    EAGER,
    FAST,
    Heard,
    assert_conserved,
    assert_own_answers,
    items,
    params,
    runner_on,
    sent,
)

from batchwright import BatchRunner, ConfigurationError, Org, RunLocked, ShardLimits, SyncLimits
from batchwright.errors import IntakeError
from batchwright.events import (
    BatchHarvested,
    Conducting,
    ItemsMerged,
    OrgPaused,
    RunInterrupted,
    ShardSubmitted,
    SwitchDecided,
    WorkerJoined,
    WorkerLost,
)
from batchwright.simulator import Delay, Error, Raise413, Simulator, WorldSettings, errored
from batchwright.store import ShardState
from batchwright.stores import MemoryStore
from batchwright.testing import simulate

TEN = ShardLimits(max_requests=10)
#: Batches take about a tenth of a real second.
BRISK = WorldSettings(duration=(60, 200))
#: Every batch sits for most of a day; a cancel drains within a minute.
WEDGED = WorldSettings(
    duration=(80_000, 84_000), cancel_seconds=(10, 50), cancel_in_flight=0.1, keep_bodies=True
)


class SharedMemory(MemoryStore):
    """A memory store on which `run` and `resume` let others join, as on a database."""

    is_shared = True


class Team:
    """Several runners on one store, with what each of them told."""

    def __init__(self, sim: Simulator, store: MemoryStore, stack: AsyncExitStack) -> None:
        self.sim, self.store, self._stack = sim, store, stack
        self.heard: list[Heard] = []

    async def member(self, **options) -> BatchRunner:
        """Return one more runner."""
        heard = Heard()
        self.heard.append(heard)
        options = {"limits": TEN, **options, "on_event": heard}
        return await self._stack.enter_async_context(runner_on(self.sim, self.store, **options))

    def of(self, kind) -> list:
        """Return the events of one kind that any of them told."""
        return [event for heard in self.heard for event in heard.of(kind)]

    async def until(self, kind, count: int = 1) -> None:
        """Return once so many events of one kind were told by any of them."""
        while len(self.of(kind)) < count:
            await asyncio.sleep(0.001)


@pytest.fixture
async def team():
    """A team on a memory store, and batches that are done in a moment."""
    async with AsyncExitStack() as stack:
        sim = await stack.enter_async_context(simulate(settings=BRISK))
        yield Team(sim, MemoryStore(), stack)


@pytest.fixture
async def wedged():
    """A team whose batches do not end by themselves."""
    async with AsyncExitStack() as stack:
        sim = await stack.enter_async_context(simulate(settings=WEDGED))
        yield Team(sim, MemoryStore(), stack)


async def read_back(team: Team, asked, **options) -> None:
    """Check the run's final state against what was asked and what the server was sent."""
    result = await (await team.member(**options)).resume()
    assert_conserved(result, len(asked))
    assert_own_answers(result, asked)
    assert result.complete
    wire = sent(team.sim)
    assert {key: wire[result[key].custom_id] for key, _ in asked} == {
        key: result[key].attempts for key, _ in asked
    }
    assert team.sim.world.books().billed_twice == {}


# -- together ----------------------------------------------------------------------------------


async def test_three_share_a_run(team):
    """Each sends, watches and reads a part; all of them return when all of it is done."""
    asked = items(300)
    team.sim.on("create", lambda _: Delay(0.05))
    limits = ShardLimits(max_requests=10, concurrency=1)
    runners = [await team.member(limits=limits) for _ in range(3)]
    status = await runners[0].load(asked)
    assert (status.progress.waiting, sent(team.sim)) == (300, Counter())

    results = await asyncio.gather(*(runner.work(collect=True) for runner in runners))

    for result in results:
        assert result.complete
        assert_conserved(result, 300)
    parts = [len(heard.of(BatchHarvested)) for heard in team.heard]
    assert sum(parts) == 30
    assert all(parts), parts
    assert len({event.worker for event in team.of(WorkerJoined)}) == 3
    assert len(team.of(Conducting)) == 1
    await read_back(team, asked)


async def test_whoever_comes_when_all_is_done_returns_at_once(team):
    """A late member of an array finds nothing to do, sends nothing, and tells the same result."""
    runner = await team.member()
    await runner.load(items(20))
    await runner.work()
    before = len(team.sim.requests)

    result = await (await team.member()).work()

    assert result.complete
    assert len(team.sim.requests) == before


async def test_one_that_joins_in_the_middle_takes_its_part(team):
    """A worker may come at any time: what is planned but not sent goes to whoever claims it."""
    one, two = await team.member(limits=ShardLimits(max_requests=5, concurrency=1)), None
    asked = items(150)
    await one.load(asked)
    first = asyncio.create_task(one.work())
    await team.until(ShardSubmitted, 2)
    two = await team.member(limits=ShardLimits(max_requests=5, concurrency=1))
    await asyncio.gather(first, two.work())

    assert team.heard[1].of(ShardSubmitted)
    await read_back(team, asked)


async def test_an_interrupted_one_gives_back_what_it_had(team):
    """Ctrl-C on the one that conducts: the other goes on at once, without waiting for a lapse."""
    one = await team.member()
    asked = items(200)
    await one.load(asked)
    first = asyncio.create_task(one.work())
    await team.until(ShardSubmitted, 3)
    two = await team.member()
    second = asyncio.create_task(two.work())
    await team.until(WorkerJoined, 2)
    first.cancel()
    with pytest.raises(asyncio.CancelledError):
        await first
    workers = await team.store.read_workers("default")
    claimed = {o.worker for o in await team.store.read_open("default")}
    result = await second

    assert len(workers) == 1
    assert claimed <= {None, workers[0].lease.worker}
    assert result.complete
    assert team.of(WorkerLost) == []
    assert "batchwright work" in team.heard[0].of(RunInterrupted)[0].advice
    assert team.heard[1].of(Conducting)
    await read_back(team, asked)


async def test_all_leave_and_one_comes_back(team):
    """A run that all have left is gone on with by whoever works on it next."""
    runners = [await team.member() for _ in range(2)]
    asked = items(100)
    await runners[0].load(asked)
    tasks = [asyncio.create_task(runner.work()) for runner in runners]
    await team.until(ShardSubmitted, 2)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)

    assert (await (await team.member()).work()).complete
    await read_back(team, asked)


async def test_one_alone_goes_on_where_workers_stopped(team):
    """`resume` takes over what workers left, and `work` what a lone run left."""
    asked = items(100)
    for method in ("work", "resume", "work"):
        runner = await team.member()
        if method == "work" and len(team.heard) == 1:
            await runner.load(asked)
        task = asyncio.create_task(getattr(runner, method)())
        done = len(team.of(ShardSubmitted))
        await team.until(ShardSubmitted, min(done + 2, 10))
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    assert (await (await team.member()).resume()).complete
    await read_back(team, asked)


# -- who may do what ---------------------------------------------------------------------------


async def test_a_run_that_is_worked_on_is_nobody_elses(wedged):
    """While workers live, a call that needs the run for itself is refused, and stops nobody."""
    runner = await wedged.member()
    await runner.load(items(20))
    task = asyncio.create_task(runner.work())
    await wedged.until(ShardSubmitted, 2)
    other = await wedged.member()
    for call in (other.resume(), other.run(items(20)), other.cancel(), other.load(items(30))):
        with pytest.raises(RunLocked):
            await call
    # Also between two conductors, when nobody holds the run itself for a moment.
    lease = await wedged.store.read_lease("default")
    await wedged.store.release(lease)
    with pytest.raises(RunLocked, match="process"):
        await other.resume()

    assert not task.done()
    status = await other.status()
    assert status.owner is not None
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def test_a_store_for_one_process_is_refused(tmp_path):
    """The error says which store it takes, and nothing is created."""
    runner = BatchRunner(store=tmp_path / "one.db")

    with pytest.raises(ConfigurationError, match=r"PostgreSQL.*one\.db"):
        await runner.work()
    assert list(tmp_path.iterdir()) == []


async def test_the_run_is_waited_for(team):
    """A worker that is there first waits until the items are; for ever it does not."""
    early = await team.member()
    task = asyncio.create_task(early.work())
    await asyncio.sleep(0)
    asked = items(20)
    await (await team.member()).load(asked)
    assert (await task).complete

    with pytest.raises(ConfigurationError, match=r"no run 'other'.*holds 'default'"):
        await early.work("other", wait=0.0)


async def test_items_that_were_never_read_to_the_end(team):
    """A load that broke off left nothing to work on, and the error says so."""

    def broken():
        yield from items(3)
        raise OSError("the disk is gone")

    runner = await team.member()
    with pytest.raises(OSError, match="the disk is gone"):
        await runner.load(broken())
    with pytest.raises(ConfigurationError, match="not read to the end"):
        await runner.work(wait=0.0)
    with pytest.raises(IntakeError):
        await runner.resume()


async def test_loading_twice_changes_nothing(team):
    """Known items are known; new ones come to them."""
    runner = await team.member()
    await runner.load(items(10))
    status = await runner.load(items(15))

    assert status.progress.waiting == 15
    assert (await runner.work()).complete
    await read_back(team, items(15))


async def test_run_lets_others_join_where_the_store_is_shared():
    """On a database `run` conducts, others help, and its result is that of the items passed."""
    asked = items(200)
    async with AsyncExitStack() as stack:
        sim = await stack.enter_async_context(simulate(settings=BRISK))
        sim.on("create", lambda _: Delay(0.1))
        team = Team(sim, SharedMemory(), stack)
        limits = ShardLimits(max_requests=10, concurrency=1)
        one, two = [await team.member(limits=limits) for _ in range(2)]
        first = asyncio.create_task(one.run(asked))
        second = asyncio.create_task(two.work())
        result = await first
        helped = await second

        assert_conserved(result, 200)
        assert_own_answers(result, asked)
        assert helped.complete
        assert all(heard.of(BatchHarvested) for heard in team.heard)
        again = await one.resume()
        assert again.complete


# -- faults ------------------------------------------------------------------------------------


async def test_one_with_a_wrong_key_leaves_and_the_others_go_on(team):
    """What is wrong with one process alone stops that one, and costs nobody an item."""
    team.sim.world.configure(keys={"right": "home"})
    good = await team.member(api_key="right")
    bad = await team.member(api_key="wrong")
    asked = items(60)
    await good.load(asked)
    left, result = await asyncio.gather(bad.work(), good.work())

    assert [reason for reason, _ in left.stopped] == ["account"]
    assert result.complete
    assert not result.stopped


async def test_an_end_by_one_that_cannot_send_is_no_end(team):
    """One with a wrong key is alone and ends the run; who joins at that moment goes on with it."""
    team.sim.world.configure(keys={"right": "home"})
    bad = await team.member(api_key="wrong")
    good = await team.member(api_key="right")
    asked = items(30)
    await bad.load(asked)
    joined: list[asyncio.Task] = []
    plain = team.store.put_facts

    async def put_facts(lease, facts):
        ends = (facts.get("work") or {}).get("open") is False
        if ends and not joined:
            joined.append(asyncio.create_task(good.work()))
            await team.until(WorkerJoined, 2)
        await plain(lease, facts)

    team.store.put_facts = put_facts
    left = await bad.work()

    assert [reason for reason, _ in left.stopped] == ["account"]
    assert (await joined[0]).complete
    await read_back(team, asked, api_key="right")


async def test_a_key_that_is_wrong_for_all_ends_the_run(team):
    """The last one closes it; with a good key it goes on later."""
    team.sim.world.configure(keys={"right": "home"})
    runners = [await team.member(api_key="wrong") for _ in range(2)]
    asked = items(30)
    await runners[0].load(asked)
    results = await asyncio.gather(*(runner.work() for runner in runners))

    assert all([reason for reason, _ in r.stopped] == ["account"] for r in results)
    assert all(r.counts["unresolved"] == 30 for r in results)
    result = await (await team.member(api_key="right")).work(collect=True)
    assert result.complete
    assert_own_answers(result, asked)


async def test_a_bad_item_is_found_by_whoever_sends_it(team):
    """A body that is refused is parted by its worker, while the conductor cuts other shards."""
    asked = items(60)

    def refuse(call):
        bad = any(custom_id.startswith("doc-13-") for custom_id in call.custom_ids)
        return Error(400, "invalid_request_error", "no") if bad else None

    team.sim.on("create", refuse)
    runners = [await team.member() for _ in range(2)]
    await runners[0].load(asked)
    results = await asyncio.gather(*(runner.work(collect=True) for runner in runners))

    for result in results:
        assert_conserved(result, 60)
        assert [o.id for o in result.quarantined] == ["doc-13"]
        assert result.counts["succeeded"] == 59
    assert max(sent(team.sim).values()) == 1


async def test_a_limit_that_one_meets_holds_for_all(team):
    """R: a 413 of one worker makes the conductor cut smaller for everybody."""
    team.sim.on("create", lambda call: Raise413() if len(call.custom_ids) > 4 else None)
    asked = items(80)
    runners = [await team.member() for _ in range(2)]
    await runners[0].load(asked)
    await asyncio.gather(*(runner.work() for runner in runners))

    await read_back(team, asked)
    refused = [c for c in team.sim.creates if not c.registered]
    assert len(refused) <= 20, "it is learned, not met again and again"


async def test_lines_that_fail_are_tried_again_by_anyone(team):
    """Retries wait in the store, and leave with whoever has room."""
    team.sim.fate_for(lambda custom_id: custom_id.startswith("doc-7-"), [errored("api_error")])
    asked = items(40)
    runners = [await team.member() for _ in range(2)]
    await runners[0].load(asked)
    results = await asyncio.gather(*(runner.work(collect=True) for runner in runners))

    assert all(result["doc-7"].attempts == 2 for result in results)
    assert all(result.complete for result in results)


# -- limits ------------------------------------------------------------------------------------


async def test_live_batches_are_bounded_for_all_together(team):
    """`max_live` counts the batches of all workers."""
    limits = ShardLimits(max_requests=10, max_live=2)
    runners = [await team.member(limits=limits) for _ in range(3)]
    await runners[0].load(items(120))
    most = 0

    async def watch() -> None:
        nonlocal most
        while True:
            opened = await team.store.read_open("default")
            alive = {ShardState.PLANNED, ShardState.SENDING, ShardState.LIVE}
            most = max(most, sum(o.shard.state in alive for o in opened))
            await asyncio.sleep(0)

    watcher = asyncio.create_task(watch())
    await asyncio.gather(*(runner.work() for runner in runners))
    watcher.cancel()

    assert most == 2


async def test_the_budget_of_requests_is_shared(team):
    """Each of three processes keeps to a third of the requests that the org may make."""
    from batchwright._org import OrgLink

    runners = [await team.member() for _ in range(3)]
    await runners[0].load(items(60))
    shares: set[int] = set()
    plain = OrgLink.share

    def share(self, processes: int) -> None:
        shares.add(processes)
        plain(self, processes)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(OrgLink, "share", share)
        await asyncio.gather(*(runner.work() for runner in runners))

    assert max(shares) == 3


# -- direct calls ------------------------------------------------------------------------------


def assert_asked_once(sim: Simulator, asked) -> None:
    """Every question was asked directly, once."""
    texts = [call.params["messages"][0]["content"] for call in sim.messages]
    assert Counter(texts) == Counter(body["messages"][0]["content"] for _, body in asked)


async def test_direct_calls_are_shared_out(team):
    """Remainders are claimed in blocks: each item is asked by one process, once."""
    asked = items(900)
    options = {"policy": "sync", "sync": SyncLimits(concurrency=4)}
    runners = [await team.member(**options) for _ in range(3)]
    await runners[0].load(asked)
    await asyncio.gather(*(runner.work() for runner in runners))

    assert_asked_once(team.sim, asked)
    merged = [sum(e.succeeded for e in heard.of(ItemsMerged)) for heard in team.heard]
    assert sum(merged) == 900
    assert sum(part > 0 for part in merged) >= 2, merged
    result = await (await team.member()).resume()
    assert_own_answers(result, asked)


async def test_an_interrupted_one_leaves_its_questions_to_the_others(team):
    """What it had not asked yet is asked by another; what it had asked is not asked again."""
    asked = items(600)
    options = {"policy": "sync", "sync": SyncLimits(concurrency=4)}
    one, two = [await team.member(**options) for _ in range(2)]
    await one.load(asked)
    first = asyncio.create_task(one.work())
    await team.until(ItemsMerged, 3)
    second = asyncio.create_task(two.work())
    await team.until(WorkerJoined, 2)
    first.cancel()
    await asyncio.gather(first, return_exceptions=True)
    await second

    assert_asked_once(team.sim, asked)
    assert (await (await team.member()).resume()).complete


async def test_the_switch_is_decided_once(wedged):
    """A wish of a fourth process: one decision, batches given up by whoever watches them."""
    asked = items(200)
    runners = [await wedged.member(sync=SyncLimits(concurrency=8)) for _ in range(3)]
    await runners[0].load(asked)
    tasks = [asyncio.create_task(runner.work()) for runner in runners]
    await wedged.until(ShardSubmitted, 20)
    assert await (await wedged.member()).switch() is None
    await asyncio.gather(*tasks)

    assert len(wedged.of(SwitchDecided)) == 1
    result = await (await wedged.member()).resume()
    assert_conserved(result, 200)
    assert result.complete
    assert_own_answers(result, asked)
    texts = [call.params["messages"][0]["content"] for call in wedged.sim.messages]
    assert max(Counter(texts).values()) == 1
    answered = {result[key].via for key, _ in asked}
    assert "sync" in answered


# -- accounts ----------------------------------------------------------------------------------


async def test_each_org_is_served_by_those_who_have_it(team):
    """A worker claims only what it has the credential for."""
    async with AsyncExitStack() as stack:

        async def link(*names: str) -> BatchRunner:
            heard = Heard()
            team.heard.append(heard)
            orgs = [
                Org(
                    name,
                    await stack.enter_async_context(
                        anthropic.AsyncAnthropic(base_url=team.sim.url, api_key=f"key-of-{name}")
                    ),
                )
                for name in names
            ]
            runner = BatchRunner(
                orgs=orgs,
                store=team.store,
                limits=TEN,
                polling=FAST,
                retry=EAGER,
                on_event=heard,
            )
            return await stack.enter_async_context(runner)

        both, only_b = await link("a", "b"), await link("b")
        asked = items(200)
        await both.load(asked)
        first = asyncio.create_task(both.work())
        await team.heard[0].until(Conducting)
        await asyncio.gather(first, only_b.work())
        assert {e.org for e in team.heard[1].of(ShardSubmitted)} <= {"b"}
        assert {e.org for e in team.heard[0].of(ShardSubmitted)} >= {"a"}
        assert team.of(OrgPaused) == []
        result = await both.resume()
        assert_own_answers(result, asked)


async def test_a_question_asked_of_nobody_is_not_lost(team):
    """One item, two workers: one of them has it, the other waits and returns with it."""
    runners = [await team.member() for _ in range(2)]
    await runners[0].load([("only", params("question only"))])
    results = await asyncio.gather(*(runner.work(collect=True) for runner in runners))

    assert [r["only"].status for r in results] == ["succeeded", "succeeded"]
    assert len(team.sim.creates) == 1
