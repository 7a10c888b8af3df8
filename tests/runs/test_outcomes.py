"""What becomes of each kind of result line, and of answers that need a look."""

from __future__ import annotations

import pydantic
import pytest
from tests.support import (
    EAGER,
    Heard,
    assert_conserved,
    assert_own_answers,
    items,
    params,
    runner_on,
    sent,
)

from batchwright import ConfigurationError, RetryBudget, ShardLimits
from batchwright.events import Anomaly, DeadlineExceeded, OrgPaused, ResultsReread
from batchwright.simulator import (
    CutBody,
    Error,
    Lines,
    WorldSettings,
    cancel,
    errored,
    expire,
    succeed,
)
from batchwright.testing import simulate

#: Stays in progress past its expiry, and takes no cancel either.
STUCK = WorldSettings(stuck=True, cancel_seconds=(1e9, 1e9), cancel_in_flight=1.0)
THREE = RetryBudget(max_attempts=3, backoff=0.01, max_backoff=0.02)


async def test_all_result_types():
    """R6, R7, R15: kept, quarantined, retried or listed, each by its own line."""
    async with simulate() as sim, runner_on(sim, retry=THREE) as runner:
        sim.fate_for("doc-0", errored("invalid_request_error", "messages: Field required"))
        sim.fate_for("doc-1", [errored("api_error"), succeed()])
        sim.fate_for("doc-2", [errored("overloaded_error"), errored("rate_limit_error"), succeed()])
        sim.fate_for("doc-3", [errored("timeout_error"), succeed()])
        sim.fate_for("doc-4", [expire(), succeed()])
        sim.fate_for("doc-5", [cancel(), succeed()])
        sim.fate_for("doc-6", errored("overloaded_error"))
        sim.fate_for("doc-7", errored("not_found_error", "model: nope"))
        sim.fate_for("doc-8", errored("some_new_error"))
        asked = items(12)
        result = await runner.run(asked)

        tries = {outcome.id: outcome.attempts for outcome in result.outcomes}
        wire = sent(sim)
        assert [o.id for o in result.quarantined] == ["doc-0", "doc-7", "doc-8"]
        assert [o.id for o in result.unresolved] == ["doc-6"]
        assert result["doc-6"].reason == "exhausted"
        assert result["doc-6"].error.type == "overloaded_error"
        assert result["doc-0"].error.message == "messages: Field required"
        assert result["doc-0"].reason == "invalid_request_error"
        assert tries["doc-0"] == wire[result["doc-0"].custom_id] == 1
        assert tries["doc-2"] == wire[result["doc-2"].custom_id] == 3
        assert tries["doc-6"] == wire[result["doc-6"].custom_id] == 3
        assert tries["doc-8"] == 3
        assert tries["doc-9"] == 1
        assert_conserved(result, 12)
        assert_own_answers(result, [one for one in asked if result[one[0]].status == "succeeded"])
        # Only the failed items were sent again, never a whole batch.
        assert [len(create.custom_ids) for create in sim.creates] == [12, 7, 3]


async def test_max_attempts_zero_is_refused():
    """R14: the retry cap is above zero, always."""
    for wrong in (0, -1, 1.5, True):
        with pytest.raises(ConfigurationError, match="max_attempts"):
            RetryBudget(max_attempts=wrong)


async def test_the_budget_survives_restarts():
    """Attempts are charged for what was tried, once, over all calls."""
    async with simulate() as sim, runner_on(sim, retry=RetryBudget(2, backoff=0.01)) as runner:
        sim.fate_for("*", errored("api_error"))
        first = await runner.run(items(2))
        second = await runner.resume()

        assert [o.attempts for o in first.outcomes] == [2, 2]
        assert [o.attempts for o in second.outcomes] == [2, 2]
        assert len(sim.creates) == 2


async def test_resubmit_gives_a_fresh_budget():
    """On a person's word exhausted items are tried anew, and their tries go on counting."""
    async with simulate() as sim, runner_on(sim, retry=RetryBudget(2, backoff=0.01)) as runner:
        sim.fate_for("doc-0", [errored("api_error"), errored("api_error"), succeed()])
        await runner.run(items(2))
        result = await runner.resume(resubmit=["exhausted"])

        assert result.complete
        assert result["doc-0"].attempts == 3


async def test_resubmit_refuses_reasons_that_need_no_word():
    """A typo is told what it takes."""
    async with simulate() as sim, runner_on(sim) as runner:
        await runner.run(items(1))
        with pytest.raises(ConfigurationError, match="exhausted"):
            await runner.resume(resubmit=["exausted"])


