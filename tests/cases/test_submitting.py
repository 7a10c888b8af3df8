"""C01 to C11: what goes wrong while batches are submitted."""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
import sys
import time
from collections import Counter
from itertools import pairwise
from pathlib import Path

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

from batchwright import BatchRunner, ConfigurationError, Item, RetryBudget, ShardLimits
from batchwright.events import (
    CallRetried,
    CreateSettled,
    CreateUnknown,
    OrgPaused,
    ShardHeld,
    ShardRefused,
    ShardSubmitted,
)
from batchwright.simulator import (
    Call,
    CutBody,
    Drop,
    Error,
    Hang,
    Raise413,
    Respond,
    Simulator,
    WorldSettings,
    errored,
)
from batchwright.testing import simulate

CHILD = Path(__file__).parents[1] / "runs" / "child.py"


#: World seconds per real second where the time of a create matters: at this pace a machine has to
#: stall for more than a second before a lost create falls out of the window it is looked for in.
CALM = 600.0


# -- C01: the create was accepted but its answer was lost --------------------------------------

LOST = {
    "dropped": Drop("after"),
    "reset": Drop("after", reset=True),
    "504 after registering": Error(504, after=True),
    "500 after registering": Error(500, after=True),
    "unreadable 200": CutBody(after_bytes=40, framing="close"),
}


@pytest.mark.parametrize("kind", LOST)
@pytest.mark.parametrize("duration", [60.0, 900.0])
async def test_c01_a_lost_answer_is_looked_up_and_never_repeated(kind, duration):
    """Creates stay 1: found by window and count, proved by its first line, each item once."""
    heard = Heard()
    settings = WorldSettings(duration=(duration, duration))
    async with (
        simulate(settings=settings, speed=CALM) as sim,
        runner_on(sim, on_event=heard) as runner,
    ):
        sim.on("create", LOST[kind], times=1)
        result = await runner.run(items(3))

        assert result.complete
        assert_own_answers(result, items(3))
        assert len(sim.calls("create")) == 1
        assert len(heard.of(CreateUnknown)) == 1
        assert [event.verdict for event in heard.of(CreateSettled)] == ["adopted"]
        assert sim.world.books().billed_twice == {}


async def test_c01_silence_until_the_time_limit(monkeypatch):
    """A create that is never answered is unknown after its total time limit."""
    monkeypatch.setattr("batchwright._gateway.CREATE_TIMEOUT", 0.05)
    async with simulate(speed=CALM) as sim, runner_on(sim) as runner:
        sim.on("create", Hang(), times=1)
        result = await runner.run(items(3))

        assert result.complete
        assert len(sim.calls("create")) == 1


async def test_c01_a_refused_connection_is_simply_tried_again():
    """Control: not a byte left, so nothing is unknown and nothing is looked up."""
    heard = Heard()
    async with simulate(speed=CALM) as sim, runner_on(sim, on_event=heard) as runner:
        async with sim.down():
            task = asyncio.create_task(runner.run(items(3)))
            await heard.until(CallRetried)
        result = await task

        assert result.complete
        assert heard.of(CreateUnknown) == []
        assert len(sim.creates) == 1


async def test_c01_a_create_that_was_never_made_is_sent_after_the_lookup():
    """Lost on the way in: the list shows nothing, and goes on showing nothing: then it is sent."""
    heard = Heard()
    async with simulate(speed=CALM) as sim, runner_on(sim, on_event=heard) as runner:
        sim.on("create", Drop("before"), times=1)
        result = await runner.run(items(3))

        assert result.complete
        assert [event.verdict for event in heard.of(CreateSettled)] == ["never made"]
        assert all(outcome.attempts == 1 for outcome in result.outcomes)
        assert set(sent(sim).values()) == {1}


async def test_c01_a_batch_that_is_listed_late_is_still_found():
    """Read-after-write is not immediate: absence is believed only after a while."""
    settings = WorldSettings(visible_after=30.0, duration=(600, 600))
    async with simulate(settings=settings, speed=CALM) as sim, runner_on(sim) as runner:
        sim.on("create", Drop("after"), times=1)
        result = await runner.run(items(3))

        assert result.complete
        assert len(sim.creates) == 1


