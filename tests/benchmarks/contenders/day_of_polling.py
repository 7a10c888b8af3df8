"""A day of watching batches, on virtual time, with the real SDK; prints the requests it took."""

from __future__ import annotations

import logging
import sys
from collections import Counter

import httpx2
from tests.benchmarks.questions import items
from tests.simulation.loop import DAY, VirtualLoop
from tests.simulation.transport import SimClient, SimTransport
from tests.simulation.world import Scenario, SimWorld

from batchwright import BatchRunner, ShardLimits
from batchwright._clock import use_clock

#: Requests that look at batches.
LOOKS = ("api.retrieve", "api.list")


def looks_of_a_day(batches: int, *, strangers: int = 0) -> Counter[str]:
    """
    Watch *batches* batches that take a day; return how often each call looked.

    *strangers* batches of others come into the workspace after ours.
    """
    world = SimWorld(Scenario(level=2))
    world.server.world.configure(duration=(DAY - 60.0, DAY - 30.0), lifetime=DAY)
    life = world.be_born()
    loop = world.loop = VirtualLoop(steps=100_000_000)
    loop.call_later(600.0, world.server._foreign, strangers)
    with use_clock(life.clock):
        result = loop.run_until_complete(_watch(SimTransport(life), batches))
    assert result.complete, result
    loop.close()
    return Counter(op.name for op in world.history.named(*LOOKS))


async def _watch(transport: SimTransport, batches: int) -> object:
    http = httpx2.AsyncClient(transport=transport, base_url="https://api.sim")
    async with SimClient(api_key="sk-b", base_url="https://api.sim", http_client=http) as client:
        runner = BatchRunner(
            client=client, store="memory://", limits=ShardLimits(max_requests=1), policy="batch"
        )
        return await runner.run(items(batches, 100))


if __name__ == "__main__":
    logging.disable()
    count = int(sys.argv[1])
    print(*(looks_of_a_day(count, strangers=n).total() for n in (0, 3_000)))
