"""What a run would send, cost and take, told before anything is sent: against the simulated API."""

from __future__ import annotations

import asyncio
import os
import weakref

import anthropic
import pytest
from tests.support import FAST, Heard, items, params, run_interrupted, runner_on

from batchwright import (
    BatchRunner,
    BatchwrightError,
    ConfigurationError,
    IntakeError,
    Item,
    Org,
    ShardLimits,
    SyncLimits,
    WaveSnapshot,
)
from batchwright._plan import inquiry
from batchwright.events import IntakeProgressed
from batchwright.report import validate
from batchwright.simulator import Drop, Error, Hang, Respond, WorldSettings
from batchwright.testing import simulate

BETA = {"anthropic-beta": "files-api-2025-04-14"}
#: What a plan may ask: nothing of it costs.
FREE = {"models", "count_tokens"}


def planner(sim, store="memory://", **options):
    """Return a runner that was not entered, on a client that its caller closes."""
    client = anthropic.AsyncAnthropic(**sim.client_options())
    return client, BatchRunner(client=client, store=store, polling=FAST, **options)


async def plan_of(sim, asked, store="memory://", *, offline=False, run_id="default", **options):
    """Return the plan of *asked* by a runner of its own; it keeps its contract."""
    client, runner = planner(sim, store, **options)
    async with client:
        plan = await runner.plan(asked, run_id=run_id, offline=offline)
    assert [str(finding) for finding in validate(plan.model_dump_json().encode())] == []
    return plan


def kinds(remarks):
    """Return the kinds of remarks or stops."""
    return {remark.kind for remark in remarks}


def found(folder):
    """Return every file with its bytes and the time of its last change."""
    return {p.name: (p.read_bytes(), p.stat().st_mtime_ns) for p in folder.iterdir()}


# -- what would be sent -----------------------------------------------------------------------


@pytest.mark.parametrize("max_bytes", [250_000_000, 20_000])
async def test_the_run_sends_what_was_planned(sim, max_bytes):
    """R1: number, requests, bytes and headers of the sub-batches are those of the run."""
    asked = [Item(i, p) for i, p in items(600)]
    asked += [Item(i, p, BETA) for i, p in items(150, "beta")]
    limits = ShardLimits(max_requests=100, max_bytes=max_bytes)
    async with runner_on(sim, limits=limits, canary=0) as runner:
        plan = await runner.plan(asked)
        assert {record.route for record in sim.requests} == FREE
        await runner.run(asked)

    planned = sorted((s.count, s.size, s.headers.get("anthropic-beta")) for s in plan.shards)
    made = sorted(
        (len(c.custom_ids), c.body_size, c.headers.get("anthropic-beta")) for c in sim.creates
    )
    assert [(n, beta) for n, _, beta in planned] == [(n, beta) for n, _, beta in made]
    assert sum(size for _, size, _ in planned) == sum(size for _, size, _ in made)
    assert plan.items.to_send == sum(n for n, _, _ in made) == 750
    assert [shard.number for shard in plan.shards] == list(range(1, len(made) + 1))
    wire = {custom_id for create in sim.creates for custom_id in create.custom_ids}
    assert {example.custom_id for example in plan.ids.examples} <= wire


async def test_what_is_talked_to(sim):
    """The plan names the base URL, the API version and the org, as a run does."""
    plan = await plan_of(sim, items(1))

    (talk,) = plan.talking_to
    assert (talk.org, talk.base_url, talk.api_version) == ("default", sim.url, "2026-10-21")
    assert (plan.kind, plan.version, plan.run_id) == ("plan", 1, "default")
    assert plan.asked.models == {"claude-haiku-4-5": 1}
    assert plan.sound


async def test_items_are_not_kept():
    """Memory follows the sums and not the items: of 5,000 hardly any is alive at once."""
    alive = weakref.WeakSet()
    most = 0

    class Kept(dict):
        __slots__ = ("__weakref__",)

        def __hash__(self):
            return id(self)

    def stream():
        nonlocal most
        for number in range(5_000):
            body = Kept(params(f"question {number}"))
            alive.add(body)
            most = max(most, len(alive))
            yield f"doc/{number}", body

    heard = Heard()
    async with simulate() as sim:
        plan = await plan_of(sim, stream(), offline=True, on_event=heard)

    assert plan.items.passed == 5_000
    assert most < 10
    assert [event.read for event in heard.of(IntakeProgressed)][-1] == 5_000


