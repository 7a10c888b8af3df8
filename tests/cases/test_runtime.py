"""C36 to C42: what goes wrong in the process that carries a run."""

from __future__ import annotations

import asyncio
import json
import logging
import threading
import time

import anthropic
import orjson
import pytest
from tests.runs.test_resume import kill_child_at
from tests.support import (
    EAGER,
    FAST,
    Heard,
    assert_conserved,
    assert_own_answers,
    items,
    params,
    runner_on,
)

import batchwright
from batchwright import BatchRunner, ConfigurationError, IntakeError, RetryBudget, ShardLimits
from batchwright._gateway import SdkGateway
from batchwright._json import load_json
from batchwright.events import (
    CallRetried,
    CreateUnknown,
    ItemsMerged,
    PollFailed,
    RunStarted,
    ShardFailed,
    ShardSubmitted,
    ValidatorBroke,
)
from batchwright.simulator import (
    Call,
    CutBody,
    Error,
    Lines,
    Respond,
    Simulator,
    Slow,
    WorldSettings,
    cancel,
    errored,
    expire,
    succeed,
)
from batchwright.testing import simulate

TRIES = RetryBudget(max_attempts=2, backoff=0.01, max_backoff=0.02)


# -- C36: counting cost (batch part) -----------------------------------------------------------


def with_cache(lines: list[bytes]) -> list[bytes]:
    """Give every answer the same usage, cache tokens among it."""
    changed = []
    for line in lines:
        data = orjson.loads(line)
        if data["result"]["type"] == "succeeded":
            data["result"]["message"]["usage"] = {
                "input_tokens": 3,
                "output_tokens": 5,
                "cache_creation_input_tokens": 7,
                "cache_read_input_tokens": 11,
            }
        changed.append(orjson.dumps(data) + b"\n")
    return changed


async def test_c36_usage_is_counted_once_per_answer_whatever_is_read_again(tmp_path):
    """Killed while reading, read again twice: each answer once; lines without one cost nothing."""
    store = tmp_path / "run.db"
    with Simulator(speed=12_000) as sim:
        sim.on(lambda call: call.route == "results", lambda call: Lines(with_cache))
        slow = sim.on("results", Slow(0.01, size=10_000))
        sim.fate_for("doc-0", errored("invalid_request_error", "no"))
        sim.fate_for("doc-1", [expire(), succeed()])
        sim.fate_for("doc-2", [cancel(), succeed()])
        sim.off(slow)
        sim.on("results", Slow(0.01, size=10_000))
        await asyncio.to_thread(kill_child_at, sim, store, "ItemsMerged", count=900, shard=900)
        sim.off()
        sim.on("results", Lines(with_cache))
        async with runner_on(sim, store) as runner:
            first = await runner.run(items(900))
            again = await runner.run(items(900))

    assert first.counts["succeeded"] == 899
    for report in (first.report, again.report):
        (spent,) = report.tokens
        assert spent.via == "batch"
        assert spent.answers == 899
        assert spent.cache_read == 11 * 899
        assert spent.cache_write == 7 * 899
        assert spent.input == 3 * 899
        assert report.waste == []


async def test_c36_an_answer_without_usage_is_still_an_answer():
    """Absent, null or odd counts are zero, and cost no answer."""

    def strip(lines: list[bytes]) -> list[bytes]:
        changed = []
        for place, line in enumerate(lines):
            data = orjson.loads(line)
            data["result"]["message"]["usage"] = [None, {}, {"input_tokens": "7"}][place % 3]
            changed.append(orjson.dumps(data) + b"\n")
        return changed

    async with simulate() as sim, runner_on(sim) as runner:
        sim.on("results", Lines(strip))
        result = await runner.run(items(3))

        assert result.complete
        assert sum(spent.answers for spent in result.report.tokens) == 3


# -- C37: one shard's failure takes the others with it ------------------------------------------


