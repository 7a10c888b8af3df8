"""The plain loop over the SDK: `gather` of `messages.create`, the answers kept in a list."""

from __future__ import annotations

import asyncio
from typing import Any

from anthropic import AsyncAnthropic
from tests.benchmarks.meter import Asked, contend
from tests.benchmarks.questions import items


async def carry(asked: Asked) -> int:
    """Ask all items directly; return the number of answers."""
    gate = asyncio.Semaphore(asked.width)
    async with AsyncAnthropic(base_url=asked.url, api_key="sk-benchmark") as client:

        async def ask(body: Any) -> Any:
            async with gate:
                return await client.messages.create(**body)

        questions = items(asked.items, asked.bytes)
        return len(await asyncio.gather(*(ask(body) for _, body in questions)))


if __name__ == "__main__":
    contend(carry)