async def test_the_loop_gets_its_turn(sim):
    """Other tasks run while many items are read."""
    turns = 0

    async def other():
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    task = asyncio.create_task(other())
    await plan_of(sim, items(4_000), offline=True)
    task.cancel()

    assert turns > 30


async def test_asynchronous_items(sim):
    """Items may come from an asynchronous iterable."""

    async def stream():
        for one in items(3):
            yield one

    assert (await plan_of(sim, stream())).items.new == 3


async def test_nothing_to_plan(sim):
    """No items are no plan, and no error either."""
    plan = await plan_of(sim, [])

    assert plan.shards == []
    assert plan.cost.batch.high == 0
    assert plan.finish.sync.high == 0
    assert plan.sound


# -- the store --------------------------------------------------------------------------------


async def test_a_store_is_not_created(sim, tmp_path):
    """Planning leaves no store behind."""
    plan = await plan_of(sim, items(3), tmp_path / "run.db")

    assert not plan.store.exists
    assert list(tmp_path.iterdir()) == []


async def test_only_what_is_missing_is_planned(sim, tmp_path):
    """R11: what the store has an answer to is not planned again, and the store stays as it is."""
    store = tmp_path / "run.db"
    async with runner_on(sim, store) as runner:
        await runner.run(items(4))
    before = found(tmp_path)
    plan = await plan_of(sim, items(6), store)

    assert (plan.items.answered, plan.items.new, plan.items.to_send) == (4, 2, 2)
    assert (plan.store.exists, plan.store.items) == (True, 4)
    assert [shard.count for shard in plan.shards] == [2]
    assert sum(model.items for model in plan.models) == 2
    assert found(tmp_path) == before
    async with runner_on(sim, store) as runner:
        await runner.run(items(6))
    assert [len(create.custom_ids) for create in sim.creates] == [4, 2]


async def test_what_is_in_a_batch_is_not_planned(tmp_path):
    """An interrupted run's batches go on: their items are in flight, the others are sent."""
    store = tmp_path / "run.db"
    async with simulate(settings=WorldSettings(never_ends=True)) as sim:
        heard = Heard()
        async with runner_on(sim, store, on_event=heard) as runner:
            await run_interrupted(runner, items(3), heard)
        plan = await plan_of(sim, items(5), store)

    assert (plan.items.in_flight, plan.items.new, plan.items.to_send) == (3, 2, 2)
    assert plan.store.live == 1
    # At worst what is new is sent when the live one has made room.
    assert 86_400 < plan.finish.batch.high < 2.1 * 86_400


async def test_waiting_items_go_along(tmp_path):
    """What waits in the store is sent too, whether it was passed now or not."""
    store = tmp_path / "run.db"
    async with simulate(settings=WorldSettings(keys={"right": "w"})) as sim:
        async with runner_on(sim, store, api_key="wrong") as runner:
            assert (await runner.run(items(5))).stopped
        client = anthropic.AsyncAnthropic(base_url=sim.url, api_key="right")
        async with client:
            runner = BatchRunner(client=client, store=store, polling=FAST)
            plan = await runner.plan(items(3) + items(1, "more"))
            await runner.run(items(3) + items(1, "more"))

    assert (plan.items.waiting, plan.items.new, plan.items.others) == (3, 1, 2)
    assert plan.items.to_send == sum(shard.count for shard in plan.shards) == 6
    assert "others" in kinds(plan.remarks)
    (create,) = sim.creates
    assert (plan.shards[0].count, plan.shards[0].size) == (6, create.body_size)