async def test_c37_one_batch_that_cannot_be_read_is_not_the_others():
    """B fails first and for good: A and C are delivered, B is named, no task is left behind."""
    heard = Heard()
    limits = ShardLimits(max_requests=5)
    async with simulate() as sim, runner_on(sim, limits=limits, on_event=heard) as runner:
        sim.on(
            lambda call: call.route == "results" and call.batch_id == sim.creates[1].batch_id,
            CutBody(after_bytes=10),
        )
        result = await runner.run(items(15))

        assert result.counts["succeeded"] == 10
        assert {o.reason for o in result.unresolved} == {"unreadable"}
        assert {o.batch_id for o in result.unresolved} == {sim.creates[1].batch_id}
        assert_conserved(result, 15)


@pytest.mark.parametrize("leg", ["submit", "watch", "read"])
async def test_c37_a_bug_in_one_shard_stays_in_it(monkeypatch, leg):
    """Something unforeseen: told by name, its state kept, its siblings and the next call go on."""
    heard = Heard()
    method = {"submit": "_submit", "watch": "_watch", "read": "_read"}[leg]
    from batchwright._carry import Carrier

    sound = getattr(Carrier, method)
    broken = True

    async def bug(self, org, shard, **options):
        if broken and shard.number == 2:
            raise KeyError("a bug")
        return await sound(self, org, shard, **options)

    monkeypatch.setattr(Carrier, method, bug)
    limits = ShardLimits(max_requests=5)
    async with simulate() as sim, runner_on(sim, limits=limits, on_event=heard) as runner:
        result = await runner.run(items(15))
        assert result.counts["succeeded"] == 10
        assert [event.shard for event in heard.of(ShardFailed)] == [2]
        assert {o.reason for o in result.unresolved} == {"interrupted"}
        broken = False
        again = await runner.run(items(15))
        assert again.complete
        assert sim.world.books().billed_twice == {}


async def test_c37_a_callback_that_raises_on_one_item():
    """The answer is kept and says what broke; everything else goes on."""

    def check(outcome):
        if outcome.id == "doc-3":
            raise ZeroDivisionError("of the caller's")

    heard = Heard()
    async with simulate() as sim, runner_on(sim, validate=check, on_event=heard) as runner:
        result = await runner.run(items(10))

        (kept,) = result.unresolved
        assert (kept.id, kept.reason) == ("doc-3", "validator")
        assert kept.error.type == "ZeroDivisionError"
        assert kept.text
        assert len(heard.of(ValidatorBroke)) == 1
        assert result.counts["succeeded"] == 9


async def test_c37_a_listener_that_raises_stops_nothing(caplog):
    """Whoever looks on must not stop what it looks at."""

    def listen(event):
        raise RuntimeError("a bug in a progress bar")

    async with simulate() as sim, runner_on(sim, on_event=listen) as runner:
        result = await runner.run(items(10))

    assert result.complete
    assert "on_event raised" in caplog.text


# -- C38: 100,000 items ------------------------------------------------------------------------


async def test_c38_work_is_bounded_by_what_is_in_flight_and_not_by_the_job(tmp_path):
    """Few tasks, the source read once, the first result durable before the download is over."""
    most_tasks = 0
    taken = 0
    merged_while_open: list[bool] = []

    def source():
        nonlocal taken
        for one in items(6_000):
            taken += 1
            yield one

    def on_event(event):
        nonlocal most_tasks
        most_tasks = max(most_tasks, len(asyncio.all_tasks()))
        if isinstance(event, ItemsMerged):
            merged_while_open.append(any(not call.delivered for call in sim.calls("results")))

    with Simulator(speed=12_000) as sim:
        limits = ShardLimits(max_requests=2_000)
        async with runner_on(sim, tmp_path / "run.db", limits=limits, on_event=on_event) as runner:
            sim.on("results", Slow(0.001, size=20_000))
            result = await runner.run(source(), collect=False)

        assert result.complete
        assert taken == 6_000
        assert most_tasks < 100
        assert any(merged_while_open)
        assert sum([1 async for _ in result]) == 6_000


async def test_c38_a_slow_source_is_read_at_its_own_pace():
    """An asynchronous source is awaited, not drained into a list by a task of its own."""
    read = 0

    async def source():
        nonlocal read
        for one in items(30):
            await asyncio.sleep(0)
            read += 1
            yield one

    async with simulate() as sim, runner_on(sim) as runner:
        result = await runner.run(source())
        assert read == len(result) == 30


# -- C39: notebooks and reused loops -----------------------------------------------------------


