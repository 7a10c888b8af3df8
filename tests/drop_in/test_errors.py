"""What a call raises: the SDK's own errors, and what becomes of the question afterwards."""

from __future__ import annotations

import asyncio
import contextlib
import logging

import anthropic
import pytest
from tests.drop_in.support import (
    QUICK,
    Hold,
    ask,
    ask_all,
    batch_sizes,
    client_on,
    next_process,
    questions,
)
from tests.support import FAST, params, runner_on, sent

from batchwright import AsyncAnthropic, RetryBudget, RunLocked, StoreError
from batchwright._intercept import status_of
from batchwright.simulator import Error, Lines, Simulator, WorldSettings, errored, succeed
from batchwright.stores import MemoryStore
from batchwright.testing import simulate
from batchwright.testing.server import FAST as FAST_WORLD

ONCE = RetryBudget(max_attempts=1, call_attempts=2, backoff=0.01, max_backoff=0.02)


def fates(sim, *fates):
    """Lay down what becomes of every question that is asked, try by try."""
    sim.fate_for(lambda stem: True, list(fates))


@pytest.mark.parametrize(
    ("fate", "status", "kind"),
    [
        (errored("invalid_request_error", "bad"), 400, anthropic.BadRequestError),
        (errored("not_found_error", "model: x"), 404, anthropic.NotFoundError),
        (errored("request_too_large", "large"), 413, anthropic.APIStatusError),
        (errored("api_error", "oops"), 500, anthropic.InternalServerError),
        (errored("overloaded_error", "busy"), 529, anthropic.APIStatusError),
        (errored("rate_limit_error", "slow"), 429, anthropic.RateLimitError),
        (errored("timeout_error", "late"), 504, anthropic.APIStatusError),
        (errored("authentication_error", "key"), 401, anthropic.AuthenticationError),
        (errored("permission_error", "no"), 403, anthropic.PermissionDeniedError),
        (errored("billing_error", "money"), 402, anthropic.APIStatusError),
        (
            errored("invalid_request_error", "credit balance too low"),
            400,
            anthropic.BadRequestError,
        ),
    ],
    ids=lambda value: str(value) if isinstance(value, int) else "",
)
async def test_errors_are_the_sdks(sim, fate, status, kind):
    """An item's error is raised as the SDK raises it for a direct call, once, with its body."""
    fates(sim, fate)
    async with client_on(sim, retry=ONCE) as client:
        with pytest.raises(kind) as raised:
            await ask(client, "hi")
        sim.on("message", Error(status, type=fate.error_type, message=fate.message))
        with pytest.raises(kind) as directly:
            await ask(client.direct.with_options(max_retries=0), "hi")
    error = raised.value
    assert type(error) is type(directly.value)
    assert (error.status_code, error.body["error"]["type"]) == (status, fate.error_type)
    assert fate.message in error.body["error"]["message"]
    assert set(sent(sim).values()) == {1}


async def test_an_expired_call_is_a_timeout():
    """A batch that expires on every try ends as a 504, which says how often it was tried."""
    settings = WorldSettings(expire_rate=1.0)
    twice = RetryBudget(max_attempts=2, backoff=0.01, max_backoff=0.02)
    async with simulate(settings=settings) as sim, client_on(sim, retry=twice) as client:
        with pytest.raises(anthropic.APIStatusError, match="after 2 tries") as raised:
            await ask(client, "hi")
        assert raised.value.status_code == 504
        assert batch_sizes(sim) == [1, 1]


async def test_a_held_call_is_told_while_others_go_on(sim):
    """A batch that the server does not know is told with the remedy, before the others end."""
    hold = Hold(sim, 1)
    async with client_on(sim, retry=ONCE) as client:
        slow = asyncio.create_task(ask_all(client, ["slow", "slower"]))
        while not batch_sizes(sim):
            await asyncio.sleep(0.001)

        def is_second(call):
            made = [create.batch_id for create in sim.creates if create.registered]
            return call.route in {"retrieve", "results"} and call.batch_id in made[1:]

        lost = sim.on(is_second, Error(404, message="no such batch"))
        # The second time it is told at once, and not sent.
        for _ in range(2):
            with pytest.raises(anthropic.NotFoundError, match="resubmit not_found"):
                await ask(client, "lost")
        assert not slow.done()
        sim.off(lost)
        hold.let_go()
        await slow
        # The next wave looks once more, and the answer was there all the time.
        assert (await ask(client, "lost")).type == "message"
    assert batch_sizes(sim) == [2, 1]


