"""C12 to C19: what goes wrong while batches are waited for."""

from __future__ import annotations

import asyncio
import itertools
import time
from datetime import UTC, datetime, timedelta

import anthropic
import pytest
from tests.support import EAGER, FAST, Heard, assert_conserved, assert_own_answers, items, runner_on

from batchwright import BatchRunner, Org, Polling, RetryBudget, ShardLimits
from batchwright._batches import deadline_of, read_time
from batchwright._clock import SystemClock, use_clock
from batchwright._org import MAX_IN_FLIGHT
from batchwright.events import (
    BatchCanceled,
    BatchEnded,
    BatchPolled,
    CallRetried,
    DeadlineExceeded,
    OrgPaused,
    PollFailed,
    Progressed,
    ShardHeld,
    ShardSubmitted,
    StatusUnknown,
)
from batchwright.simulator import (
    Call,
    CutBody,
    Delay,
    Drop,
    Error,
    Hang,
    Mutate,
    Reply,
    Respond,
    ScaledClock,
    WorldSettings,
    cancel,
    errored,
    expire,
    succeed,
)
from batchwright.testing import simulate

ONE_TRY = RetryBudget(backoff=0.01, max_backoff=0.02, call_attempts=1)
LONG = WorldSettings(duration=(1_500, 1_500))


# -- C12: 404 for a batch that exists ----------------------------------------------------------


async def test_c12_a_batch_that_is_not_found_for_a_while_is_waited_for():
    """404, in progress, 404, ended: delivered once, creates stay 1."""
    async with simulate(settings=LONG) as sim, runner_on(sim) as runner:
        sim.on("retrieve", [Error(404), None, Error(404), Error(404)])
        result = await runner.run(items(3))

        assert result.complete
        assert len(sim.creates) == 1


async def test_c12_a_batch_that_stays_unknown_is_held_and_read_once_it_is_back():
    """404 for ever: held within a bound, never resubmitted; shown again, it is waited for."""
    heard = Heard()
    settings = WorldSettings(duration=(4_000, 4_000))
    async with simulate(settings=settings) as sim, runner_on(sim, on_event=heard) as runner:
        rule = sim.on("retrieve", Error(404))
        result = await runner.run(items(3))
        assert {o.reason for o in result.unresolved} == {"not_found"}
        (held,) = heard.of(ShardHeld)
        assert "--resubmit not_found" in held.remedy
        assert (await runner.resume()).counts["unresolved"] == 3

        sim.off(rule)
        again = await runner.resume()
        assert again.complete
        assert {o.attempts for o in again.outcomes} == {1}
        assert len(sim.creates) == 1


async def test_c12_an_outage_between_two_404s_is_no_answer():
    """Long ago and just now not found is not "not found ever since": several looks must say so."""
    polling = Polling(interval=0.01)
    async with simulate(settings=LONG) as sim:
        async with runner_on(sim, polling=polling, retry=ONE_TRY) as runner:
            sim.on("retrieve", [Error(404), *[Error(500)] * 12, Error(404)])
            result = await runner.run(items(3))

            assert result.complete


# -- C13: the error zoo during polling ---------------------------------------------------------

ZOO = {
    "500": Error(500),
    "502 html": Respond(502, "<html>Bad gateway</html>"),
    "503 empty": Respond(503),
    "529": Error(529),
    "408": Error(408),
    "409": Error(409),
    "400": Error(400),
    "reset": Drop("before", reset=True),
    "closed": Drop("before"),
    "cut json": CutBody(after_bytes=40, framing="close"),
    "login page": Respond(200, "<html>Please log in</html>"),
    "json, but no object": Respond(200, b"[1]"),
    "no batch": Respond(200, {"id": 7, "processing_status": None}),
}


