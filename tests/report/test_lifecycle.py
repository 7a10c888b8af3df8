"""What the report tells of each batch, of direct calls, and of what should not be."""

from __future__ import annotations

from datetime import timedelta

from tests.support import EAGER, Heard, items, run_interrupted, runner_on

from batchwright import RetryBudget, Stay, Switch
from batchwright.simulator import CutBody, Lines, WorldSettings, errored, expire, succeed
from batchwright.testing import simulate

THREE = RetryBudget(max_attempts=3, backoff=0.01, max_backoff=0.02)


class Race:
    """Moves everything to direct calls at the third tick, and waits for no batch to end."""

    confirmations = 1
    drain = "all"
    race = True

    def __init__(self):
        self.ticks = 0

    def decide(self, snapshot):
        self.ticks += snapshot.moment == "tick"
        return Switch("now") if self.ticks >= 3 else Stay("wait")


async def test_the_life_of_a_batch_is_told():
    """R31, R6: Intent, create, statuses as they were seen, end, and what its lines meant."""
    async with simulate() as sim, runner_on(sim, retry=THREE) as runner:
        sim.fate_for("doc-0", errored("invalid_request_error"))
        sim.fate_for("doc-1", [errored("api_error"), succeed()])
        sim.fate_for("doc-2", [expire(), succeed()])
        report = (await runner.run(items(12))).report

    first, second = report.batches
    assert first.sent_at <= first.created_at < first.ended_at <= first.done_at
    assert first.expires_at - first.created_at == timedelta(hours=24)
    assert [seen.status for seen in first.statuses][-1] == "ended"
    assert sum(seen.looks for seen in first.statuses) == first.polls
    assert first.lines.model_dump() == {
        "succeeded": 9,
        "errored": 2,
        "canceled": 0,
        "expired": 1,
        "other": 0,
        "none": 0,
    }
    told = first.results
    assert (told.succeeded, told.quarantined, told.again) == (9, 1, 2)
    assert second.results.succeeded == second.count == 2
    put_back = [(row.reason, row.after, row.items) for row in report.put_back]
    assert put_back == [("api_error", 1, 1), ("expired", 1, 1)]
    (quarantined,) = report.not_succeeded.listed
    assert (quarantined.id, quarantined.attempts) == ("doc-0", 1)
    assert quarantined.error.type == quarantined.reason == "invalid_request_error"
    assert all(one.holds for one in report.evidence)
    assert report.anomalies == []


async def test_looks_of_an_earlier_process_are_kept(tmp_path):
    """R12, R32: The life of a batch goes on where an interrupted process left it."""
    heard = Heard()
    async with simulate() as sim:
        async with runner_on(sim, tmp_path / "run.db", on_event=heard) as runner:
            await run_interrupted(runner, items(5), heard)
        async with runner_on(sim, tmp_path / "run.db") as other:
            report = (await other.resume()).report

    (batch,) = report.batches
    assert report.waves == 2
    assert (batch.wave, batch.state) == (1, "done")
    assert batch.polls >= 1
    assert [seen.status for seen in batch.statuses][-1] == "ended"


async def test_odd_results_are_told():
    """Lines that are missing, doubled, unknown or torn, and readings begun again, are told."""

    def odd(lines: list[bytes]) -> list[bytes]:
        stranger = lines[0].replace(b"doc-", b"who-")
        return [*lines[1:], lines[1], stranger, b"{torn\n"]

    async with simulate() as sim, runner_on(sim, retry=EAGER) as runner:
        sim.on("results", [CutBody(after_lines=2), Lines(odd), Lines(odd)])
        report = (await runner.run(items(6))).report

    found = {anomaly.kind: anomaly.count for anomaly in report.anomalies if anomaly.shard == 1}
    assert found == {"missing": 1, "doubled": 1, "unknown": 1, "torn": 1, "reread": 2}
    batch = report.batches[0]
    assert (batch.lines.none, batch.rereads) == (1, 2)
    assert batch.stored_before > 0
    (unknown,) = [one for one in report.anomalies if one.kind == "unknown"]
    assert unknown.examples[0].startswith("who-")
    assert all(one.holds for one in report.evidence)


async def test_a_count_that_is_not_that_of_the_lines_is_told():
    """Where the server counted otherwise than its own lines say, the difference is an anomaly."""

    def swap(lines: list[bytes]) -> list[bytes]:
        expired = lines[0].split(b'"result":')[0] + b'"result":{"type":"expired"}}\n'
        return [expired, *lines[1:]]

    async with simulate() as sim, runner_on(sim, retry=EAGER) as runner:
        sim.on("results", Lines(swap), times=1)
        report = (await runner.run(items(6))).report

    (anomaly,) = report.anomalies
    assert (anomaly.kind, anomaly.count, anomaly.shard) == ("miscounted", 1, 1)


async def test_a_switch_is_told_when_its_wave_is_over():
    """R23: Projections and premium of a switch stay in the report, and what went directly."""
    async with simulate() as sim, runner_on(sim, policy="sync") as runner:
        report = (await runner.run(items(20))).report
        later = (await runner.resume()).report

    for told in (report, later):
        (switch,) = told.switches
        assert (switch.wave, switch.remaining, switch.share) == (1, 20, 1.0)
        assert switch.sync_finish.source
        assert told.batches == []
        assert (told.direct.asked, told.direct.results.succeeded) == (20, 20)
        assert told.over_time[-1].sync == 20
    assert later.waves == 2


async def test_waste_is_tokens_and_money():
    """An answer that came after another one is counted, with its tokens and its price."""
    settings = WorldSettings(
        duration=(30_000, 30_000), cancel_seconds=(9_000, 9_000), cancel_in_flight=1.0
    )
    async with (
        simulate(settings=settings) as sim,
        runner_on(sim, policy=Race()) as runner,
    ):
        report = (await runner.run(items(10))).report

    (waste,) = report.waste
    assert (waste.via, waste.answers) == ("batch", 10)
    assert report.batches[0].late == 10
    assert report.cost.waste_usd == waste.usd > 0.0
    assert report.cost.usd == waste.usd + report.cost.by_path["sync"].usd
    assert report.cost.direct_usd == report.cost.by_path["sync"].usd
    assert all(one.holds for one in report.evidence)