async def test_changed_questions(sim, tmp_path):
    """A known id with another question stops the run, or is sent, or keeps the stored one."""
    store = tmp_path / "run.db"
    async with runner_on(sim, store) as runner:
        await runner.run(items(3))
    changed = [*items(2), ("doc-2", params("another question"))]
    stops = await plan_of(sim, changed, store)
    rerun = await plan_of(sim, changed, store, on_changed="rerun")
    keep = await plan_of(sim, changed, store, on_changed="keep")

    assert kinds(stops.stops) == {"changed"}
    assert (stops.items.changed, stops.items.to_send) == (1, 0)
    assert (rerun.items.changed, rerun.items.to_send, rerun.stops) == (1, 1, [])
    assert (keep.items.changed, keep.items.answered, keep.items.to_send) == (0, 3, 0)


async def test_items_refused_before_are_judged_anew(sim, tmp_path):
    """What intake refused once is planned again when it was mended, and refused when not."""
    store = tmp_path / "run.db"
    bad = [*items(3), ("bad", {"model": "m"}), ("mended", {"model": "m"})]
    async with runner_on(sim, store) as runner:
        await runner.run(bad)
    plan = await plan_of(sim, [*bad[:-1], ("mended", params("?"))], store)

    assert (plan.items.answered, plan.items.refused, plan.items.new) == (3, 1, 1)
    assert plan.stops == []


async def test_rejected_and_held_items_are_told(sim, tmp_path):
    """What was rejected is not planned again, and what waits for a person's word neither."""
    store = tmp_path / "run.db"
    async with runner_on(sim, store, validate=lambda outcome: outcome.id != "doc-1") as runner:
        await runner.run(items(2))
    async with simulate(settings=WorldSettings(never_ends=True)) as slow:
        heard = Heard()
        async with runner_on(slow, tmp_path / "held.db", on_event=heard) as runner:
            await run_interrupted(runner, items(2), heard)
            await runner.cancel()
        held = await plan_of(slow, items(2), tmp_path / "held.db")
    plan = await plan_of(sim, items(2), store)

    assert (plan.items.answered, plan.items.settled, plan.items.to_send) == (1, 1, 0)
    assert held.items.held + held.items.answered == 2
    assert held.items.to_send == 0


async def test_an_entered_runner_reads_its_own_store(sim):
    """Inside `async with` the plan uses the store that is open, a memory store too."""
    async with runner_on(sim) as runner:
        await runner.run(items(3))
        plan = await runner.plan(items(4))
        again = await runner.run(items(4))

    assert (plan.items.answered, plan.items.new) == (3, 1)
    assert again.complete


async def test_another_job_in_the_same_store(sim, tmp_path):
    """A run that holds other items stops; under a name of its own the job is planned."""
    store = tmp_path / "run.db"
    async with runner_on(sim, store) as runner:
        await runner.run(items(3))
    other = await plan_of(sim, items(3, "other"), store)
    named = await plan_of(sim, items(3, "other"), store, run_id="second")

    assert kinds(other.stops) == {"other_run"}
    assert named.stops == []
    assert named.store.runs == 1


async def test_a_run_at_work_is_told(tmp_path):
    """That another process works on the run now is told, and the plan is made all the same."""
    store = tmp_path / "run.db"
    async with simulate(settings=WorldSettings(never_ends=True)) as sim:
        heard = Heard()
        async with runner_on(sim, store, on_event=heard) as runner:
            task = asyncio.create_task(runner.run(items(3)))
            await heard.until(IntakeProgressed)
            while (await runner.status()).owner is None:
                await asyncio.sleep(0)
            plan = await plan_of(sim, items(3), store)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task

    assert str(os.getpid()) in (plan.store.owner or "")
    assert "owned" in kinds(plan.remarks)


async def test_earlier_runs_answer(sim, tmp_path):
    """With `cache=True` what an earlier run answered under the same id is not planned."""
    store = tmp_path / "run.db"
    async with runner_on(sim, store) as runner:
        await runner.run(items(3), run_id="first")
    asked = [*items(3), *items(1, "new")]
    plan = await plan_of(sim, asked, store, run_id="second", cache=True)
    plain = await plan_of(sim, asked, store, run_id="second")

    assert (plan.items.cached, plan.items.new, plan.items.to_send) == (3, 1, 1)
    assert (plain.items.cached, plain.items.to_send) == (0, 4)
    assert "cache_of_runs" in kinds(plan.remarks)


