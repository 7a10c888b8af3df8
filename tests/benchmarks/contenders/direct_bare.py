"""Bare aiohttp: bytes out, JSON in, the answers kept in a list; nothing is retried or stored."""

from __future__ import annotations

import asyncio
from typing import Any

import aiohttp
import orjson
from tests.benchmarks.meter import Asked, contend
from tests.benchmarks.questions import items


async def carry(asked: Asked) -> int:
    """Ask all items directly; return the number of answers."""
    gate = asyncio.Semaphore(asked.width)
    head = {
        "x-api-key": "sk-benchmark",
        "anthropic-version": "2023-06-01",
        "content-type": "application/json",
    }
    pool = aiohttp.TCPConnector(limit=asked.width)
    async with aiohttp.ClientSession(asked.url, headers=head, connector=pool) as http:

        async def ask(body: Any) -> Any:
            async with gate, http.post("/v1/messages", data=orjson.dumps(body)) as answer:
                return orjson.loads(await answer.read())

        questions = items(asked.items, asked.bytes)
        return len(await asyncio.gather(*(ask(body) for _, body in questions)))


if __name__ == "__main__":
    contend(carry)