async def test_c39_inside_a_running_loop_one_sentence_says_what_to_await():
    """No patching of asyncio, no hang, no unawaited coroutine."""
    with pytest.raises(ConfigurationError, match=r"await batchwright\.BatchRunner"):
        batchwright.run(items(1))


def test_c39_the_blocking_form_works_twice(tmp_path, monkeypatch):
    """Each call has a loop of its own, and a client of its own."""
    with Simulator(speed=12_000) as sim:
        monkeypatch.setenv("ANTHROPIC_BASE_URL", sim.url)
        monkeypatch.setenv("ANTHROPIC_API_KEY", sim.api_key)
        for run_id in ("first", "second"):
            result = batchwright.run(
                items(3), run_id=run_id, store=tmp_path / "run.db", polling=FAST, retry=EAGER
            )
            assert result.complete
    assert not [t for t in threading.enumerate() if "batchwright" in t.name]


@pytest.mark.parametrize("whose", ["the environment's client", "the caller's client"])
def test_c39_one_runner_under_several_loops(tmp_path, monkeypatch, whose):
    """What belongs to the first loop is not used under another: nothing is lost or doubtful."""
    heard = Heard()
    loops = [asyncio.new_event_loop() for _ in range(3)]
    with Simulator(speed=12_000) as sim:
        monkeypatch.setenv("ANTHROPIC_BASE_URL", sim.url)
        monkeypatch.setenv("ANTHROPIC_API_KEY", sim.api_key)
        client = anthropic.AsyncAnthropic() if whose == "the caller's client" else None
        runner = BatchRunner(
            client=client,
            store=tmp_path / "run.db",
            polling=FAST,
            retry=EAGER,
            preflight=False,
            on_event=heard,
        )
        for number, loop in enumerate(loops):
            result = loop.run_until_complete(runner.run(items(3), run_id=f"run-{number}"))
            assert result.complete
        assert len(sim.creates) == 3
        if client is not None:
            loops[0].run_until_complete(client.close())
    for loop in loops:
        loop.close()
    assert heard.of(CallRetried) == []
    assert heard.of(CreateUnknown) == []


def test_c39_an_http_client_of_the_caller_s_stays_with_its_loop(tmp_path):
    """What cannot be made anew is refused in one sentence, before any request."""

    async def work() -> None:
        await BatchRunner(client=client, store=tmp_path / "run.db", polling=FAST).run(items(1))

    with Simulator(speed=12_000) as sim:
        loop = asyncio.new_event_loop()
        http = anthropic.DefaultAsyncHttpxClient()
        client = anthropic.AsyncAnthropic(**sim.client_options(), http_client=http)
        loop.run_until_complete(work())
        with pytest.raises(ConfigurationError, match="another event loop"):
            asyncio.run(work())
        assert len(sim.creates) == 1
        loop.run_until_complete(client.close())
        loop.close()


# -- C40: secrets in logs and files ------------------------------------------------------------

KEY = "sk-test-SECRET-123-abcdefgh"
PROMPT = "the patient's name is Zbigniew"


def pieces(secret: str) -> set[str]:
    """Return every piece of 8 characters of the secret part."""
    part = secret.removeprefix("sk-test-")
    return {part[i : i + 8] for i in range(len(part) - 7)}


async def test_c40_a_key_occurs_nowhere(tmp_path, caplog):
    """Every kind of fault, at every level of detail: no log, file, report or text holds it."""
    caplog.set_level(logging.DEBUG)
    heard = Heard()
    echo = f"invalid x-api-key: {KEY} (Bearer {KEY})"
    spoiled = [
        Error(500, message=echo),
        Respond(502, f"<html>{KEY}</html>"),
        Respond(200, f"{KEY}"),
        CutBody(after_bytes=20, framing="close"),
        Error(404, message=echo),
        None,
    ]
    told: list[str] = []
    async with simulate() as sim:
        async with runner_on(
            sim, tmp_path / "run.db", api_key=KEY, on_event=heard, retry=TRIES
        ) as runner:
            told.append(repr(runner))
            sim.on("retrieve", spoiled)
            sim.on("results", [Error(500, message=echo), CutBody(after_lines=1), None])
            sim.fate_for("doc-1", errored("invalid_request_error", "no"))
            result = await runner.run([*items(3), ("nan", params(PROMPT, x=float("nan")))])
            told += [repr(result), result.report.model_dump_json(), result.summary()]
            result.to_jsonl(tmp_path / "out.jsonl")
            sim.on("*", Error(401, message=echo))
            stopped = await runner.run([*items(3), ("new", params("new"))])
            told += [str(stopped.stopped), repr(stopped.outcomes)]
    told += [repr(event) for event in heard]
    told.append(caplog.text)
    told += [p.read_bytes().decode("utf-8", "replace") for p in tmp_path.iterdir()]

    text = "\n".join(told)
    assert [piece for piece in pieces(KEY) if piece in text] == []


