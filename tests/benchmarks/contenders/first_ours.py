"""The moment at which batchwright's first batch exists, printed."""

from __future__ import annotations

import asyncio
import logging
import sys
import time

from anthropic import AsyncAnthropic
from tests.benchmarks.questions import items

from batchwright import BatchRunner, ShardSubmitted
from batchwright.events import Event


async def first(url: str, count: int, size: int) -> None:
    """Run until the first batch exists."""
    made = asyncio.Event()

    def hear(event: Event) -> None:
        if isinstance(event, ShardSubmitted):
            print(time.time())
            made.set()

    async with AsyncAnthropic(base_url=url, api_key="sk-b") as client:
        runner = BatchRunner(client=client, store="memory://", on_event=hear)
        run = asyncio.create_task(runner.run(items(count, size)))
        await made.wait()
        run.cancel()


if __name__ == "__main__":
    logging.disable()
    asyncio.run(first(sys.argv[1], int(sys.argv[2]), int(sys.argv[3])))