async def test_c01_strangers_of_the_same_size_are_told_apart_by_their_first_line():
    """A colleague's batch of the same count at the same time is no answer to our question."""
    settings = WorldSettings(duration=(600, 600))
    async with simulate(settings=settings, speed=CALM) as sim:
        async with anthropic.AsyncAnthropic(**sim.client_options()) as colleague:
            async with runner_on(sim) as runner:

                async def interfere(call: Call) -> None:
                    requests = [{"custom_id": f"x{i}", "params": params("x")} for i in range(3)]
                    await colleague.messages.batches.create(requests=requests)

                sim.on("create", Drop("after"), times=1)
                task = asyncio.create_task(runner.run(items(3)))
                while not sim.world.batches:
                    await asyncio.sleep(0.002)
                await interfere(None)
                result = await task

        assert result.complete
        assert_own_answers(result, items(3))
        assert max(sent(sim).values()) == 1


async def test_c01_a_stranger_alone_is_not_mistaken_for_ours():
    """Adopted by count and time, disproved by its first line: then ours is sent."""
    heard = Heard()
    settings = WorldSettings(duration=(600, 600))
    async with simulate(settings=settings, speed=CALM) as sim:
        async with anthropic.AsyncAnthropic(**sim.client_options()) as colleague:
            async with runner_on(sim, on_event=heard) as runner:
                sim.on("create", Drop("before"), times=1)
                task = asyncio.create_task(runner.run(items(3)))
                await heard.until(CreateUnknown)
                requests = [{"custom_id": f"x{i}", "params": params("x")} for i in range(3)]
                await colleague.messages.batches.create(requests=requests)
                result = await task

        assert result.complete
        assert_own_answers(result, items(3))
        verdicts = [event.verdict for event in heard.of(CreateSettled)]
        assert verdicts[-1] == "never made"
        ours = {outcome.custom_id for outcome in result.outcomes}
        assert {cid: n for cid, n in sent(sim).items() if cid in ours} == dict.fromkeys(ours, 1)


async def test_c01_several_lost_creates_are_each_found():
    """Shards that are under way together have different sizes, so that each can be found."""
    settings = WorldSettings(duration=(300, 900))
    async with (
        simulate(settings=settings, speed=CALM) as sim,
        runner_on(sim, limits=ShardLimits(max_requests=12)) as runner,
    ):
        sim.on("create", [None, Drop("after"), Drop("after"), Drop("after")])
        result = await runner.run(items(50))

        assert result.complete
        assert set(sent(sim).values()) == {1}


async def test_c01_own_lost_creates_of_equal_size_are_proved_by_their_lines():
    """Where sizes cannot differ the first result line decides which is which."""
    settings = WorldSettings(duration=(300, 900))
    async with (
        simulate(settings=settings, speed=CALM) as sim,
        runner_on(sim, limits=ShardLimits(max_requests=5)) as runner,
    ):
        sim.on("create", [None, Drop("after"), Drop("after")])
        result = await runner.run(items(15))

        assert result.complete
        assert_own_answers(result, items(15))
        assert set(sent(sim).values()) == {1}


async def test_c01_what_cannot_be_decided_is_held_and_looked_at_again():
    """The list is down: the items are held with the reason, and the next call finds the batch."""
    heard = Heard()
    async with simulate(speed=CALM) as sim, runner_on(sim, on_event=heard) as runner:
        sim.on("create", Drop("after"), times=1)
        rule = sim.on("list", lambda call: Error(500) if sim.creates else None)
        result = await runner.run(items(3))
        assert {o.reason for o in result.unresolved} == {"ambiguous"}
        (held,) = heard.of(ShardHeld)
        assert "--resubmit ambiguous" in held.remedy

        sim.off(rule)
        again = await runner.run(items(3))
        assert again.complete
        assert [o.attempts for o in again.outcomes] == [1, 1, 1]
        assert len(sim.creates) == 1


