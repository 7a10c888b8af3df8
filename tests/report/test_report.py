"""The run report: built from the store alone, it tells what was asked, what happened and why."""

from __future__ import annotations

from tests.support import Heard, items, params, runner_on

from batchwright import BatchRunner, RetryBudget, RunReport
from batchwright.report import build_report, read_standing, validate
from batchwright.simulator import Error, Lines, WorldSettings, errored
from batchwright.stores import MemoryStore
from batchwright.testing import simulate
from batchwright.testing._store_desk import NOW, answer, desk_on


async def test_the_report_of_a_run_holds_everything(tmp_path):
    """R28: The JSON report tells outcomes, batches and money, and any process reads it back."""
    store = tmp_path / "run.db"
    async with simulate() as sim, runner_on(sim, store) as runner:
        result = await runner.run(items(30))
    async with simulate() as sim, runner_on(sim, store) as other:
        report = await other.report()

    assert RunReport.model_validate_json(report.model_dump_json()) == report
    told = {"reported_at"}
    assert report.model_dump(exclude=told) == result.report.model_dump(exclude=told)
    assert report.asked.models == {"claude-haiku-4-5": 30}
    assert (report.items, report.outcomes["succeeded"], report.complete) == (30, 30, True)
    assert all(one.holds for one in report.evidence)
    assert report.over_time[-1].batch == 30


async def test_a_run_in_which_everything_failed_is_a_list():
    """R33: All items failing is a list of unresolved ids with their reasons, never a success."""
    async with simulate() as sim, runner_on(sim) as runner:
        sim.fate_for("*", errored("api_error"))
        report = (await runner.run(items(4))).report

    assert not report.complete
    assert report.not_succeeded.total == len(report.not_succeeded.listed) == 4
    assert {item.reason for item in report.not_succeeded.listed} == {"exhausted"}


async def test_no_answer_is_read_for_a_report():
    """Whatever the size of the answers, a report costs what did not succeed."""

    class Watched(MemoryStore):
        def __init__(self):
            super().__init__()
            self.asked = []

        async def read_rows(self, *where, **how):
            self.asked.append(how)
            return await super().read_rows(*where, **how)

    store = Watched()
    async with simulate() as sim, runner_on(sim, store) as runner:
        await runner.run(items(20))
        store.asked.clear()
        await runner.report()
        assert store.asked
        assert all(how["raw"] is False for how in store.asked)


async def test_what_is_left_out_of_the_list_is_counted(monkeypatch):
    """The report in a result lists less than `report` does, and says how much it leaves out."""
    monkeypatch.setattr("batchwright._session.LISTED_AT_THE_END", 3)
    async with simulate() as sim, runner_on(sim, retry=RetryBudget(max_attempts=1)) as runner:
        sim.fate_for("*", errored("api_error"))
        told = (await runner.run(items(5))).report.not_succeeded
        later = (await runner.report()).not_succeeded

    assert (told.total, len(told.listed), told.unlisted) == (5, 3, 2)
    assert (later.total, len(later.listed), later.unlisted) == (5, 5, 0)


async def test_a_run_without_items_has_a_report():
    """Nothing asked, nothing done, and the books balance."""
    async with simulate() as sim, runner_on(sim) as runner:
        report = (await runner.run([])).report

    assert (report.items, report.complete) == (0, True)
    assert (report.batches, report.over_time, report.ids.examples) == ([], [], [])


async def test_a_report_while_another_process_goes_on(tmp_path):
    """What changes while it is read is told as it was at some moment, and in order."""

    class Moving(MemoryStore):
        def __init__(self):
            super().__init__()
            self.left = []

        async def read_rows(self, *where, **how):
            if self.left:
                await self.desk.settle(1, answer(self.left.pop()))
            return await super().read_rows(*where, **how)

    store = Moving()
    store.desk = desk = await desk_on(store)
    await desk.fill(40)
    await desk.ship(*range(40))
    store.left = list(range(40))
    asked = BatchRunner(store=store)._options.asked({}, [])
    asked["talked_to"] = [{"org": "main", "base_url": "http://here", "api_version": "1"}]
    report = build_report(await read_standing(store, "run"), now=NOW, asked=asked)

    assert store.left
    apart = report.not_succeeded
    assert 0 < apart.total == len(apart.listed) + apart.unlisted < 40
    # What names an item here is not what names items in a run.
    broken = {f.rule for f in validate(report.model_dump_json().encode())}
    assert broken <= {"custom-id-policy/stable"}


async def test_half_a_character_from_the_wire_is_written():
    """An error with half an emoji in it does not keep the report from being written."""

    def halve(lines):
        error = b'{"type":"error","error":{"type":"invalid_request_error","message":"\\ud83d!"}}'
        head = lines[0].split(b'"result":')[0]
        return [head + b'"result":{"type":"errored","error":' + error + b"}}\n", *lines[1:]]

    async with simulate() as sim, runner_on(sim) as runner:
        sim.on("results", Lines(halve), times=1)
        report = (await runner.run(items(3))).report

    (item,) = report.not_succeeded.listed
    assert item.error.message == "?!"
    assert "?!" in report.model_dump_json()


async def test_an_unknown_price_is_unknown():
    """Tokens of a model without a price are counted; no sum over them is a number."""
    settings = WorldSettings(models=frozenset({"claude-nova-0"}))
    asked = [*items(3), ("new", params("Which?", model="claude-nova-0"))]
    async with simulate(settings=settings) as sim, runner_on(sim) as runner:
        report = (await runner.run(asked)).report

    known, unknown = report.tokens
    assert unknown.usd is report.cost.usd is report.cost.direct_usd is None
    assert unknown.output > 0
    assert report.cost.by_path["batch"].usd is None
    assert report.cost.known_usd == known.usd > 0
    assert report.cost.unknown_models == ["claude-nova-0"]
    assert report.cost.waste_usd == 0.0


async def test_everything_that_was_ever_talked_to_stands_in_the_report(tmp_path):
    """A run begun against one address and ended against another tells both."""
    heard = Heard()
    store = tmp_path / "run.db"
    async with simulate() as sim, runner_on(sim, store, retry=RetryBudget(5)) as runner:
        first = sim.url
        await runner.run(items(3))
    async with simulate() as sim, runner_on(sim, store, on_event=heard) as runner:
        second = sim.url
        report = (await runner.run(items(4))).report

    assert [talking.base_url for talking in report.talking_to] == [first, second]
    assert (report.options.retry.max_attempts, report.asked.attempt_cap) == (3, 5)


async def test_why_a_run_stopped_stands_in_its_report():
    """An account fault is told by any process, until a later wave has begun."""
    async with simulate() as sim, runner_on(sim) as runner:
        rule = sim.on("create", Error(401))
        await runner.run(items(3))
        (why,) = (await runner.report()).stopped_by
        sim.off(rule)
        await runner.resume()
        later = (await runner.report()).stopped_by

    assert "authentication_error" in why
    assert later == []
