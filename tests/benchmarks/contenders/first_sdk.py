"""The moment at which the SDK's first batch exists, printed."""

from __future__ import annotations

import asyncio
import sys
import time

from anthropic import AsyncAnthropic
from anthropic.types.messages.batch_create_params import Request
from tests.benchmarks.questions import items


async def first(url: str, count: int, size: int) -> None:
    """Make one batch."""
    requests = [Request(custom_id=name, params=params) for name, params in items(count, size)]
    async with AsyncAnthropic(base_url=url, api_key="sk-b") as client:
        await client.messages.batches.create(requests=requests)
    print(time.time())


if __name__ == "__main__":
    asyncio.run(first(sys.argv[1], int(sys.argv[2]), int(sys.argv[3])))
