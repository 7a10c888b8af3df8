"""Calls of the SDK's client come back through batches."""

from __future__ import annotations

import asyncio
import logging

import anthropic
import pytest
from anthropic.types import Message
from anthropic.types.beta import BetaMessage
from pydantic import BaseModel
from tests.drop_in.support import (
    Hold,
    ask,
    ask_all,
    batch_sizes,
    client_on,
    next_process,
    questions,
)
from tests.support import FAST, params, runner_on, sent

import batchwright
from batchwright import AsyncAnthropic, BatchRunner, ConfigurationError, Gathering
from batchwright.simulator import WorldSettings, expected_text
from batchwright.stores import MemoryStore
from batchwright.testing import simulate

BETA = "context-1m-2025-08-07"


def texts_of(messages) -> list[str]:
    return [message.content[0].text for message in messages]


async def test_calls_come_back_through_one_batch(sim):
    """R34: eval code asks in hundreds of tasks, and gets the SDK's messages, each its own."""
    async with client_on(sim) as client:
        answers = await ask_all(client, questions(300))
    assert {type(answer) for answer in answers} == {Message}
    assert texts_of(answers) == [expected_text(params(text), 0) for text in questions(300)]
    assert batch_sizes(sim) == [300]
    assert sim.messages == []


async def test_five_samples_stay_five(sim):
    """The same question asked five times is five questions, each asked once."""
    async with client_on(sim) as client:
        answers = await ask_all(client, ["how are you?"] * 5)
    assert len({answer.id for answer in answers}) == 5
    assert batch_sizes(sim) == [5]
    assert set(sent(sim).values()) == {1}


async def test_the_next_process_is_answered_from_the_store(sim, tmp_path):
    """A rerun gets the same answers, each question its own ones, and sends nothing."""
    asked = [*questions(10), *["how are you?"] * 3]
    async with client_on(sim, tmp_path / "calls.db") as client:
        first = await ask_all(client, asked)
    requests = len(sim.requests)
    next_process()
    async with client_on(sim, tmp_path / "calls.db") as client:
        second = await ask_all(client, asked)
        assert len(sim.requests) == requests
        more = await ask_all(client, ["how are you?"] * 2)
    again, before = ([answer.id for answer in answers] for answers in (second, first))
    assert again[:10] == before[:10]
    # Calls of one question that are made at once arrive in an order that is the SDK's.
    assert sorted(again[10:]) == sorted(before[10:])
    assert not {answer.id for answer in more} & {answer.id for answer in first}
    assert batch_sizes(sim) == [13, 2]


async def test_the_same_process_asks_for_another_sample(sim, tmp_path):
    """Within a process the same call is counted on, over all clients and event loops."""
    async with client_on(sim, tmp_path / "calls.db") as client:
        one = await ask(client, "how are you?")
    async with client_on(sim, tmp_path / "calls.db") as client:
        two = await ask(client, "how are you?")
    assert one.id != two.id
    assert batch_sizes(sim) == [1, 1]


async def test_calls_join_while_batches_are_out(sim):
    """Calls that come while an earlier batch runs are sent and answered without waiting for it."""
    hold = Hold(sim, 1)
    async with client_on(sim) as client:
        slow = asyncio.create_task(ask_all(client, ["slow 1", "slow 2"]))
        while not batch_sizes(sim):
            await asyncio.sleep(0.001)
        quick = await ask_all(client, questions(5))
        assert len(quick) == 5
        assert not slow.done()
        hold.let_go()
        assert len(await slow) == 2
    assert batch_sizes(sim) == [2, 5]


async def test_turns_of_many_agents(sim):
    """Agents that await one call after the other end, each turn of all of them in few batches."""

    async def agent(client, number: int) -> list[str]:
        said = f"agent {number}"
        heard = []
        for _ in range(4):
            said = (await ask(client, said)).content[0].text
            heard.append(said)
        return heard

    async with client_on(sim) as client:
        told = await asyncio.gather(*(agent(client, number) for number in range(20)))
    assert len({tuple(heard) for heard in told}) == 20
    assert sum(batch_sizes(sim)) == 80
    assert len(batch_sizes(sim)) < 40


async def test_a_full_group_leaves_at_once(sim):
    """So many calls as make a group do not wait for the others."""
    async with client_on(sim, gathering=Gathering(size=4, quiet=3_000.0)) as client:
        calls = asyncio.create_task(ask_all(client, questions(9)))
        while sum(batch_sizes(sim)) < 8:
            await asyncio.sleep(0.001)
        assert not calls.done()
        # Closing lets the ninth go, which would have waited for an hour.
        await client.close()
        assert len(await calls) == 9
    assert sum(batch_sizes(sim)) == 9


async def test_clients_of_one_process_work_together(sim, tmp_path):
    """Code that makes a client in every task has one run, and its samples stay apart."""

    async def task(number: int) -> Message:
        async with client_on(sim, tmp_path / "calls.db") as client:
            return await ask(client, "how are you?" if number < 5 else f"question {number}")

    answers = await asyncio.gather(*(task(number) for number in range(20)))
    assert len({answer.id for answer in answers}) == 20
    assert batch_sizes(sim) == [20]