async def test_a_database_is_not_prepared(sim, postgres, postgres_url):
    """A PostgreSQL store is only read too: planning makes no tables, and finds what a run left."""
    before = tables(postgres)
    first = await plan_of(sim, items(3), postgres_url)
    untouched = tables(postgres)
    async with runner_on(sim, postgres_url) as runner:
        await runner.run(items(3))
    then = await plan_of(sim, items(4), postgres_url)

    assert untouched == before
    assert (first.store.exists, first.items.new) == (False, 3)
    assert (then.store.exists, then.items.answered, then.items.new) == (True, 3, 1)


def tables(postgres):
    """Return the tables of the whole database."""
    with postgres.connect() as conn:
        return conn.execute("SELECT schemaname, tablename FROM pg_tables ORDER BY 1, 2").fetchall()


# -- what is wrong ----------------------------------------------------------------------------

MANY_BAD = [(f"x{i}", params("q", temperature=0.5)) for i in range(12)]


@pytest.mark.parametrize(
    ("asked", "kind"),
    [
        ([*items(2), ("doc-0", params("again"))], "duplicate"),
        ([*items(2), {"params": params("no id")}], "unusable"),
        ([*items(2), (7, params("a number"))], "unusable"),
        ([*items(2), *MANY_BAD], "mass_refusal"),
    ],
)
async def test_what_stops_a_run_stops_the_plan(sim, asked, kind):
    """R10, R29: the plan names what the run would raise, in the same words, and plans the rest."""
    plan = await plan_of(sim, asked)
    async with runner_on(sim) as runner:
        with pytest.raises(BatchwrightError) as raised:
            await runner.run(asked)

    assert [stop.kind for stop in plan.stops] == [kind]
    assert plan.stops[0].message == str(raised.value)
    assert plan.items.to_send == 2
    assert not plan.sound
    assert sim.creates == []


async def test_refusals_name_item_place_and_remedy(sim):
    """Each refused item is listed with its position, and each reason is counted once."""
    asked = [*items(2), ("a", {"model": "m"}), *items(1, "more"), ("b", params("q", max_tokens=0))]
    plan = await plan_of(sim, asked)

    assert [(t.id, t.position, t.line) for t in plan.troubles] == [("a", 2, None), ("b", 4, None)]
    assert "params.messages is missing" in plan.troubles[0].message
    assert [(r.count, r.example) for r in plan.refusals] == [(1, "a"), (1, "b")]
    assert plan.items.refused == 2
    assert plan.stops == []
    assert not plan.sound


async def test_many_troubles_are_counted_and_some_listed(sim):
    """A file in which everything is wrong does not make a plan as large as itself."""
    asked = [(f"x{i}", {"model": "m"}) for i in range(1_500)] + items(1_500)
    plan = await plan_of(sim, [*asked, *items(1_200)], offline=True)

    assert (plan.items.refused, plan.items.duplicates) == (1_500, 1_200)
    assert (len(plan.troubles), len(plan.duplicates)) == (1_000, 1_000)
    assert plan.duplicates[0].position == 3_000
    assert plan.duplicates[0].first_position == 1_500


async def test_every_item_has_one_place_in_the_plan(sim, tmp_path):
    """The parts of the plan add up to what was passed."""
    store = tmp_path / "run.db"
    async with runner_on(sim, store) as runner:
        await runner.run(items(4))
    asked = [*items(6), ("doc-0", params("?")), ("bad", {}), {"id": "none"}, ("doc-9", params("!"))]
    plan = await plan_of(sim, asked, store)
    parts = plan.items.model_dump()
    for name in ("passed", "others", "to_send", "bound_to_fail"):
        del parts[name]

    assert sum(parts.values()) == plan.items.passed == 10


@pytest.mark.parametrize("asked", [5, "abc", {"doc-1": {}}, [{"params": {}}, "no item"]])
async def test_hopeless_input_is_refused(sim, asked):
    """R29: what cannot be items at all is refused with the reason."""
    with pytest.raises(IntakeError):
        await plan_of(sim, asked)


