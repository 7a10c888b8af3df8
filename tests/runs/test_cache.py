"""Questions that an earlier run was answered are not asked again."""

from __future__ import annotations

import shutil
from pathlib import Path

from tests.golden.make import ITEMS, RUN
from tests.support import Heard, assert_own_answers, items, params, runner_on, sent

from batchwright import Item, RetryBudget
from batchwright.events import AnsweredFromCache
from batchwright.simulator import errored, succeed
from batchwright.stores import MemoryStore
from batchwright.testing import simulate

GOLDEN = Path(__file__).parents[1] / "golden" / "schema-1" / "done.db"


def samples(count: int, prefix: str) -> list[tuple[str, dict[str, object]]]:
    """Return *count* items that ask the same question."""
    return [(f"{prefix}-{n}", params("how are you?")) for n in range(count)]


def answers(result) -> list[bytes]:
    """Return the bytes of every answer, in input order."""
    return [outcome.raw for outcome in result.outcomes]


def paths(result) -> list[str | None]:
    """Return by which path each item was answered."""
    return [outcome.via for outcome in result.outcomes]


async def test_only_new_questions_are_sent(sim, tmp_path):
    """R26: the cache is preserved: what an earlier run was answered is neither sent nor paid."""
    heard = Heard()
    old, new = items(60), [(f"new/{key}", asked) for key, asked in items(100)]
    async with runner_on(sim, tmp_path / "run.db", cache=True, on_event=heard) as runner:
        await runner.run(old, run_id="old")
        result = await runner.run(new, run_id="new")
        again = await runner.run(new, run_id="new")
    assert result.complete
    assert_own_answers(result, new)
    assert paths(result) == ["cache"] * 60 + ["batch"] * 40
    assert {o.attempts for o in result.outcomes[:60]} == {0}
    assert {(o.org, o.batch_id) for o in result.outcomes[:60]} == {(None, None)}
    assert answers(again) == answers(result)
    assert [len(create.custom_ids) for create in sim.creates] == [60, 40]
    assert [event.count for event in heard.of(AnsweredFromCache)] == [60]


async def test_it_is_off_by_default(sim):
    """A new run asks anew unless it is told otherwise."""
    async with runner_on(sim) as runner:
        await runner.run(items(5), run_id="old")
        result = await runner.run(items(5), run_id="new")
    assert paths(result) == ["batch"] * 5
    assert len(sim.creates) == 2


async def test_tokens_stand_apart(sim):
    """test_c36: an answer from the cache is counted under its own path, and costs nothing."""
    async with runner_on(sim, cache=True) as runner:
        first = await runner.run(items(4), run_id="old")
        result = await runner.run(items(6), run_id="new")
    paid, spent = first.report.tokens[0], {t.via: t for t in result.report.tokens}
    assert (spent["cache"].answers, spent["batch"].answers) == (4, 2)
    assert (spent["cache"].input, spent["cache"].output) == (paid.input, paid.output)
    assert (spent["cache"].usd, result.report.cost.by_path["cache"].usd) == (0, 0)
    assert all(evidence.holds for evidence in result.report.evidence)


async def test_samples_stay_samples(sim):
    """Five samples of one question take three answers of an earlier run, each once, and ask two."""
    async with runner_on(sim, cache=True) as runner:
        old = await runner.run(samples(3, "old"), run_id="old")
        result = await runner.run(samples(5, "new"), run_id="new")
        third = await runner.run(samples(7, "third"), run_id="third")
    assert paths(result) == ["cache"] * 3 + ["batch"] * 2
    assert answers(result)[:3] == answers(old)
    assert answers(third)[:5] == answers(result)
    assert len(set(answers(third))) == 7
    assert sum(sent(sim).values()) == 7


async def test_direct_answers_serve_as_well(sim):
    """test_c36: what came by a direct call is as good for the cache as what a batch brought."""
    async with runner_on(sim, "memory://", policy="sync", cache=True) as runner:
        await runner.run(items(5), run_id="old")
        result = await runner.run(items(5), run_id="new")
    assert paths(result) == ["cache"] * 5
    assert (len(sim.messages), len(sim.creates)) == (5, 0)