def test_event_loops_one_after_the_other(tmp_path):
    """A client that outlives its event loop works under the next one."""
    with batchwright.simulator.Simulator(speed=12_000.0) as sim:
        slow = Gathering(quiet=0.3)
        client = AsyncAnthropic(
            store=tmp_path / "calls.db", gathering=slow, polling=FAST, **sim.client_options()
        )

        async def leave_one_behind() -> None:
            call = asyncio.create_task(ask(client, "left behind"))
            while not client._caller.calls:
                await asyncio.sleep(0)
            call.cancel()

        async def once() -> Message:
            return await ask(client, "how are you?")

        asyncio.run(leave_one_behind())
        answers = [asyncio.run(once()) for _ in range(2)]
        assert answers[0].id != answers[1].id
        assert batch_sizes(sim) == [1, 1]


# -- what the SDK offers --------------------------------------------------------------------------


class Verdict(BaseModel):
    score: int


async def test_the_sdks_own_forms():
    """Betas, parsed messages and raw responses work as they do without batches."""
    settings = WorldSettings(answer=lambda asked: '{"score": 4}', keep_bodies=True)
    async with simulate(settings=settings) as sim, client_on(sim) as client:
        beta, parsed, raw = await asyncio.gather(
            client.beta.messages.create(**params("beta"), betas=[BETA]),
            client.messages.parse(**params("parsed"), output_format=Verdict),
            client.messages.with_raw_response.create(
                **params("raw"), extra_body={"service_tier": "auto"}
            ),
        )
        assert type(beta) is BetaMessage
        assert parsed.parsed_output == Verdict(score=4)
        assert raw.headers["batchwright-via"] == "batch"
        assert (await raw.parse()).content[0].text == '{"score": 4}'
        assert sorted(batch_sizes(sim)) == [1, 2]
        (with_beta,) = [c for c in sim.creates if "anthropic-beta" in c.headers]
        assert with_beta.headers["anthropic-beta"] == BETA
        tiers = [asked.get("service_tier") for create in sim.creates for asked in create.params]
        assert sorted(map(str, tiers)) == ["None", "None", "auto"]


async def test_everything_else_goes_to_the_api(sim):
    """Models, token counts and batches of one's own are the SDK's, and so are the attributes."""
    async with client_on(sim) as client:
        assert isinstance(client, anthropic.AsyncAnthropic)
        assert isinstance(client, AsyncAnthropic)
        assert (client.api_key, str(client.base_url)) == (sim.api_key, sim.url)
        tokens = await client.messages.count_tokens(
            model="claude-haiku-4-5", messages=[{"role": "user", "content": "hi"}]
        )
        assert tokens.input_tokens > 0
        assert (await client.models.list()).data
        assert [batch async for batch in client.messages.batches.list()] == []
        assert "with_options" in dir(client)
        with pytest.raises(AttributeError):
            client.api_key = "another"


async def test_large_answers_need_no_streaming(sim):
    """The SDK's demand for streaming has no place where nothing waits for a connection."""
    async with client_on(sim) as client:
        answer = await ask(client, "long", max_tokens=60_000)
    assert answer.type == "message"


@pytest.mark.parametrize("way", ["stream", "create", "streaming"])
async def test_streaming_is_refused(sim, way):
    """R29: what somebody waits for is refused with the reason and the way out, not degraded."""
    async with client_on(sim) as client:
        with pytest.raises(ConfigurationError, match=r"client\.direct"):
            if way == "stream":
                async with client.messages.stream(**params("hi")):
                    pass
            elif way == "create":
                await client.messages.create(**params("hi"), stream=True)
            else:
                async with client.messages.with_streaming_response.create(**params("hi")):
                    pass
        async with client.direct.messages.stream(**params("hi")) as stream:
            assert (await stream.get_final_message()).type == "message"
    assert (len(sim.creates), len(sim.messages)) == (0, 1)


async def test_calls_one_after_the_other_are_warned_of(sim, caplog):
    """R30: a loop that awaits each call is told how slow it is, once."""
    async with client_on(sim) as client:
        with caplog.at_level(logging.WARNING, "batchwright"):
            for text in questions(5):
                await ask(client, text)
    warnings = [r.message for r in caplog.records if "one at a time" in r.message]
    assert len(warnings) == 1
    assert batch_sizes(sim) == [1] * 5


async def test_copies_gather_with_their_client(sim):
    """`with_options` keeps the calls together; betas of a copy travel with its calls."""
    async with client_on(sim) as client:
        plain, beta, own = await asyncio.gather(
            ask(client.with_options(timeout=3, max_retries=5), "plain"),
            ask(client.copy(default_headers={"anthropic-beta": BETA}), "beta"),
            ask(client, "own"),
        )
        assert len({plain.id, beta.id, own.id}) == 3
        with pytest.raises(ConfigurationError, match="run_id"):
            client.with_options(api_key="sk-other")
        with pytest.raises(ConfigurationError, match="default_headers"):
            client.with_options(default_headers={"x-other": "1"})
    assert sorted(batch_sizes(sim)) == [1, 2]
    assert {create.headers.get("anthropic-beta") for create in sim.creates} == {None, BETA}