async def test_c01_a_page_without_batches_is_not_the_end_of_the_list():
    """More is said to follow: what stands behind it was not seen, and is not absent."""
    empty = Respond(200, {"data": [], "has_more": True, "first_id": None, "last_id": None})
    settings = WorldSettings(duration=(600, 600))
    async with simulate(settings=settings, speed=CALM) as sim, runner_on(sim) as runner:
        sim.on("create", Drop("after"), times=1)
        rule = sim.on("list", lambda call: empty if sim.creates else None)
        result = await runner.run(items(3))
        sim.off(rule)
        again = await runner.run(items(3))

        assert {o.reason for o in result.unresolved} == {"ambiguous"}
        assert again.complete
        assert set(sent(sim).values()) == {1}


async def test_c01_a_person_may_have_the_items_sent_anew():
    """On a person's word they are sent, and a late answer of the lost batch is waste, not a row."""
    async with simulate(speed=CALM) as sim, runner_on(sim) as runner:
        sim.on("create", Drop("after"), times=1)
        rule = sim.on("list", lambda call: Error(500) if sim.creates else None)
        await runner.run(items(3))
        result = await runner.resume(resubmit=["ambiguous"])
        assert result.complete
        assert set(sent(sim).values()) == {2}

        sim.off(rule)
        again = await runner.resume()
        assert again.complete
        assert [o.raw for o in again.outcomes] == [o.raw for o in result.outcomes]
        assert sum(waste.answers for waste in again.report.waste) == 3


async def test_c01_a_person_may_name_the_batch():
    """Adopted on a person's word, and still proved by its first line; a wrong word does no harm."""
    async with simulate(speed=CALM) as sim, runner_on(sim) as runner:
        sim.on("create", Drop("after"), times=1)
        rule = sim.on("list", lambda call: Error(500) if sim.creates else None)
        await runner.run(items(3))
        (batch_id,) = sim.world.batches
        with pytest.raises(ConfigurationError, match="in doubt are: 1"):
            await runner.resume(adopt={batch_id: 7})

        result = await runner.resume(adopt={batch_id: 1})
        assert result.complete
        assert len(sim.creates) == 1
        sim.off(rule)


async def test_c01_a_wrong_word_is_disproved():
    """A batch of somebody else, named by mistake, gives no answers and takes none."""
    async with simulate(speed=CALM) as sim, runner_on(sim) as runner:
        async with anthropic.AsyncAnthropic(**sim.client_options()) as other:
            request = {"custom_id": "x", "params": params("x")}
            stranger = await other.messages.batches.create(requests=[request] * 1)
        sim.on("create", Drop("after"), times=1)
        rule = sim.on("list", lambda call: Error(500) if len(sim.creates) > 1 else None)
        await runner.run(items(3))
        sim.off(rule)

        result = await runner.resume(adopt={stranger.id: 1})
        assert result.complete
        assert_own_answers(result, items(3))
        assert {sent(sim)[o.custom_id] for o in result.outcomes} == {1}


# -- C02: the process died between "batch created" and "batch id saved" ------------------------


def die_in_create(sim: Simulator, store: Path, *, registered: bool) -> None:
    """Run a child whose first create is never answered, and kill it while it waits."""
    rule = sim.on("create", Hang(after=registered), times=1)
    argv = [sys.executable, str(CHILD), sim.url, sim.api_key, str(store), "5", "100"]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as child:
        while not (sim.world.batches if registered else rule.hits):
            time.sleep(0.005)
        child.send_signal(signal.SIGKILL)


@pytest.mark.parametrize("registered", [True, False])
async def test_c02_killed_while_the_create_was_under_way(tmp_path, registered):
    """(a), (b): found where it exists, sent once where it does not; never two live batches."""
    with Simulator(speed=CALM) as sim:
        await asyncio.to_thread(die_in_create, sim, tmp_path / "run.db", registered=registered)
        async with runner_on(sim, tmp_path / "run.db") as runner:
            result = await runner.run(items(5))

        assert result.complete
        assert set(sent(sim).values()) == {1}