async def test_endless_rubbish_is_not_read_to_its_end(sim):
    """After a hundred entries of which none is an item the rest is not read."""
    read = 0

    def rubbish():
        nonlocal read
        while True:
            read += 1
            yield {"params": {}}

    with pytest.raises(IntakeError, match='neither "custom_id" nor "id"'):
        await plan_of(sim, rubbish())

    assert read == 100


async def test_ids_that_count_are_remarked(sim):
    """R9: ids that look like positions are a remark and no refusal."""
    plan = await plan_of(sim, [(str(n), params(f"q{n}")) for n in range(5)])

    assert plan.ids_look_like_positions
    assert "ids_like_positions" in kinds(plan.remarks)
    assert plan.sound


@pytest.mark.parametrize(
    ("declared", "rule"),
    [
        ("user_waiting", "workload-policy/nobody-waiting"),
        ("streaming", "workload-policy/no-streaming"),
        ("ids_from_position", "custom-id-policy/never-from-positions"),
    ],
)
async def test_work_that_is_not_for_batches(sim, declared, rule):
    """R29: work that cannot wait, must stream, or has no ids is refused and names the rule."""
    client, runner = planner(sim)
    async with client:
        with pytest.raises(ConfigurationError, match=rule):
            await runner.plan(items(1), **{declared: True})

    assert sim.requests == []


async def test_a_bad_run_id(sim):
    """The name of a run is checked as for a run."""
    with pytest.raises(ConfigurationError, match="run_id"):
        await plan_of(sim, items(1), run_id="")


# -- models -----------------------------------------------------------------------------------


async def test_models_are_looked_up(sim):
    """An unknown model, a deprecated one and too high a max_tokens are told beforehand."""
    asked = [
        ("a", params("q", model="claude-nope-1")),
        ("b", params("q", model="claude-opus-4-5")),
        ("c", params("q", max_tokens=100_000)),
        ("d", params("q")),
    ]
    plan = await plan_of(sim, asked)
    standing = {row.model: row.standing for row in plan.models}

    assert standing["claude-nope-1"] == "unknown"
    assert standing["claude-opus-4-5"] == "deprecated"
    assert standing["claude-haiku-4-5"] == "active"
    assert {"unknown_model", "deprecated_model", "max_tokens"} <= kinds(plan.remarks)
    assert plan.items.bound_to_fail == 2
    assert any("2027-01-22" in remark.message for remark in plan.remarks)
    assert not plan.sound


async def test_the_sdk_knows_deprecated_models_too(sim):
    """Without asking, the table of the installed SDK tells of models that end."""
    plan = await plan_of(sim, [("a", params("q", model="claude-opus-4-5"))], offline=True)

    (row,) = plan.models
    assert (row.standing, row.source) == ("deprecated", "the installed SDK")
    assert "2027" in (row.retires or "")
    assert plan.sound


@pytest.mark.parametrize(
    ("news", "kind"),
    [
        ({"lifecycle": "retired"}, "retired_model"),
        ({"capabilities": {"batch": {"supported": False}}}, "no_batches"),
    ],
)
async def test_models_that_cannot_be_used(sim, news, kind):
    """A retired model, and one without batches, would fail every item."""
    sim.on("models", Respond(200, {"type": "model", "id": "m", **news}))
    plan = await plan_of(sim, items(3))

    assert kind in kinds(plan.remarks)
    assert plan.items.bound_to_fail == 3


async def test_what_a_model_says_in_strange_shapes(sim):
    """Fields that are missing or of another kind are as good as unknown."""
    sim.on("models", Respond(200, {"max_tokens": "many", "capabilities": None, "lifecycle": 5}))
    plan = await plan_of(sim, items(3))

    assert plan.models[0].standing == "active"
    assert plan.sound


# -- the estimate -----------------------------------------------------------------------------


