"""A process to be killed: works on a run and tells what it does, one event a line."""

from __future__ import annotations

import asyncio
import sys

import anthropic

from batchwright import BatchRunner, Polling, RetryBudget, ShardLimits, SyncLimits
from batchwright.events import (
    BatchEnded,
    BatchHarvested,
    Conducting,
    Event,
    ItemsMerged,
    ShardSubmitted,
    WorkerJoined,
    WorkerLost,
)

TOLD = (
    BatchEnded,
    BatchHarvested,
    Conducting,
    ShardSubmitted,
    WorkerJoined,
    WorkerLost,
)
#: Direct calls of one process at once.
CONCURRENCY = 16


def tell(event: Event) -> None:
    if isinstance(event, ItemsMerged):
        done = event.succeeded + event.quarantined + event.rejected + event.unresolved
        print(type(event).__name__, done, flush=True)
    elif isinstance(event, TOLD):
        print(type(event).__name__, flush=True)


async def main(url: str, key: str, store: str, policy: str, shard: int) -> None:
    async with anthropic.AsyncAnthropic(base_url=url, api_key=key) as client:
        runner = BatchRunner(
            client=client,
            store=store,
            policy=policy,
            limits=ShardLimits(max_requests=shard),
            sync=SyncLimits(concurrency=CONCURRENCY),
            polling=Polling(interval=0.2),
            retry=RetryBudget(backoff=0.01),
            on_event=tell,
        )
        await runner.work()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:5], int(sys.argv[5])))