async def test_c13_no_error_of_the_moment_ends_a_wait():
    """All of them in a row: delivered, no attempt charged, each told once."""
    heard = Heard()
    async with (
        simulate(settings=LONG) as sim,
        runner_on(sim, on_event=heard, retry=ONE_TRY) as runner,
    ):
        sim.on("retrieve", list(ZOO.values()))
        result = await runner.run(items(3))

        assert result.complete
        assert {o.attempts for o in result.outcomes} == {1}
        assert len(sim.creates) == 1
        assert len(heard.of(PollFailed)) == len(ZOO)


async def test_c13_silence_is_an_error_of_the_moment(monkeypatch):
    """A look that is never answered runs into its own time limit, not into the batch's."""
    monkeypatch.setattr("batchwright._gateway.CALL_TIMEOUT", 0.05)
    async with simulate() as sim, runner_on(sim) as runner:
        sim.on("retrieve", Hang(), times=1)
        result = await runner.run(items(3))

        assert result.complete


@pytest.mark.parametrize("tries", [1, 5])
async def test_c13_the_servers_wait_is_obeyed(tries):
    """After a 429 nobody looks before `retry-after`, tried again or not."""
    at: list[float] = []

    def full(call: Call) -> Error | None:
        at.append(time.monotonic())
        return Error(429, retry_after=0.3) if call.number == 1 else None

    retry = RetryBudget(backoff=0.01, max_backoff=0.02, call_attempts=tries)
    async with simulate() as sim, runner_on(sim, retry=retry) as runner:
        sim.on("retrieve", full)
        result = await runner.run(items(3))

        assert result.complete
        assert at[1] - at[0] >= 0.3


@pytest.mark.parametrize("status", [401, 403])
async def test_c13_a_revoked_key_stops_its_org_and_no_other(status):
    """One refused look, no retry; saved and resumable; the other org goes on to its end."""
    heard = Heard()
    settings = WorldSettings(duration=(900, 900))
    limits = ShardLimits(max_requests=2)
    async with simulate(settings=settings) as sim:
        async with (
            anthropic.AsyncAnthropic(base_url=sim.url, api_key="sk-one") as one,
            anthropic.AsyncAnthropic(base_url=sim.url, api_key="sk-two") as two,
        ):
            orgs = [Org("one", one), Org("two", two)]
            async with BatchRunner(
                orgs=orgs,
                store="memory://",
                polling=FAST,
                retry=EAGER,
                limits=limits,
                on_event=heard,
            ) as runner:
                rule = sim.on(
                    lambda call: call.route == "retrieve" and call.api_key == "sk-one",
                    Error(status),
                )
                result = await runner.run(items(8))

                assert [event.org for event in heard.of(OrgPaused)] == ["one"]
                assert {o.reason for o in result.unresolved} == {"account"}
                assert {o.org for o in result.outcomes if o.status == "succeeded"} == {"two"}
                assert 0 < result.counts["succeeded"] < 8
                alive = sum(event.org == "one" for event in heard.of(ShardSubmitted))
                assert rule.hits <= alive
                sim.off(rule)
                assert (await runner.resume()).complete
        assert sim.world.books().billed_twice == {}


# -- C14: never ends ---------------------------------------------------------------------------


async def test_c14_a_batch_that_never_ends_is_given_up_at_its_deadline():
    """One last look, a cancel, the results that there may be; held, and never resubmitted."""
    heard = Heard()
    settings = WorldSettings(stuck=True, cancel_seconds=(1e9, 1e9), cancel_in_flight=1.0)
    async with (
        simulate(settings=settings, speed=400_000) as sim,
        runner_on(sim, on_event=heard) as runner,
    ):
        result = await runner.run(items(3))

        (alarm,) = heard.of(DeadlineExceeded)
        (canceled,) = sim.calls("cancel")
        deadline = alarm.expires_at.timestamp() + FAST.grace
        assert canceled.at >= deadline
        looks = [call.at for call in sim.calls("retrieve")]
        assert any(deadline <= at <= canceled.at for at in looks)
        assert {o.reason for o in result.unresolved} == {"overdue"}
        assert len(sim.creates) == 1
        # 25.5 h of a world 400,000 times as fast, at 20 ms a look.
        assert len(looks) <= 30