async def test_an_invalid_request_is_told_at_once(sim):
    """What is known to be refused is not sent, and what was refused is not asked again."""
    async with client_on(sim) as client:
        with pytest.raises(anthropic.BadRequestError, match="max_tokens is 0"):
            await ask(client, "hi", max_tokens=0)
        with pytest.raises(anthropic.BadRequestError, match="x-mine"):
            await ask(client, "hi", extra_headers={"x-mine": "1"})
        assert sim.creates == []
        fates(sim, errored("invalid_request_error", "bad"))
        for _ in range(3):
            with pytest.raises(anthropic.BadRequestError, match="bad"):
                await ask(client, "hi")
    assert batch_sizes(sim) == [1]


async def test_a_failed_call_is_asked_anew(sim, tmp_path):
    """A retry is a retry and not another sample, in this process and in the next."""
    fates(sim, errored("api_error", "oops"), errored("api_error", "oops"), succeed())
    store = tmp_path / "calls.db"
    async with client_on(sim, store, retry=ONCE) as client:
        with pytest.raises(anthropic.InternalServerError):
            await ask(client, "hi")
        with pytest.raises(anthropic.InternalServerError):
            await ask(client, "hi")
    next_process()
    async with client_on(sim, store, retry=ONCE) as client:
        answer = await ask(client, "hi")
    next_process()
    async with client_on(sim, store, retry=ONCE) as client:
        assert (await ask(client, "hi")).id == answer.id
    async with runner_on(sim, store) as runner:
        report = await runner.report("calls")
    assert all(evidence.holds for evidence in report.evidence)
    assert batch_sizes(sim) == [1, 1, 1]
    assert len({create.custom_ids for create in sim.creates}) == 1


async def test_a_failed_call_is_told_while_others_go_on():
    """Neither its error nor its retry waits for the batches of others."""

    def fate(custom_id, asked):
        is_bad = "bad" in asked["messages"][0]["content"]
        return errored("api_error", "oops") if is_bad and custom_id not in tried else None

    tried = set()
    async with simulate(settings=WorldSettings(fate=fate)) as sim:
        hold = Hold(sim, 1)
        async with client_on(sim, retry=ONCE) as client:
            slow = asyncio.create_task(ask(client, "slow"))
            while not batch_sizes(sim):
                await asyncio.sleep(0.001)
            with pytest.raises(anthropic.InternalServerError, match="oops"):
                await ask(client, "bad")
            tried.update(sim.creates[-1].custom_ids)
            assert (await ask(client, "bad")).type == "message"
            assert not slow.done()
            hold.let_go()
            await slow
        assert sim.creates[1].custom_ids == sim.creates[2].custom_ids
        assert batch_sizes(sim) == [1, 1, 1]


async def test_an_account_fault_stops_what_is_not_sent(tmp_path):
    """A refused key is told to every call, and nothing of it is sent later by itself."""
    settings = WorldSettings(keys={"sk-good": "main"})
    store = tmp_path / "calls.db"
    async with simulate(settings=settings) as sim:
        async with client_on(sim, store, api_key="sk-bad") as client:
            told = await asyncio.gather(
                *(ask(client, text) for text in questions(30)), return_exceptions=True
            )
            assert {type(error) for error in told} == {anthropic.AuthenticationError}
        async with runner_on(sim, store, api_key="sk-good") as runner:
            assert (await runner.resume("calls")).counts["unresolved"] == 30
        assert sim.creates == []
        next_process()
        async with client_on(sim, store, api_key="sk-good") as client:
            await ask_all(client, ["changed", "question 3"])
        assert batch_sizes(sim) == [2]


async def test_the_account_recovers_within_the_process(sim):
    """Once the account may again, the same calls of the same client are sent."""
    refusal = sim.on("create", Error(403, message="no batches for you"))
    async with client_on(sim) as client:
        for _ in range(2):
            with pytest.raises(anthropic.PermissionDeniedError, match="no batches for you"):
                await ask(client, "hi")
        sim.off(refusal)
        assert (await ask(client, "hi")).type == "message"
    assert batch_sizes(sim) == [1]