async def test_a_batch_that_never_ends_is_given_up_at_its_deadline():
    """R3, R4, R5: at expires_at plus grace one last look, cancel, harvest, alarm; items held."""
    heard = Heard()
    async with (
        simulate(settings=STUCK, speed=400_000) as sim,
        runner_on(sim, on_event=heard) as runner,
    ):
        result = await runner.run(items(4))

        (alarm,) = heard.of(DeadlineExceeded)
        (batch,) = result.report.batches
        assert alarm.batch_id == batch.batch_id
        assert alarm.expires_at == batch.expires_at
        assert {o.reason for o in result.unresolved} == {"overdue"}
        assert len(result.unresolved) == 4
        assert batch.state == "held"
        assert batch.canceled_by == "overdue"
        assert len(sim.creates) == 1
        (cancel_call,) = sim.calls("cancel")
        deadline = (alarm.expires_at - batch.created_at).total_seconds() + 1_800.0
        elapsed = cancel_call.at - batch.created_at.timestamp()
        assert elapsed >= deadline
        assert len(sim.calls("results")) == 1


async def test_an_overdue_batch_that_ends_by_our_cancel_is_held_by_its_lines():
    """Answers it still gave are kept; its canceled lines wait for a person, not for a day more."""
    settings = WorldSettings(stuck=True, cancel_in_flight=0.5)
    async with simulate(settings=settings, speed=400_000) as sim, runner_on(sim) as runner:
        result = await runner.run(items(20))

        assert 0 < result.counts["succeeded"] < 20
        assert {o.reason for o in result.unresolved} == {"overdue"}
        assert len(sim.creates) == 1
        again = await runner.resume(resubmit=["overdue"])
        assert set(sent(sim).values()) == {1, 2}
        assert again.counts["succeeded"] >= result.counts["succeeded"]


async def test_an_overdue_batch_that_ends_later_is_still_read():
    """No lost answer: every later wave looks once more, and what is there is kept."""
    async with simulate(settings=STUCK, speed=400_000) as sim, runner_on(sim) as runner:
        first = await runner.run(items(4))
        assert {o.reason for o in first.unresolved} == {"overdue"}

        sim.world.finish(next(iter(sim.world.batches)))
        again = await runner.resume()

        assert again.complete
        assert [o.attempts for o in again.outcomes] == [1, 1, 1, 1]
        assert len(sim.creates) == 1


async def test_zero_successes_are_the_look_of_a_running_batch():
    """R4: hours at processing=all trigger neither a cancel nor another create."""
    settings = WorldSettings(duration=(80_000, 80_000))
    heard = Heard()
    async with (
        simulate(settings=settings, speed=400_000) as sim,
        runner_on(sim, on_event=heard) as runner,
    ):
        result = await runner.run(items(4))

        assert result.complete
        assert sim.calls("cancel") == []
        assert len(sim.creates) == 1
        assert heard.of(DeadlineExceeded) == []


async def test_an_expired_batch_still_gives_its_paid_answers():
    """Expired and canceled lines are sent again; the answers beside them are kept at once."""
    async with simulate() as sim, runner_on(sim) as runner:
        sim.fate_for("doc-1", [expire(), expire(), succeed()])
        sim.fate_for("doc-3", [cancel(), succeed()])
        result = await runner.run(items(4))

        assert result.complete
        wire = sent(sim)
        assert wire[result["doc-0"].custom_id] == 1
        assert wire[result["doc-1"].custom_id] == 3
        assert wire[result["doc-3"].custom_id] == 2


async def test_missing_unknown_and_doubled_lines():
    """Results are reconciled: nobody hangs, nothing is guessed, the next call takes missing up."""
    heard = Heard()

    def spoil(lines):
        return [*lines[1:], lines[1], b'{"custom_id":"zzz","result":{"type":"canceled"}}']

    async with simulate() as sim, runner_on(sim, on_event=heard) as runner:
        rule = sim.on("results", Lines(spoil))
        result = await runner.run(items(5))
        sim.off(rule)

        (lost,) = result.unresolved
        assert lost.reason == "missing"
        assert {event.kind for event in heard.of(Anomaly)} == {"missing", "unknown", "doubled"}
        assert len(heard.of(ResultsReread)) == 1
        assert len(sim.calls("results")) == 2
        again = await runner.run(items(5))
        assert again.complete
        assert again[lost.id].attempts == 2


async def test_a_cut_result_stream_is_read_again():
    """A torn line never surfaces; every answer is stored once."""
    heard = Heard()
    async with simulate() as sim, runner_on(sim, on_event=heard) as runner:
        sim.on("results", [CutBody(after_lines=7), CutBody(after_lines=3, reset=True), None])
        result = await runner.run(items(20))

        assert result.complete
        assert_own_answers(result, items(20))
        assert len(sim.calls("results")) == 3
        assert len(heard.of(ResultsReread)) == 2
        assert [spent.answers for spent in result.report.tokens] == [20]


async def test_results_that_stay_unreadable_are_left_for_the_next_wave():
    """Bounded reading; the items say why, and the next call reads on without sending."""
    async with simulate() as sim, runner_on(sim) as runner:
        rule = sim.on("results", CutBody(after_lines=2))
        result = await runner.run(items(6))
        assert {o.reason for o in result.unresolved} == {"unreadable"}
        assert len(sim.calls("results")) == EAGER.call_attempts
        assert result.counts["succeeded"] == 2

        sim.off(rule)
        again = await runner.run(items(6))
        assert again.complete
        assert len(sim.creates) == 1