async def test_only_accepted_answers_are_taken(sim):
    """What was rejected or quarantined is asked anew, and `validate` judges what is taken."""
    sim.fate_for("doc-1", [errored("invalid_request_error"), succeed()])

    def no_two(outcome):
        return outcome.id != "doc-2"

    def no_three(outcome):
        return outcome.id != "doc-3"

    store = MemoryStore()
    async with runner_on(sim, store, validate=no_two) as runner:
        old = await runner.run(items(5), run_id="old")
    assert [o.status[0] for o in old.outcomes] == ["s", "q", "r", "s", "s"]
    async with runner_on(sim, store, validate=no_three, cache=True) as runner:
        result = await runner.run(items(5), run_id="new")
    assert paths(result) == ["cache", "batch", "batch", "batch", "cache"]
    assert [o.status[0] for o in result.outcomes] == ["s", "s", "s", "r", "s"]


async def test_a_broken_validator_keeps_the_answer(sim):
    """An answer on which `validate` broke is kept and judged again, and still nothing is sent."""

    def broken(outcome):
        raise RuntimeError("oh")

    store = MemoryStore()
    async with runner_on(sim, store) as runner:
        await runner.run(items(3), run_id="old")
    async with runner_on(sim, store, validate=broken, cache=True) as runner:
        result = await runner.run(items(3), run_id="new")
    assert {o.reason for o in result.unresolved} == {"validator"}
    async with runner_on(sim, store, cache=True) as runner:
        result = await runner.resume("new")
    assert paths(result) == ["cache"] * 3
    assert result.complete
    assert len(sim.creates) == 1


async def test_another_server_is_not_the_same_question(sim):
    """Answers of a simulator are not taken for those of whatever is talked to now."""
    store = MemoryStore()
    async with simulate(seed=7) as other, runner_on(other, store) as runner:
        await runner.run(items(3), run_id="old")
    async with runner_on(sim, store, cache=True) as runner:
        result = await runner.run(items(3), run_id="new")
    assert paths(result) == ["batch"] * 3
    assert_own_answers(result, items(3))


async def test_headers_are_part_of_the_question(sim):
    """The same body under another beta is another question."""
    betas = {"anthropic-beta": "context-1m-2025-08-07"}
    async with runner_on(sim, cache=True) as runner:
        await runner.run([Item("a", params("?"))], run_id="old")
        result = await runner.run(
            [Item("a", params("?"), headers=betas), Item("b", params("?"))], run_id="new"
        )
    assert paths(result) == ["batch", "cache"]


async def test_a_wholly_known_run_sends_nothing(sim, tmp_path):
    """No create, no canary and no look at a batch where everything is known; streams see it too."""
    asked = items(1_200)
    async with runner_on(sim, tmp_path / "run.db", canary=0) as runner:
        await runner.run(asked, run_id="old")
    before = len(sim.requests)
    async with runner_on(sim, tmp_path / "run.db", cache=True) as runner:
        result = await runner.run(asked, run_id="new")
        async with runner.stream(asked, run_id="streamed") as stream:
            streamed = [outcome async for outcome in stream]
    assert paths(result) == ["cache"] * 1_200
    assert sorted(o.id for o in streamed) == sorted(o.id for o in result.outcomes)
    assert len(sim.requests) == before


async def test_a_tried_item_waits_for_its_own_answer(sim):
    """An item that was sent before is not answered otherwise; only untried ones are looked up."""
    sim.fate_for("new-0", [errored("api_error"), succeed()])
    store, once = MemoryStore(), RetryBudget(max_attempts=1)
    async with runner_on(sim, store, retry=once, cache=True) as runner:
        failed = await runner.run(samples(1, "new"), run_id="new")
        assert failed.unresolved[0].reason == "exhausted"
        await runner.run(samples(1, "old"), run_id="old")
        result = await runner.resume("new", resubmit=["exhausted"])
    assert paths(result) == ["batch"]


async def test_stores_of_the_first_schema_answer(sim, tmp_path):
    """A store that an earlier version wrote serves as a cache like any other."""
    store = tmp_path / "run.db"
    shutil.copy(GOLDEN, store)
    async with runner_on(sim, store, cache=True) as runner:
        result = await runner.run(ITEMS, run_id=f"{RUN}-2")
    assert paths(result) == ["cache"] * len(ITEMS)
    assert {outcome.text for outcome in result.outcomes} == {"golden"}
    assert sim.creates == []