# -- C15: `canceling` is not "done" ------------------------------------------------------------


async def test_c15_canceling_is_waited_out_and_every_line_counts():
    """Canceled in the Console: told by name, finished answers kept, the others sent again."""
    heard = Heard()
    settings = WorldSettings(
        duration=(50_000, 50_000), cancel_seconds=(3_000, 3_000), cancel_in_flight=0.5
    )
    async with simulate(settings=settings) as sim, runner_on(sim, on_event=heard) as runner:
        task = asyncio.create_task(runner.run(items(20)))
        await heard.until(ShardSubmitted)
        async with anthropic.AsyncAnthropic(**sim.client_options()) as console:
            await console.messages.batches.cancel(heard.of(ShardSubmitted)[0].batch_id)
        sim.world.configure(duration=(60, 60))
        result = await task

        assert result.complete
        assert {event.by for event in heard.of(BatchCanceled)} == {"elsewhere"}
        first, second = sim.creates
        assert 0 < len(second.custom_ids) < len(first.custom_ids)
        assert sim.world.books().billed_twice == {}
        assert not any(call.status == 404 for call in sim.calls("results"))


# -- C16: a status or body the client has never seen -------------------------------------------


def change(**fields: object) -> Mutate:
    """Return an action that sets fields of the batch object."""

    def apply(reply: Reply) -> None:
        reply.body.update(fields)

    return Mutate(apply)


async def test_c16_an_unknown_status_is_told_once_and_waited_out():
    """It is neither done nor a failure."""
    heard = Heard()
    async with simulate(settings=LONG) as sim, runner_on(sim, on_event=heard) as runner:
        sim.on("retrieve", [change(processing_status="paused_review")] * 3)
        result = await runner.run(items(3))

        assert result.complete
        assert [event.status for event in heard.of(StatusUnknown)] == ["paused_review"]


async def test_c16_an_unknown_status_with_results_is_read():
    """A new word for "ended" that gives an address of results is taken at its results."""

    def rename(reply: Reply) -> None:
        if reply.body["processing_status"] == "ended":
            reply.body["processing_status"] = "partially_succeeded"

    heard = Heard()
    async with simulate() as sim, runner_on(sim, on_event=heard) as runner:
        sim.on("retrieve", Mutate(rename))
        result = await runner.run(items(3))

        assert result.complete
        assert heard.of(DeadlineExceeded) == []


async def test_c16_an_unknown_status_for_ever_is_bounded_like_any_other():
    """It runs into the batch's own deadline and is held."""
    async with simulate(speed=400_000) as sim, runner_on(sim) as runner:
        sim.on(
            "retrieve", change(processing_status="paused_review", ended_at=None, results_url=None)
        )
        result = await runner.run(items(3))

        # Its results are there all the same, so the last look keeps them.
        assert result.complete or {o.reason for o in result.unresolved} == {"overdue"}
        assert len(sim.creates) == 1


@pytest.mark.parametrize(
    ("kind", "reason"), [("api_error", None), ("authentication_error", "account")]
)
async def test_c16_an_error_with_status_200_is_that_error(kind, reason):
    """It goes through the table of faults by its type."""
    body = {"type": "error", "error": {"type": kind, "message": "as told"}, "request_id": "req_1"}
    async with simulate(settings=LONG) as sim, runner_on(sim) as runner:
        sim.on("retrieve", Respond(200, body), times=2)
        result = await runner.run(items(3))

        assert {o.reason for o in result.unresolved} == ({reason} if reason else set())