async def test_truncated_and_refused_answers_are_flagged():
    """Succeeded does not mean complete: kept, flagged, never retried by itself."""
    async with simulate() as sim, runner_on(sim) as runner:
        sim.fate_for("doc-0", succeed("half a", stop_reason="max_tokens"))
        sim.fate_for("doc-1", succeed("", stop_reason="refusal"))
        sim.fate_for("doc-2", succeed("…", stop_reason="pause_turn"))
        result = await runner.run(items(4))

        assert result["doc-0"].truncated
        assert result["doc-0"].text == "half a"
        assert result["doc-1"].refused
        assert result["doc-2"].truncated
        assert not result["doc-3"].truncated
        assert result.report.truncated == 2
        assert result.report.refused == 1
        assert len(sim.creates) == 1


class Verdict(pydantic.BaseModel):
    """What the judge should answer."""

    good: bool


async def test_answers_that_do_not_validate_are_kept_raw():
    """R26: rejected by a pydantic model, dropped from the answers, never coerced."""
    async with simulate() as sim, runner_on(sim, validate=Verdict) as runner:
        sim.fate_for("doc-0", succeed('{"good": true}'))
        sim.fate_for("doc-1", succeed("I think it is good."))
        result = await runner.run(items(2))

        (rejected,) = result.rejected
        assert rejected.id == "doc-1"
        assert rejected.text == "I think it is good."
        assert list(result.messages) == ["doc-0"]
        assert len(sim.creates) == 1
        again = await runner.run(items(2))
        assert [o.id for o in again.rejected] == ["doc-1"]
        assert len(sim.creates) == 1


async def test_validate_sees_the_callers_metadata_and_may_be_async():
    """An asynchronous callable refuses by returning False or raising ValueError."""

    async def check(outcome):
        if outcome.metadata == "no":
            return False
        if outcome.metadata == "never":
            raise ValueError("not this one")
        return None

    given = [
        {"id": "a", "params": params("a"), "metadata": "no"},
        {"id": "b", "params": params("b"), "metadata": "never"},
        {"id": "c", "params": params("c"), "metadata": "yes"},
    ]
    async with simulate() as sim, runner_on(sim, validate=check) as runner:
        result = await runner.run(given)

    assert [o.error.message for o in result.rejected] == ["validate returned False", "not this one"]
    assert list(result.messages) == ["c"]


async def test_a_rejected_answer_may_be_tried_again_within_the_budget():
    """With retry_rejected the cap still holds, and the last answer is kept."""
    async with (
        simulate() as sim,
        runner_on(sim, validate=Verdict, retry_rejected=True, retry=THREE) as runner,
    ):
        sim.fate_for("doc-0", [succeed("no json"), succeed('{"good": false}')])
        sim.fate_for("doc-1", succeed("never json"))
        result = await runner.run(items(2))

        assert list(result.messages) == ["doc-0"]
        assert result["doc-1"].status == "rejected"
        assert result["doc-1"].attempts == 3
        assert result["doc-1"].text == "never json"


async def test_a_validator_that_breaks_is_not_a_rejection():
    """The answer is stored, and the next call judges it again without a request."""
    broken = True

    def check(outcome):
        if broken and outcome.id == "doc-1":
            raise KeyError("a bug of the caller's")

    async with simulate() as sim, runner_on(sim, validate=check) as runner:
        result = await runner.run(items(3))
        assert [(o.id, o.reason) for o in result.unresolved] == [("doc-1", "validator")]
        assert result["doc-1"].text

        broken = False
        again = await runner.resume()
        assert again.complete
        assert again["doc-1"].attempts == 1
        assert len(sim.creates) == 1
        assert [spent.answers for spent in again.report.tokens] == [3]


async def test_credit_lines_are_the_accounts_and_not_the_items():
    """The items wait, uncharged; nothing is created until somebody acts; resume sends just them."""
    heard = Heard()
    credit = errored("invalid_request_error", "Your credit balance is too low to access the API.")
    async with simulate() as sim, runner_on(sim, on_event=heard) as runner:
        sim.fate_for(lambda custom_id: custom_id.startswith(("doc-1", "doc-2")), [credit])
        result = await runner.run(items(30))
        held = [o for o in result.unresolved if o.reason == "account"]
        assert len(held) == 22
        assert all(o.attempts == 0 for o in held)
        assert result.quarantined == ()
        assert result.stopped[0][0] == "account"
        assert len(sim.creates) == 1
        assert len(heard.of(OrgPaused)) == 1

        again = await runner.resume()
        assert again.complete
        assert sorted(len(create.custom_ids) for create in sim.creates) == [22, 30]


async def test_a_key_that_may_not_is_asked_once():
    """A permission fault of the account: one create, nothing quarantined, the run returns."""
    async with (
        simulate() as sim,
        runner_on(sim, limits=ShardLimits(max_requests=5)) as runner,
    ):
        sim.on("create", Error(403))
        result = await runner.run(items(20))

        assert {o.reason for o in result.unresolved} == {"account"}
        assert len(sim.calls("create")) == 1
        assert result.stopped[0][0] == "account"