async def test_c40_a_password_in_the_base_url_is_not_told(caplog):
    """A gateway's address may carry one; what is told of it does not."""
    caplog.set_level(logging.DEBUG, logger="batchwright")
    heard = Heard()
    async with simulate() as sim:
        url = sim.url.replace("http://", "http://me:hunter2-hunter2@")
        async with anthropic.AsyncAnthropic(base_url=url, api_key=sim.api_key) as client:
            assert "hunter2" not in SdkGateway(client).base_url
            runner = BatchRunner(client=client, store="memory://", polling=FAST, on_event=heard)
            async with runner:
                result = await runner.run(items(2))
    # The SDK sends such credentials in place of the key, so the account is refused here.
    (started,) = heard.of(RunStarted)
    assert started.talking_to[0].base_url == sim_address(url)
    assert "hunter2" not in caplog.text + result.report.model_dump_json() + repr(list(heard))


def sim_address(url: str) -> str:
    """Return the address without its credentials."""
    return "http://" + url.rpartition("@")[2]


async def test_c40_prompts_do_not_reach_a_log_at_info(caplog):
    """Nor do answers; also not where something goes wrong with them."""
    caplog.set_level(logging.INFO, logger="batchwright")
    asked = [(f"doc-{i}", params(f"{PROMPT} {i}")) for i in range(4)]
    async with simulate() as sim, runner_on(sim, retry=TRIES) as runner:
        sim.on("retrieve", [Error(500), None])
        sim.on("results", [CutBody(after_lines=1), None])
        sim.fate_for("doc-1", errored("invalid_request_error", "no"))
        await runner.run([*asked, ("nan", params(PROMPT, x=float("nan")))])

    assert "RunStarted" in caplog.text
    assert "Zbigniew" not in caplog.text


# -- C41: retries multiplied by retries --------------------------------------------------------


@pytest.mark.parametrize("refusal", [Error(500), Error(429), Error(529)], ids=lambda e: e.status)
@pytest.mark.parametrize("route", ["retrieve", "results", "list", "cancel"])
async def test_c41_exactly_the_budget_of_tries_is_seen_by_the_server(route, refusal):
    """One layer of retries; its waits grow; the SDK's own never add to it."""
    heard = Heard()
    budget = RetryBudget(call_attempts=4, backoff=0.01, max_backoff=1.0)
    settings = WorldSettings(duration=(60, 60) if route == "results" else (4_000, 4_000))
    async with simulate(settings=settings) as sim:
        async with runner_on(sim, retry=budget, on_event=heard) as runner:
            rule = sim.on(route, refusal)
            task = asyncio.create_task(runner.run(items(3)))
            if route == "cancel":
                await heard.until(ShardSubmitted)
                task.cancel()
                await asyncio.wait([task])
                await runner.request_cancel()
                assert len(sim.calls("cancel")) == 4
            elif route == "retrieve":
                await heard.until(PollFailed)
                assert len(sim.calls("retrieve")) == 4
                sim.off(rule)
                assert (await task).complete
            elif route == "results":
                await task
                assert len(sim.calls("results")) == 4
            else:
                await task
                assert len(sim.calls("list")) == 4
            waits = [event.wait for event in heard.of(CallRetried)][:3]
            assert waits == sorted(waits)
            assert {c.headers.get("x-stainless-retry-count", "0") for c in sim.requests} == {"0"}