async def test_c02_killed_after_the_id_was_saved(tmp_path):
    """(c): no create, the batch is polled on."""
    from tests.runs.test_resume import kill_child_at

    with Simulator(speed=CALM, settings=WorldSettings(duration=(600, 600))) as sim:
        await asyncio.to_thread(
            kill_child_at, sim, tmp_path / "run.db", "ShardSubmitted", count=5, shard=100
        )
        async with runner_on(sim, tmp_path / "run.db") as runner:
            result = await runner.run(items(5))

        assert result.complete
        assert len(sim.creates) == 1


# -- C03 ---------------------------------------------------------------------------------------


async def test_c03_one_shard_that_fails_is_not_the_others():
    """A and C are polled and delivered; B's item ends with the server's own reason."""
    bad = ("bad", params("bad"))
    async with (
        simulate() as sim,
        runner_on(sim, limits=ShardLimits(max_requests=1), on_event=(heard := Heard())) as runner,
    ):
        sim.on(
            lambda call: any(cid.startswith("bad-") for cid in call.custom_ids),
            Error(400, message="requests: something is wrong with it"),
        )
        result = await runner.run([("a", params("a")), bad, ("c", params("c"))])

        assert list(result.messages) == ["a", "c"]
        (failed,) = result.quarantined
        assert "something is wrong" in failed.error.message
        assert len(heard.of(ShardRefused)) == 1
        assert not result.complete


async def test_c03_the_id_of_the_first_is_durable_before_the_second_is_refused(tmp_path):
    """A permission fault on the second create: the first batch is still read to its end."""
    async with (
        simulate() as sim,
        runner_on(sim, tmp_path / "run.db", limits=ShardLimits(max_requests=2)) as runner,
    ):
        sim.on("create", [None, Error(403)])
        result = await runner.run(items(6))

        assert result.counts["succeeded"] == 4
        assert {o.reason for o in result.unresolved} == {"account"}
        assert_conserved(result, 6)


# -- C04 ---------------------------------------------------------------------------------------


async def test_c04_any_key_becomes_a_legal_unique_wire_id_and_comes_back_unchanged():
    """R9: letters of any language, dots, emoji, 65 letters, the empty string."""
    keys = ["x" * 65, "2026-01-25.md", "user:7", "żółć", "🙂", "", "7", " 7", "x" * 66]
    async with simulate() as sim, runner_on(sim) as runner:
        asked = [(key, params(f"about {key}")) for key in keys]
        result = await runner.run(asked)

        assert list(result.messages) == keys
        assert_own_answers(result, asked)
        (create,) = sim.creates
        assert len(set(create.custom_ids)) == len(keys)


# -- C05 ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(("indexed", "most"), [(True, 2), (False, 7)])
async def test_c05_one_bad_item_is_isolated(indexed, most):
    """Only it is quarantined, with the server's text; the others finish uncharged."""

    def refuse(call: Call) -> Error | None:
        for place, custom_id in enumerate(call.custom_ids):
            if custom_id.startswith("bad-"):
                at = f"requests.{place}.custom_id: " if indexed else "requests: "
                return Error(400, message=at + "String should not be bad")
        return None

    asked = items(8)
    asked[3] = ("bad", params("bad"))
    async with simulate() as sim, runner_on(sim) as runner:
        sim.on("create", refuse)
        result = await runner.run(asked)

        assert [o.id for o in result.quarantined] == ["bad"]
        assert "should not be bad" in result["bad"].error.message
        assert result.counts["succeeded"] == 7
        assert {o.attempts for o in result.outcomes if o.id != "bad"} == {1}
        assert len(sim.calls("create")) <= most


# -- C06 ---------------------------------------------------------------------------------------