async def test_an_api_that_cannot_be_reached(sim):
    """Without a server the SDK's connection error is raised, and the call is sent when there is."""
    address = sim.url
    async with client_on(sim, retry=ONCE, max_retries=0) as client:
        async with sim.down():
            with pytest.raises(anthropic.APIConnectionError, match=address):
                await ask(client, "hi")
        assert (await ask(client, "hi")).type == "message"
    assert batch_sizes(sim) == [1]


async def test_results_without_the_line_are_asked_for_again(sim):
    """An item that the results leave out is sent again by the next wave, unseen by its caller."""
    sim.on("results", Lines(lambda lines: lines[1:]), times=5)
    async with client_on(sim) as client:
        answers = await ask_all(client, questions(3))
    assert len(answers) == 3
    assert sum(batch_sizes(sim)) == 4


async def test_another_owner_of_the_run(sim, tmp_path):
    """What stands in the way of the run itself is an error of the library, told to every call."""
    store = tmp_path / "calls.db"
    hold = Hold(sim, 1)
    async with runner_on(sim, store) as runner:
        run = asyncio.create_task(runner.run([("a", params("a"))], run_id="calls"))
        while not batch_sizes(sim):
            await asyncio.sleep(0.001)
        async with client_on(sim, store) as client:
            told = await asyncio.gather(ask(client, "b"), ask(client, "c"), return_exceptions=True)
        assert {type(error) for error in told} == {RunLocked}
        hold.let_go()
        await run
    assert batch_sizes(sim) == [1]


async def test_a_store_that_breaks(sim, caplog):
    """A fault of the store reaches whoever waits; a call after it begins anew."""

    class Breaking(MemoryStore):
        broken = True

        async def commit_intake(self, lease, intake):
            if self.broken:
                raise StoreError("no room")
            return await super().commit_intake(lease, intake)

    store = Breaking()
    async with client_on(sim, store) as client:
        with pytest.raises(StoreError, match="no room"):
            await ask_all(client, questions(2))
        store.broken = False
        assert len(await ask_all(client, questions(2))) == 2
    assert batch_sizes(sim) == [2]


# -- cancelled, closed, left ----------------------------------------------------------------------


async def test_a_cancelled_call_does_not_lose_its_answer(sim):
    """The next call that asks the same takes the answer that was paid for."""
    hold = Hold(sim, 1)
    async with client_on(sim) as client:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(0.5):
                await ask(client, "how are you?")
        assert batch_sizes(sim) == [1]
        again = asyncio.create_task(ask(client, "how are you?"))
        other = asyncio.create_task(ask(client, "how are you?"))
        while len(batch_sizes(sim)) < 2:
            await asyncio.sleep(0.001)
        hold.let_go()
        assert (await again).id != (await other).id
    assert batch_sizes(sim) == [1, 1]


async def test_a_call_that_is_cancelled_before_it_leaves_is_not_sent(sim):
    """Nobody waits for it, so it is not asked."""
    async with client_on(sim) as client:
        calls = [asyncio.create_task(ask(client, text)) for text in questions(4)]
        await asyncio.sleep(0)
        while len(client._caller.calls) < 4:
            await asyncio.sleep(0)
        calls[1].cancel()
        await asyncio.wait(calls)
    assert batch_sizes(sim) == [3]


async def test_closing_waits_for_what_is_asked(sim):
    """Leaving the block sends what has gathered and waits for it."""
    async with client_on(sim, gathering=None) as client:
        calls = [asyncio.create_task(ask(client, text)) for text in questions(3)]
        while len(client._caller.calls) < 3:
            await asyncio.sleep(0)
    assert [call.done() for call in calls] == [True] * 3
    assert batch_sizes(sim) == [3]


async def test_leaving_early_keeps_what_was_sent(sim, tmp_path):
    """A block that is left by an exception waits for nothing; the next process goes on."""
    store = tmp_path / "calls.db"
    hold = Hold(sim, 1)
    with pytest.raises(ZeroDivisionError):
        async with client_on(sim, store) as client:
            calls = [asyncio.create_task(ask(client, text)) for text in questions(3)]
            while not batch_sizes(sim):
                await asyncio.sleep(0.001)
            raise ZeroDivisionError
    told = await asyncio.gather(*calls, return_exceptions=True)
    assert {error.status_code for error in told} == {499}
    hold.let_go()
    next_process()
    async with client_on(sim, store) as client:
        assert len(await ask_all(client, questions(3))) == 3
    assert batch_sizes(sim) == [3]