@pytest.mark.parametrize(
    ("refusal", "creates"),
    [(Error(429, retry_after=0.001), 4), (Error(529), 4), (Error(500), 1), (Error(503), 1)],
    ids=["429", "529", "500", "503"],
)
async def test_c41_a_create_is_repeated_only_after_a_definite_refusal(refusal, creates):
    """Refused: within the budget, then the state is saved and the reason told. Unknown: never."""
    budget = RetryBudget(call_attempts=4, backoff=0.01, max_backoff=0.05)
    async with simulate() as sim, runner_on(sim, retry=budget) as runner:
        at: list[float] = []

        def refuse(call: Call) -> Error:
            at.append(time.monotonic())
            return refusal

        rule = sim.on("create", refuse, times=creates)
        result = await runner.run(items(3))

        if creates == 1:
            # Looked up, found never to have been made, and only then sent.
            assert result.complete
            assert len(sim.calls("create")) == 2
        else:
            assert len(sim.calls("create")) == creates
            assert {o.reason for o in result.unresolved} == {"interrupted"}
            assert str(refusal.status) in result.stopped[0][1]
            sim.off(rule)
            assert (await runner.resume()).complete


# -- C42: invalid Unicode from the caller ------------------------------------------------------


async def test_c42_half_characters_are_refused_by_name_and_whole_ones_travel():
    """In a text, nested, in a key; each with its place; the clean item goes out unchanged."""
    nested = [{"type": "tool_result", "tool_use_id": "t", "content": "cut \ud83d"}]
    asked = [
        ("text", params("cut \ud83d here")),
        ("nested", {**params("x"), "messages": [{"role": "user", "content": nested}]}),
        ("key", params("x", metadata={"\udc00": "v"})),
        ("clean", params("whole 🙂 \u0000 żółć")),
    ]
    settings = WorldSettings(keep_bodies=True)
    async with simulate(settings=settings) as sim, runner_on(sim) as runner:
        result = await runner.run(asked)

        assert [o.id for o in result.quarantined] == ["text", "nested", "key"]
        places = {o.id: o.error.message.split(" ")[0] for o in result.quarantined}
        assert places["text"] == "params.messages[0].content"
        assert places["nested"] == "params.messages[0].content[0].content"
        assert all("lone surrogate" in o.error.message for o in result.quarantined)
        (create,) = sim.creates
        assert create.params[0]["messages"][0]["content"] == "whole 🙂 \u0000 żółć"
        assert list(result.messages) == ["clean"]
        for bad in ("half \ud83d", "\udcff"):
            with pytest.raises(IntakeError, match="lone surrogate"):
                await runner.run([(bad, params("x"))])


@pytest.mark.parametrize("store", ["memory://", "file"])
async def test_c42_half_characters_in_an_answer_are_kept(tmp_path, store, caplog):
    """Escaped lone surrogates in texts, errors and unknown ids: stored, written, read back."""
    where = store if store != "file" else tmp_path / "run.db"
    half = "half \ud83d"

    def spoil(lines: list[bytes]) -> list[bytes]:
        changed = [b'{"custom_id":"zzz \\ud83d","result":{"type":"expired"}}\n']
        for line in lines:
            data = orjson.loads(line)
            if data["result"]["type"] == "succeeded":
                data["result"]["message"]["content"][0]["text"] = half
            else:
                data["result"]["error"]["error"]["message"] = half
            changed.append(json.dumps(data).encode() + b"\n")
        return changed

    async with simulate() as sim, runner_on(sim, where, on_event=(heard := Heard())) as runner:
        sim.fate_for("doc-1", errored("invalid_request_error", "no"))
        sim.on("results", Lines(spoil))
        result = await runner.run(items(2))
        again = await runner.run(items(2))
        result.to_jsonl(tmp_path / "out.jsonl")

    assert heard
    for one in (result, again):
        assert one["doc-0"].text == half
        assert one["doc-0"].message.content[0].text == half
        assert one["doc-1"].error.message == half
    lines = [load_json(line) for line in (tmp_path / "out.jsonl").read_bytes().splitlines()]
    assert lines[0]["result"]["message"]["content"][0]["text"] == half
    assert lines[1]["error"]["message"] == half
    for record in caplog.records:
        record.getMessage().encode()
    assert_own_answers(result, [])