async def test_c06_size_is_measured_in_bytes_on_the_wire():
    """Emoji, escapes and long ids count as what they are; not one 413."""
    limit = 100_000
    texts = ["🙂" * 400, '"\x01\\' * 300, "plain " * 200, "\u2028" * 500]
    asked = [(f"{'k' * 64}{i}", params(texts[i % 4] + str(i))) for i in range(300)]
    async with (
        simulate(settings=WorldSettings(max_bytes=limit)) as sim,
        runner_on(sim, limits=ShardLimits(max_requests=40, max_bytes=limit)) as runner,
    ):
        result = await runner.run(asked)

        assert result.complete
        assert_own_answers(result, asked)
        assert all(call.status == 200 for call in sim.calls("create"))
        assert max(create.body_size for create in sim.creates) <= limit
        assert all(1 <= len(create.custom_ids) <= 40 for create in sim.creates)
        assert sum(len(create.custom_ids) for create in sim.creates) == 300


# -- C07 ---------------------------------------------------------------------------------------


async def test_c07_an_item_larger_than_any_batch_is_set_apart_unsent():
    """(a) Its size and the limit are named; the ten others finish."""
    limits = ShardLimits(max_bytes=50_000)
    async with simulate() as sim, runner_on(sim, limits=limits) as runner:
        result = await runner.run([*items(10), ("huge", params("x" * 60_000))])

        (huge,) = result.quarantined
        assert huge.reason == "too_large"
        assert "50,000" in huge.error.message
        assert result.counts["succeeded"] == 10
        assert not any(cid.startswith("huge") for cid in sent(sim))


@pytest.mark.parametrize("html", [True, False])
async def test_c07_a_lower_limit_is_learned(html):
    """(b) 413 far below what is documented: split, finished, remembered; no body twice."""
    asked = [(f"doc-{i}", params("x" * 3_000 + str(i))) for i in range(120)]
    bodies: Counter[int] = Counter()

    def proxy(call: Call) -> Raise413 | None:
        bodies[call.body_size] += call.body_size > 60_000
        return Raise413(html=html) if call.body_size > 60_000 else None

    limits = ShardLimits(max_requests=100, concurrency=1)
    async with simulate() as sim, runner_on(sim, limits=limits) as runner:
        sim.on("create", proxy)
        result = await runner.run(asked)

        assert result.complete
        assert {o.attempts for o in result.outcomes} == {1}
        assert set(sent(sim).values()) == {1}
        refused = [call.body_size for call in sim.calls("create") if call.status == 413]
        assert len(refused) == len(set(refused)) <= 4
        learned = sim.calls("create")[-1].body_size
        assert learned <= 60_000


async def test_c07_a_single_item_above_a_lower_limit_is_set_apart():
    """(c) Nothing loops: the one item is quarantined, the others finish."""

    def proxy(call: Call) -> Raise413 | None:
        return Raise413() if call.body_size > 30_000 else None

    async with simulate() as sim, runner_on(sim) as runner:
        sim.on("create", proxy)
        result = await runner.run([*items(6), ("big", params("x" * 40_000))])

        assert [(o.id, o.reason) for o in result.quarantined] == [("big", "too_large")]
        assert result.counts["succeeded"] == 6


# -- C08 ---------------------------------------------------------------------------------------

CREDIT = "Your credit balance is too low to access the Anthropic API."


@pytest.mark.parametrize(
    "fate",
    [
        errored("invalid_request_error", CREDIT),
        errored(
            "invalid_request_error", "organization on hold", {"error_code": "organization_on_hold"}
        ),
        errored("billing_error", "billing"),
        errored("permission_error", "not allowed"),
    ],
    ids=["credit text", "error code", "billing", "permission"],
)
async def test_c08_account_faults_inside_lines_are_not_the_items(fate):
    """40 kept, 60 pending and uncharged, no create until resume; then exactly the 60."""
    heard = Heard()
    async with simulate() as sim, runner_on(sim, on_event=heard) as runner:
        broke = {f"doc-{i}" for i in range(60)}
        sim.fate_for(lambda cid: cid.rpartition("-")[0] in broke, [fate])
        result = await runner.run(items(100))

        assert result.counts["succeeded"] == 40
        assert result.quarantined == ()
        assert {(o.reason, o.attempts) for o in result.unresolved} == {("account", 0)}
        assert len(sim.creates) == 1
        assert len(heard.of(OrgPaused)) == 1
        assert result.stopped

        funded = await runner.resume()
        assert funded.complete
        assert len(sim.creates[1].custom_ids) == 60
        assert {o.attempts for o in funded.outcomes} == {1}


