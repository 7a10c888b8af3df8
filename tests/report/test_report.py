"""The run report: built from the store alone, it tells what was asked, what happened and why."""

from __future__ import annotations

from tests.support import items, runner_on

from batchwright import RunReport
from batchwright.simulator import errored
from batchwright.testing import simulate


async def test_the_report_of_a_run_holds_everything(tmp_path):
    """R28: The JSON report tells outcomes, batches and money, and any process reads it back."""
    store = tmp_path / "run.db"
    async with simulate() as sim, runner_on(sim, store) as runner:
        result = await runner.run(items(30))
    async with simulate() as sim, runner_on(sim, store) as other:
        report = await other.report()

    assert RunReport.model_validate_json(report.model_dump_json()) == report
    told = {"reported_at", "stopped_by"}
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