async def test_calls_that_come_while_the_work_ends(sim):
    """A client that leaves ends work that nobody waits for; who calls meanwhile is served."""
    ending, may_end = asyncio.Event(), asyncio.Event()

    class Slow(MemoryStore):
        async def release(self, lease):
            ending.set()
            await may_end.wait()
            await super().release(lease)

    store, hold = Slow(), Hold(sim, 1)
    async with client_on(sim, store) as second:

        async def leave_early():
            async with client_on(sim, store) as first:
                call = asyncio.create_task(ask(first, "first"))
                while not batch_sizes(sim):
                    await asyncio.sleep(0.001)
                call.cancel()
                await asyncio.wait([call])
                raise ZeroDivisionError

        leaving = asyncio.create_task(leave_early())
        await ending.wait()
        asked = asyncio.create_task(ask(second, "second"))
        while not second._hub._feed.is_wanted():
            await asyncio.sleep(0.001)
        hold.let_go()
        may_end.set()
        assert (await asked).type == "message"
        with pytest.raises(ZeroDivisionError):
            await leaving
    assert batch_sizes(sim) == [1, 1]


async def test_what_was_left_unsent_is_not_sent_for_nobody(sim, tmp_path):
    """A later process sends what its own calls ask, and nothing that an earlier one left behind."""
    store = tmp_path / "calls.db"
    busy = sim.on("create", Error(429, message="queue full", retry_after=0.01))
    with pytest.raises(ZeroDivisionError):
        async with client_on(sim, store) as client:
            calls = [asyncio.create_task(ask(client, text)) for text in questions(5)]
            while busy.hits < 1:
                await asyncio.sleep(0.001)
            raise ZeroDivisionError
    await asyncio.wait(calls)
    sim.off(busy)
    next_process()
    async with client_on(sim, store) as client:
        await ask_all(client, ["question 1", "changed"])
        assert batch_sizes(sim) == [2]
        # Called again it is a question like any other.
        assert (await ask(client, "question 2")).type == "message"
    assert batch_sizes(sim) == [2, 1]


async def test_items_of_a_runner_in_the_same_run(sim, tmp_path):
    """What a runner left unsent in the run is not taken for calls that nobody waits for."""
    store = tmp_path / "calls.db"
    refusal = sim.on("create", Error(403, message="not now"))
    async with runner_on(sim, store) as runner:
        await runner.run([("a", params("a"))], run_id="calls")
        sim.off(refusal)
        async with client_on(sim, store) as client:
            await ask(client, "b")
        assert (await runner.resume("calls")).complete
    assert sum(batch_sizes(sim)) == 2


def test_an_event_loop_that_ends_leaves_nothing_behind(tmp_path, caplog):
    """A client that is never closed gives its run back when its loop ends."""
    store = tmp_path / "calls.db"

    async def careless(sim):
        client = AsyncAnthropic(store=store, polling=FAST, gathering=QUICK, **sim.client_options())
        assert (await ask(client, "hi")).type == "message"
        # Work that nobody waits for is under way when the loop ends.
        call = asyncio.create_task(ask(client, "another"))
        while len(batch_sizes(sim)) < 2:
            await asyncio.sleep(0.001)
        call.cancel()

    async def owner(sim):
        async with runner_on(sim, store) as runner:
            return (await runner.status("calls")).owner

    with Simulator(speed=FAST_WORLD) as sim, caplog.at_level(logging.ERROR):
        Hold(sim, 2)
        asyncio.run(careless(sim))
        assert asyncio.run(owner(sim)) is None
        assert sim.failures == []
    assert caplog.records == []


@pytest.mark.parametrize(
    ("reason", "kind", "status"),
    [
        ("overdue", "overdue", 504),
        ("foreign", "foreign", 404),
        ("archived", "archived", 404),
        ("ambiguous", "ambiguous", 502),
        ("canceled", "canceled", 499),
        ("too_large", "request_too_large", 413),
        ("refused_at_intake", "not_json", 400),
        ("exhausted", "no_answer", 502),
        ("unreadable", "unreadable", 502),
        ("account", "billing_error", 402),
    ],
)
def test_every_reason_has_a_status(reason, kind, status):
    """The API's error type decides, then the library's own reason."""
    assert status_of(reason, kind) == status