@pytest.mark.parametrize(
    "refusal",
    [
        Error(429, error_code="enforced_spend_limit_reached"),
        Error(429, error_code="contract_spend_limit_reached"),
        Error(400, message="You have reached your specified API usage limits."),
        Error(400, message="You have reached your specified workspace API usage limits."),
        Error(400, error_code="cmek_key_disabled"),
        Error(401),
        Error(402),
        Error(403),
    ],
    ids=lambda refusal: f"{refusal.status} {refusal.error_code or refusal.message or ''}"[:40],
)
async def test_c08_account_faults_of_a_create_pause_the_org(refusal):
    """Every form of it: one create, nothing halved, nothing quarantined, items pending."""
    limits = ShardLimits(max_requests=4)
    async with simulate() as sim, runner_on(sim, limits=limits) as runner:
        rule = sim.on("create", refusal)
        result = await runner.run(items(16))

        assert {(o.reason, o.attempts) for o in result.unresolved} == {("account", 0)}
        assert len(sim.calls("create")) == 1
        sim.off(rule)
        assert (await runner.resume()).complete


# -- C09 ---------------------------------------------------------------------------------------


async def test_c09_options_of_a_call_travel_where_they_belong():
    """Flags in the header of their own batch, extra body at the root, faults set apart."""
    body = {**params("with extra"), "extra_body": {"metadata": {"user_id": "u"}}}
    before = json.dumps(body)
    asked = [
        Item("x", params("x"), headers={"anthropic-beta": "context-1m-2025-08-07"}),
        Item("y", params("y"), headers={"anthropic-beta": "files-api-2025-04-14"}),
        Item("x2", params("x2"), headers={"anthropic-beta": "context-1m-2025-08-07"}),
        Item("none", params("none")),
        Item("extra", body),
        Item("stream", params("s", stream=True)),
        Item("zero", params("z", max_tokens=0)),
        Item("nested", params("n", betas=["context-1m-2025-08-07"])),
    ]
    async with simulate(settings=WorldSettings(keep_bodies=True)) as sim, runner_on(sim) as runner:
        result = await runner.run(asked)

        assert sorted(o.id for o in result.quarantined) == ["nested", "stream", "zero"]
        assert sorted(result.messages) == ["extra", "none", "x", "x2", "y"]
        flags = {create.headers.get("anthropic-beta"): create for create in sim.creates}
        assert len(flags["context-1m-2025-08-07"].custom_ids) == 2
        assert len(flags["files-api-2025-04-14"].custom_ids) == 1
        assert len(flags[None].custom_ids) == 2
        assert {"metadata": {"user_id": "u"}}.items() <= flags[None].params[1].items()
        assert json.dumps(body) == before


# -- C10 ---------------------------------------------------------------------------------------


async def test_c10_a_full_queue_is_waited_out_while_others_are_polled():
    """At least the server's wait between tries; polling goes on; no item is charged for it."""
    tries: list[float] = []

    def queue(call: Call) -> Error | None:
        alive = [b for b in sim.world.batches.values() if b.status(sim.world.now()) != "ended"]
        if len(alive) < 2:
            return None
        tries.append(asyncio.get_running_loop().time())
        return Error(429, retry_after=0.2)

    settings = WorldSettings(duration=(9_000, 9_000))
    limits = ShardLimits(max_requests=10)
    async with simulate(settings=settings) as sim, runner_on(sim, limits=limits) as runner:
        sim.on("create", queue)
        result = await runner.run(items(40))

        assert result.complete
        assert {o.attempts for o in result.outcomes} == {1}
        assert set(sent(sim).values()) == {1}
        # What was under way together when the queue filled up is told at once; from then on
        # one probe at a time.
        probes = [at for at in tries if at - tries[0] > 0.15]
        assert probes
        assert all(b - a >= 0.2 for a, b in pairwise(probes))


