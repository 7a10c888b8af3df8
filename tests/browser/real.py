"""A real run to draw a page of: many items, two orgs, faults, and a switch."""

from __future__ import annotations

import logging
import tempfile
from contextlib import AsyncExitStack
from pathlib import Path

import anthropic
from tests.support import items

from batchwright import BatchRunner, Org, Polling, RetryBudget, Stay, Switch, WaveSnapshot
from batchwright.report.model import RunReport
from batchwright.simulator import Simulator, WorldSettings, errored, expire

#: A day of the simulated API in some seconds.
SPEED = 6_000.0


class WhenSomeHaveEnded:
    """A policy that gives a part of the rest to direct calls once some batches have ended."""

    def decide(self, snapshot: WaveSnapshot) -> Stay | Switch:
        """See `DispatchPolicy`."""
        if snapshot.ended < 6:
            return Stay("too early")
        return Switch("six have ended, and the page shall show a switch", share=0.05)


async def real_report(count: int) -> RunReport:
    """Run so many items against a simulated API and return the report."""
    # At such a speed batches end while they are canceled, which the log would tell of each time.
    logging.getLogger("batchwright").addHandler(logging.NullHandler())
    settings = WorldSettings(
        duration=(600.0, 40_000.0),
        error_rate=0.02,
        expiry_waits=True,
        truncate_rate=0.01,
        refusal_rate=0.001,
        message_seconds=(1.0, 3.0),
    )
    with tempfile.TemporaryDirectory() as folder, Simulator(speed=SPEED, settings=settings) as sim:
        sim.fate_for("doc-10*", expire())
        sim.fate_for("doc-77*", errored("invalid_request_error", "prompt is too long"))
        async with AsyncExitStack() as stack:
            clients = [
                await stack.enter_async_context(
                    anthropic.AsyncAnthropic(base_url=sim.url, api_key=f"key-of-{name}")
                )
                for name in ("research", "evals")
            ]
            runner = BatchRunner(
                orgs=[Org("research", clients[0]), Org("evals", clients[1])],
                store=Path(folder) / "run.db",
                policy=WhenSomeHaveEnded(),
                polling=Polling(interval=0.2),
                retry=RetryBudget(max_attempts=2, backoff=0.01, max_backoff=0.05),
            )
            await runner.run(items(count), collect=False)
            return await runner.report()