async def test_c16_odd_fields_of_a_known_object_do_no_harm():
    """Missing counts, nulls, unreadable and absurd times, keys nobody knows."""
    odd = {
        "request_counts": None,
        "created_at": "yesterday",
        "expires_at": "0001-01-01T00:00:00+14:00",
        "archived_at": 7,
        "cancel_initiated_at": [],
        "new_key": {"x": 1},
    }
    async with simulate(settings=LONG) as sim, runner_on(sim) as runner:
        sim.on("*", lambda call: change(**odd) if call.route in {"create", "retrieve"} else None)
        result = await runner.run(items(3))

        assert result.complete


# -- C17: polling hundreds of batches, and waves instead of a window ---------------------------


async def test_c17_many_batches_share_one_budget(tmp_path):
    """Hundreds at once after a restart: few in flight, spread, none before its hint."""
    heard = Heard()
    settings = WorldSettings(duration=(40_000, 40_000), poll_hint=0.25)
    limits = ShardLimits(max_requests=1, concurrency=32)
    async with simulate(settings=settings) as sim:
        async with runner_on(sim, tmp_path / "run.db", limits=limits, on_event=heard) as runner:
            task = asyncio.create_task(runner.run(items(150)))
            while len(heard.of(ShardSubmitted)) < 150:
                await asyncio.sleep(0.005)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
        before = len(sim.requests)
        peak = sim.peak_concurrency("retrieve")

        # Pages that answer for many at once are refused here, so that each is looked at alone.
        pages = sim.on(
            lambda call: call.route == "list" and call.query.get("limit") != "1", Error(500)
        )
        sim.on("retrieve", Delay(0.01))
        polling = Polling(interval=0.5)
        async with runner_on(sim, tmp_path / "run.db", limits=limits, polling=polling) as runner:
            result = await runner.run(items(150))

        assert result.complete
        assert pages.hits
        assert max(peak, sim.peak_concurrency("retrieve")) <= MAX_IN_FLIGHT
        looks: dict[str, list[float]] = {}
        for call in sim.requests[before:]:
            if call.route == "retrieve":
                looks.setdefault(call.batch_id, []).append(call.at / 12_000)
        gaps = [b - a for at in looks.values() for a, b in itertools.pairwise(at)]
        assert all(gap >= 0.25 for gap in gaps)
        assert all(call.status != 429 for call in sim.requests)


async def test_c17_a_window_of_live_batches_and_not_waves_of_them():
    """At most three alive; one that is slow holds up no other."""
    heard = Heard()
    settings = WorldSettings(duration=lambda number, _: 12_000.0 if number == 1 else 1_200.0)
    limits = ShardLimits(max_requests=2, max_live=3)
    async with (
        simulate(settings=settings) as sim,
        runner_on(sim, limits=limits, on_event=heard) as runner,
    ):
        result = await runner.run(items(18))

        assert result.complete
        alive: set[int] = set()
        most, sent_before_slow = 0, 0
        for event in heard:
            if isinstance(event, ShardSubmitted):
                alive.add(event.shard)
                sent_before_slow += 1 in alive
            elif isinstance(event, BatchEnded):
                alive.discard(event.shard)
            most = max(most, len(alive))
        assert most == 3
        assert sent_before_slow == 9


# -- C18: time limits that fire on the wrong clock ---------------------------------------------


class JumpingClock(SystemClock):
    """The machine's time, with a jump of the wall clock when told to."""

    ahead = timedelta()

    def now(self) -> datetime:
        return super().now() + self.ahead


async def test_c18_a_lid_that_was_closed_for_thirty_hours():
    """(a) The first thing after waking is a look, and the answer in hand beats the deadline."""
    heard = Heard()
    wall = JumpingClock()
    async with simulate(speed=1.0, settings=WorldSettings(duration=(1e6, 1e6))) as sim:
        with use_clock(wall):
            async with runner_on(sim, on_event=heard) as runner:
                task = asyncio.create_task(runner.run(items(3)))
                await heard.until(BatchPolled)
                wall.ahead = timedelta(hours=30)
                sim.world.finish(next(iter(sim.world.batches)))
                result = await task

    assert result.complete
    assert heard.of(DeadlineExceeded) == []
    assert sim.calls("cancel") == []