async def test_c10_a_queue_that_stays_full_with_nothing_of_ours_in_it_ends_the_wave():
    """Always ends: after the budget of tries the items come back, uncharged, for the next call."""
    async with simulate() as sim, runner_on(sim) as runner:
        rule = sim.on("create", Error(429, retry_after=0.001))
        result = await runner.run(items(4))

        assert {(o.reason, o.attempts) for o in result.unresolved} == {("interrupted", 0)}
        assert "429" in result.stopped[0][1]
        assert len(sim.calls("create")) == EAGER.call_attempts
        sim.off(rule)
        assert (await runner.run(items(4))).complete


async def test_c10_a_hint_of_hours_parks_the_org_instead_of_sleeping():
    """Nobody waits out 5 hours in a sleep; the run returns and says until when."""
    async with simulate() as sim, runner_on(sim) as runner:
        sim.on("create", Error(429, retry_after=18_000))
        result = await runner.run(items(4))

        assert len(sim.calls("create")) == 1
        assert {o.reason for o in result.unresolved} == {"interrupted"}


# -- C11 ---------------------------------------------------------------------------------------


async def test_c11_a_key_without_batches_is_asked_once():
    """403 on every create: one of them, remembered; a clear message; nothing quarantined."""
    heard = Heard()
    limits = ShardLimits(max_requests=2)
    async with simulate() as sim, runner_on(sim, limits=limits, on_event=heard) as runner:
        sim.on("create", Error(403, message="This key may not use batches."))
        result = await runner.run(items(20))

        assert len(sim.calls("create")) == 1
        assert result.quarantined == ()
        assert len(result.unresolved) == 20
        (paused,) = heard.of(OrgPaused)
        assert "may not use batches" in paused.reason


async def test_attempts_are_charged_once_across_a_kill(tmp_path):
    """R15: what was tried is charged, once, whatever dies in between."""
    retry = RetryBudget(max_attempts=3, backoff=0.01)
    heard = Heard()
    async with simulate(settings=WorldSettings(duration=(60, 60))) as sim:
        sim.fate_for("*", [errored("api_error"), errored("api_error")])
        async with runner_on(sim, tmp_path / "run.db", retry=retry, on_event=heard) as runner:
            task = asyncio.create_task(runner.run(items(4)))
            while len(heard.of(ShardSubmitted)) < 2:
                await asyncio.sleep(0.002)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            result = await runner.run(items(4))

        assert result.complete
        assert {o.attempts for o in result.outcomes} == {3}


def test_the_constants_of_this_file_are_used():
    """The fast polling of these tests is below the server's hint on purpose."""
    assert FAST.interval < 1.0
    assert BatchRunner(store="memory://", polling=FAST) is not None


async def test_c10_the_cap_of_the_queue_is_learned():
    """After the first refusal only one shard at a time goes beyond what the queue took."""

    def queue(call: Call) -> Error | None:
        now = sim.world.now()
        alive = [b for b in sim.world.batches.values() if b.status(now) != "ended"]
        full = sum(len(b.requests) for b in alive) + len(call.custom_ids) > 40
        return Error(429, retry_after=0.05) if full else None

    settings = WorldSettings(duration=(3_000, 6_000))
    limits = ShardLimits(max_requests=10, concurrency=8)
    async with simulate(settings=settings) as sim, runner_on(sim, limits=limits) as runner:
        sim.on("create", queue)
        result = await runner.run(items(200))

        assert result.complete
        assert set(sent(sim).values()) == {1}
        planned = len(result.report.batches)
        refused = [call for call in sim.calls("create") if call.status == 429]
        # Without the learned cap eight shards would wait and probe at any time.
        assert planned == 20
        assert len(refused) < 100