async def test_tokens_are_counted_by_the_api(sim):
    """A few dozen requests are counted, spread over the shapes; their bodies are trimmed for it."""
    asked = [*items(300), *[(f"t-{i}", params("q", tools=[TOOL])) for i in range(3)]]
    plan = await plan_of(sim, asked)
    calls = sim.calls("count_tokens")
    assert {call.status for call in calls} == {200}
    assert plan.tokens.counted == len(calls) == 35
    assert "counted by the API" in plan.tokens.input.source
    assert "rough" not in kinds(plan.remarks)
    assert {record.route for record in sim.requests} == FREE


TOOL = {"name": "t", "input_schema": {"type": "object"}}


async def test_the_estimate_holds_the_bill(sim):
    """What the run then costs lies inside the range, by tokens and by money."""
    asked = items(200)
    async with runner_on(sim, canary=0) as runner:
        plan = await runner.plan(asked)
        report = (await runner.run(asked)).report

    (spent,) = report.tokens
    assert plan.tokens.input.low <= spent.input <= plan.tokens.input.high
    assert plan.tokens.output.low <= spent.output <= plan.tokens.output.high
    assert plan.cost.batch.low <= spent.usd <= plan.cost.batch.high
    assert plan.cost.sync.high == pytest.approx(2 * plan.cost.batch.high)


async def test_earlier_answers_make_a_best_guess(sim, tmp_path):
    """Answers in the store tell how long the next ones will be, and how long batches take."""
    store = tmp_path / "run.db"
    async with runner_on(sim, store, limits=ShardLimits(max_requests=5), canary=0) as runner:
        await runner.run(items(60))
    plan = await plan_of(sim, items(60) + items(40, "more"), store)

    assert plan.tokens.output.source == "answers in the store"
    assert plan.cost.batch.low < plan.cost.batch.likely < plan.cost.batch.high
    assert "earlier batches" in plan.finish.batch.source
    assert plan.finish.batch.likely is not None


async def test_an_unknown_price(sim):
    """C36: a model without a price makes the cost unknown, and its tokens are still told."""
    sim.world.configure(models=frozenset({"claude-stranger-9"}))
    plan = await plan_of(sim, [*items(1), ("x", params("q", model="claude-stranger-9"))])

    assert plan.cost.unknown_models == ["claude-stranger-9"]
    assert plan.cost.batch.low is plan.cost.sync.high is None
    assert "unknown" in plan.cost.batch.source
    assert plan.tokens.input.likely > 0
    assert "unknown_price" in kinds(plan.remarks)


async def test_without_a_key(tmp_path):
    """Without a key the plan is made all the same, and says that it is rough."""
    plan = await BatchRunner(store=tmp_path / "run.db").plan(items(3))

    (rough,) = [remark for remark in plan.remarks if remark.kind == "rough"]
    assert "no key" in rough.message
    assert plan.tokens.counted == 0
    assert plan.cost.batch.high > 0
    assert plan.sound


async def test_offline_asks_nothing(sim):
    """`offline=True` makes no call at all."""
    plan = await plan_of(sim, items(3), offline=True)

    assert sim.requests == []
    assert any("offline" in r.message for r in plan.remarks if r.kind == "rough")


@pytest.mark.parametrize("fault", [Error(500), Error(529), Error(400), Drop()])
async def test_faults_of_the_free_calls(sim, fault):
    """C29: where nothing can be counted the estimate falls back on bytes, and says why."""
    sim.on("count_tokens", fault)
    plan = await plan_of(sim, items(50))

    (rough,) = [remark for remark in plan.remarks if remark.kind == "rough"]
    assert "no tokens could be counted" in rough.message
    # It is not asked for all of them where none comes back.
    assert len(sim.calls("count_tokens")) < 30
    assert "bytes" in plan.tokens.input.source
    assert plan.sound


async def test_a_server_that_hangs(sim, monkeypatch):
    """All free questions together have a bound; what was not answered by then is not counted."""
    monkeypatch.setattr(inquiry, "PATIENCE", 0.3)
    sim.on("count_tokens", Hang())
    plan = await plan_of(sim, items(50))

    assert plan.tokens.counted == 0
    assert "rough" in kinds(plan.remarks)