@pytest.mark.parametrize("hours", [-30.0, -3.0, 3.0, 30.0])
async def test_c18_a_clock_that_is_hours_off(hours):
    """(b) Deadlines are the server's and are measured on its clock."""
    heard = Heard()
    world = ScaledClock(1.0, start=datetime.now(UTC).timestamp() + hours * 3_600)
    async with (
        simulate(clock=world, settings=WorldSettings(duration=(0.3, 0.3))) as sim,
        runner_on(sim, on_event=heard, polling=Polling(interval=0.05, grace=0.0)) as runner,
    ):
        result = await runner.run(items(3))

        assert result.complete
        assert heard.of(DeadlineExceeded) == []
        assert len(sim.creates) == 1


async def test_c18_a_call_s_time_limit_is_not_the_batch_s(monkeypatch):
    """(c) A batch may take far longer than any one call may."""
    monkeypatch.setattr("batchwright._gateway.CALL_TIMEOUT", 0.1)
    monkeypatch.setattr("batchwright._gateway.CREATE_TIMEOUT", 0.3)
    settings = WorldSettings(duration=(6_000, 6_000))
    async with simulate(settings=settings) as sim, runner_on(sim) as runner:
        result = await runner.run(items(3))

        assert result.complete
        assert len(sim.creates) == 1


async def test_c18_absurd_limits_do_not_overflow():
    """(d) 1e12 seconds, the year 9999, and hints of ages."""
    polling = Polling(interval=0.02, grace=1e12)
    retry = RetryBudget(backoff=0.01, max_backoff=1e12)
    far = datetime(9999, 12, 31, tzinfo=UTC)
    assert deadline_of(far, far, 1e12) == far
    assert read_time("9999-12-31T23:59:59-14:00") is None
    async with simulate() as sim, runner_on(sim, polling=polling, retry=retry) as runner:
        sim.on("create", change(expires_at="9999-12-31T23:59:59Z"))
        result = await runner.run(items(3))

        assert result.complete


# -- C19: progress that lies -------------------------------------------------------------------


async def test_c19_numbers_that_never_lie():
    """100 stay 100; what is done never shrinks; a live batch counts as in flight, not as done."""
    heard = Heard()
    mixed = {
        "a": errored("invalid_request_error", "bad"),
        "b": [cancel(), succeed()],
        "c": [expire(), succeed()],
        "d": [errored("overloaded_error"), succeed()],
    }
    asked = [
        (f"{'abcd'[i % 10]}-{i}" if i % 10 < 4 else f"x-{i}", body)
        for i, (_, body) in enumerate(items(100))
    ]
    settings = WorldSettings(duration=(1_500, 3_000), live_counts=True)
    async with (
        simulate(settings=settings) as sim,
        runner_on(sim, on_event=heard, limits=ShardLimits(max_requests=40)) as runner,
    ):
        for letter, fate in mixed.items():
            for i in range(100):
                sim.fate_for(f"{letter}-{i}", fate)
        result = await runner.run(asked)

    told = heard.of(Progressed)
    done = [p.succeeded + p.quarantined + p.rejected + p.unresolved for p in told]
    assert {p.total for p in told} == {100}
    assert {
        p.waiting + p.in_flight + p.succeeded + p.quarantined + p.rejected + p.unresolved
        for p in told
    } == {100}
    assert done == sorted(done)
    first_end = next(i for i, event in enumerate(heard) if isinstance(event, BatchEnded))
    before = [event for event in heard[:first_end] if isinstance(event, Progressed)]
    assert {p.succeeded for p in before} == {0}
    assert done[-1] == 100
    assert result.counts["quarantined"] == 10
    assert result.counts["succeeded"] == 90
    assert_conserved(result, 100)
    assert_own_answers(result, [one for one in asked if result[one[0]].status == "succeeded"])
    assert heard.of(CallRetried) == []
