"""
Make what the package ships of its reports: `python -m tests.report.make [--schemas]`.

The schemas follow the models; the fixtures are reports of real runs against the simulated API.
With `--schemas` only the schemas are made.
"""

from __future__ import annotations

import asyncio
import re
import sys
from collections.abc import AsyncIterator
from pathlib import Path

from tests.support import EAGER, Heard, items, params, run_interrupted, runner_on

from batchwright import Item, PlanReport, RetryBudget, RunReport, ShardLimits, Stay, Switch
from batchwright.report.schema import SCHEMA_FILES, made_schema
from batchwright.simulator import Lines, WorldSettings, errored, expire, succeed
from batchwright.testing import simulate

PACKAGE = Path(__file__).parents[2] / "src" / "batchwright" / "report"
#: A model that no table of prices knows.
UNPRICED = "claude-nova-0"


class Once:
    """Moves everything to direct calls at the third tick, and waits for no batch to end."""

    confirmations = 1
    drain = "all"
    race = True

    def __init__(self) -> None:
        self.ticks = 0

    def decide(self, snapshot: object) -> Stay | Switch:
        """Count the ticks."""
        self.ticks += snapshot.moment == "tick"  # type: ignore[attr-defined]
        return Switch("the batches take too long") if self.ticks >= 3 else Stay("not yet")


async def mixed() -> RunReport:
    """Every outcome, retries, an answer without a price, and results that are odd."""

    def odd(lines: list[bytes]) -> list[bytes]:
        stranger = lines[0].replace(b"doc-", b"who-")
        return [*lines, lines[0], stranger, b"{torn\n"]

    def judge(outcome: object) -> bool:
        return outcome.id != "doc-6"  # type: ignore[attr-defined]

    retry = RetryBudget(max_attempts=2, backoff=0.01, max_backoff=0.02)
    settings = WorldSettings(models=frozenset({UNPRICED}))
    async with (
        simulate(settings=settings) as sim,
        runner_on(sim, retry=retry, validate=judge, limits=ShardLimits(max_requests=8)) as runner,
    ):
        sim.fate_for("doc-0", errored("invalid_request_error", "messages: Field required"))
        sim.fate_for("doc-1", [errored("api_error"), succeed()])
        sim.fate_for("doc-2", [expire(), succeed()])
        sim.fate_for("doc-3", errored("overloaded_error", "Overloaded"))
        sim.on("results", [None, Lines(odd)])
        asked = [*items(14), ("doc/14", params("Which?", model=UNPRICED)), ("doc-15", {"x": 1})]
        return (await runner.run([Item(*one) for one in asked])).report


async def switched() -> RunReport:
    """A wave that moved to direct calls while its batches were alive, and paid twice for some."""
    settings = WorldSettings(
        duration=(30_000, 30_000), cancel_seconds=(9_000, 9_000), cancel_in_flight=0.5
    )
    async with (
        simulate(settings=settings) as sim,
        runner_on(sim, policy=Once(), limits=ShardLimits(max_requests=10)) as runner,
    ):
        return (await runner.run(items(30))).report


async def failed() -> RunReport:
    """A run in which nothing succeeded."""
    async with simulate() as sim, runner_on(sim, retry=EAGER) as runner:
        sim.fate_for("*", errored("api_error"))
        return (await runner.run(items(4))).report


async def going() -> RunReport:
    """A run that was interrupted: batches are alive, items wait."""
    heard = Heard()
    limits = ShardLimits(max_requests=5, max_live=1)
    settings = WorldSettings(duration=(80_000, 80_000))
    async with (
        simulate(settings=settings) as sim,
        runner_on(sim, on_event=heard, limits=limits) as runner,
    ):
        await run_interrupted(runner, items(12), heard)
        report: RunReport = await runner.report()
        return report


async def plan_wrong() -> PlanReport:
    """A plan in which everything is wrong that can be, on a store that knows some of it."""
    settings = WorldSettings(models=frozenset({UNPRICED}))
    async with (
        simulate(settings=settings) as sim,
        runner_on(sim, limits=ShardLimits(max_requests=4), canary=5) as runner,
    ):
        await runner.run([*items(12), ("doc-x", params("?"))])
        asked = [
            *items(12, "doc"),
            *[(f"new/{n}", params("Which?")) for n in range(9)],
            ("doc-0", params("again")),
            ("doc-x", params("another question")),
            ("bad", params("?", temperature=0.5)),
            ("nova", params("Which?", model=UNPRICED)),
            ("ends", params("Which?", model="claude-opus-4-5")),
            ("long", params("Which?", max_tokens=100_000)),
            ("none", params("Which?", model="claude-nope")),
            {"params": params("no id")},
        ]
        return await runner.plan(asked)


async def plan_sound() -> PlanReport:
    """A plan with which all is well: priced, counted, and new to its store."""
    async with simulate() as sim, runner_on(sim, limits=ShardLimits(max_requests=7)) as runner:
        beta = {"anthropic-beta": "files-api-2025-04-14"}
        asked = [Item(*one) for one in items(20)]
        return await runner.plan([*asked, Item("beta", params("?"), beta)])


async def plan_known() -> PlanReport:
    """A plan whose store tells how long answers are and how long batches take."""
    async with (
        simulate() as sim,
        runner_on(sim, limits=ShardLimits(max_requests=5), on_changed="rerun") as runner,
    ):
        await runner.run(items(40))
        asked = [*items(40)[1:], ("doc-0", params("asked otherwise")), *items(10, "more")]
        return await runner.plan(asked, offline=True)


async def fixtures() -> AsyncIterator[tuple[str, RunReport | PlanReport]]:
    """Yield the documents that are shipped, by name."""
    for make in (mixed, switched, failed, going):
        yield f"run-{make.__name__}", await make()
    for plan in (plan_wrong, plan_sound, plan_known):
        yield plan.__name__.replace("_", "-"), await plan()


async def main() -> None:
    """Write the files of the package."""
    for kind, name in SCHEMA_FILES.items():
        (PACKAGE / "schemas" / name).write_bytes(made_schema(kind))
    if "--schemas" in sys.argv:
        return
    async for name, report in fixtures():
        # The port of the simulator changes from run to run, and says nothing.
        text = re.sub(r"127\.0\.0\.1:\d+", "127.0.0.1:8788", report.model_dump_json(indent=1))
        (PACKAGE / "fixtures" / f"{name}.json").write_text(text + "\n", "utf-8")


if __name__ == "__main__":
    asyncio.run(main())