async def test_a_beta_of_the_client_is_part_of_the_question(sim):
    """Default betas go with each call, so that the same call under others is another question."""
    store = MemoryStore()
    for betas in ({}, {"anthropic-beta": BETA}):
        next_process()
        async with client_on(sim, store, default_headers=betas) as client:
            await ask(client, "how are you?")
    assert batch_sizes(sim) == [1, 1]


async def test_connections_that_the_caller_brings(sim):
    """A transport of one's own carries the batches too, and is open until its client is closed."""
    requests = []

    async def note(request):
        requests.append(request.method)

    http = anthropic.DefaultAsyncHttpxClient(event_hooks={"request": [note]})
    async with client_on(sim, http_client=http) as client:
        await ask(client, "one")
        await ask(client, "two")
        assert not http.is_closed
    assert http.is_closed
    assert requests.count("POST") == 2


async def test_closing_one_client_leaves_the_others_their_work(sim, tmp_path):
    """The run goes on for whoever waits, with connections that no client takes along."""
    hold = Hold(sim, 1)
    async with client_on(sim, tmp_path / "calls.db") as first:
        slow = asyncio.create_task(ask(first, "slow"))
        while not batch_sizes(sim):
            await asyncio.sleep(0.001)
        async with client_on(sim, tmp_path / "calls.db") as second:
            assert (await ask(second, "quick")).type == "message"
        assert not slow.done()
        hold.let_go()
        assert (await slow).type == "message"


# -- options --------------------------------------------------------------------------------------


async def test_direct_calls_by_policy(sim):
    """The policy decides, as for a runner: here everything goes directly."""
    async with client_on(sim, policy="sync") as client:
        answers = await ask_all(client, questions(20))
    assert texts_of(answers) == [expected_text(params(text), 0) for text in questions(20)]
    assert (len(sim.creates), len(sim.messages)) == (0, 20)


async def test_answers_of_other_runs(sim):
    """With `cache` calls take what other runs were answered, also those that join later."""
    store = MemoryStore()
    async with runner_on(sim, store) as runner:
        # In the order in which the SDK writes them: other bytes are another question.
        asked = [(text, dict(sorted(params(text).items()))) for text in questions(4)]
        await runner.run(asked, run_id="other")
    hold = Hold(sim, 2)
    async with client_on(sim, store, cache=True) as client:
        slow = asyncio.create_task(ask_all(client, ["question 0", "new"]))
        while len(batch_sizes(sim)) < 2:
            await asyncio.sleep(0.001)
        assert len(await ask_all(client, questions(4)[1:])) == 3
        hold.let_go()
        await slow
    assert batch_sizes(sim) == [4, 1]


async def test_options_from_the_environment(sim, tmp_path, monkeypatch):
    """A script that must not change takes its options from the environment."""
    for name, value in {
        "STORE": str(tmp_path / "mine.db"),
        "RUN_ID": "mine",
        "GATHER_QUIET": "0.05",
        "POLL_INTERVAL": "0.02",
        "POLICY": "batch",
    }.items():
        monkeypatch.setenv(f"BATCHWRIGHT_{name}", value)
    async with AsyncAnthropic(**sim.client_options()) as client:
        await ask_all(client, questions(3))
    async with runner_on(sim, tmp_path / "mine.db") as runner:
        report = await runner.report("mine")
    assert (report.items, report.policy) == (3, "batch")
    monkeypatch.setenv("BATCHWRIGHT_POLL_INTERVAL", "often")
    with pytest.raises(ConfigurationError, match="BATCHWRIGHT_POLL_INTERVAL is 'often'"):
        AsyncAnthropic(**sim.client_options())


@pytest.mark.parametrize(
    ("wrong", "why"),
    [
        ({"policy": "cheap"}, "cheap"),
        ({"run_id": 7}, "run_id"),
        ({"store": "ftp://x"}, "ftp"),
    ],
)
async def test_wrong_options_are_named_at_once(sim, wrong, why):
    """A mistake shows when the client is made, and not when the first call fails."""
    with pytest.raises(ConfigurationError, match=why):
        async with client_on(sim, **wrong):
            pass


async def test_one_run_has_one_account_and_one_set_of_options(sim, tmp_path):
    """A second client that would use the run otherwise is refused when it is made."""
    async with client_on(sim, tmp_path / "calls.db"):
        for other in ({"api_key": "sk-other"}, {"policy": "sync"}, {"cache": True}):
            with pytest.raises(ConfigurationError, match="another client of this process"):
                async with client_on(sim, tmp_path / "calls.db", **other):
                    pass
        async with client_on(sim, tmp_path / "calls.db", run_id="other", policy="sync"):
            pass


async def test_a_runner_does_not_take_it(sim):
    """A runner whose calls came back to it would wait for itself."""
    async with client_on(sim) as client:
        runner = BatchRunner(client=client, store="memory://")
        with pytest.raises(ConfigurationError, match=r"client\.direct"):
            await runner.run([("a", params("hi"))])
        async with BatchRunner(client=client.direct, store="memory://") as runner:
            pass