async def test_a_fault_in_between(sim):
    """One refused count is passed over; the others count."""
    sim.on("count_tokens", [Error(400), None, Error(529), None])
    plan = await plan_of(sim, items(10))

    assert plan.tokens.counted == 9
    assert "rough" not in kinds(plan.remarks)


async def test_a_key_that_is_refused():
    """A wrong key stops the run, and the plan says so before the items are sent."""
    async with simulate(settings=WorldSettings(keys={"right": "w"})) as sim:
        plan = await plan_of(sim, items(3))
        url = sim.url

    assert kinds(plan.stops) == {"account"}
    assert url in plan.stops[0].message
    assert "rough" in kinds(plan.remarks)


async def test_one_of_two_orgs_is_refused():
    """An account of several that is not let in is remarked: the run would go on with the other."""
    async with simulate(settings=WorldSettings(keys={"right": "w"})) as sim:
        async with (
            anthropic.AsyncAnthropic(base_url=sim.url, api_key="right") as right,
            anthropic.AsyncAnthropic(base_url=sim.url, api_key="wrong") as wrong,
        ):
            orgs = [Org("good", right), Org("bad", wrong)]
            plan = await BatchRunner(orgs=orgs, store="memory://").plan(items(3))

    assert plan.stops == []
    (account,) = [remark for remark in plan.remarks if remark.kind == "account"]
    assert "org bad" in account.message
    assert [talk.org for talk in plan.talking_to] == ["good", "bad"]


async def test_nobody_answers():
    """A host that cannot be reached makes the plan rough, and costs no long wait."""
    async with anthropic.AsyncAnthropic(base_url="http://127.0.0.1:1", api_key="k") as client:
        plan = await BatchRunner(client=client, store="memory://").plan(items(3))

    assert plan.stops == []
    assert "rough" in kinds(plan.remarks)


# -- the paths --------------------------------------------------------------------------------


async def test_the_route_is_the_policys(sim):
    """R24: the plan says with which path the policy begins, and why."""
    cost = await plan_of(sim, items(3))
    sync = await plan_of(sim, items(3), policy="sync")
    latency = await plan_of(sim, items(3), policy="latency")

    assert (cost.route.path, sync.route.path, latency.route.path) == ("batch", "sync", "sync")
    assert "small wave" in latency.route.reason


async def test_a_policy_that_breaks(sim):
    """A policy of one's own that raises is told, and the plan goes on with batches."""

    class Broken:
        def decide(self, snapshot: WaveSnapshot):
            raise RuntimeError("oh")

    plan = await plan_of(sim, items(3), policy=Broken())

    assert plan.route.path == "batch"
    assert "RuntimeError('oh')" in plan.route.reason


async def test_times_follow_the_limits(sim):
    """R18: queue and rate limits that were set decide how long it takes."""
    client = anthropic.AsyncAnthropic(**sim.client_options())
    async with client:
        orgs = [Org("a", client, max_queued=50)]
        queue = await BatchRunner(orgs=orgs, store="memory://").plan(items(200), offline=True)
        slow = await plan_of(sim, items(200), sync=SyncLimits(rpm=10), offline=True)

    assert [shard.count for shard in queue.shards] == [50] * 4
    assert queue.finish.batch.high == 4 * 86_400
    assert "4 rounds" in queue.finish.batch.source
    assert slow.finish.sync.low >= 200 * 6


async def test_large_requests_only_go_in_batches(sim):
    """What is too large for a direct call is told."""
    plan = await plan_of(sim, items(3), sync=SyncLimits(max_bytes=50), offline=True)

    assert "too_large_for_direct_calls" in kinds(plan.remarks)


async def test_the_canary_is_planned(sim):
    """The items that would go ahead by direct call are counted, by shape."""
    asked = [*items(30), *[(f"t-{i}", params("q", tools=[TOOL])) for i in range(30)]]
    plan = await plan_of(sim, asked, canary=50, offline=True)
    none = await plan_of(sim, asked, offline=True)

    assert (plan.canary, none.canary) == (2, 0)
    assert "canary" in kinds(plan.remarks)
