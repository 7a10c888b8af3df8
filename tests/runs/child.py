"""A process to be killed: runs items against a simulator and tells its events, one a line."""

from __future__ import annotations

import asyncio
import sys

import anthropic

from batchwright import BatchRunner, Polling, RetryBudget, ShardLimits


def tell(event: object) -> None:
    print(type(event).__name__, flush=True)


async def main(
    url: str, key: str, store: str, count: int, shard: int, live: int | None = None
) -> None:
    asked = (
        (
            f"doc-{i}",
            {
                "model": "claude-haiku-4-5",
                "max_tokens": 64,
                "messages": [{"role": "user", "content": f"question {i} of doc"}],
            },
        )
        for i in range(count)
    )
    async with anthropic.AsyncAnthropic(base_url=url, api_key=key) as client:
        runner = BatchRunner(
            client=client,
            store=store,
            limits=ShardLimits(max_requests=shard, max_live=live),
            # Calm enough: a lost create is believed absent after five of these, and a machine may
            # stall for a moment.
            polling=Polling(interval=0.1),
            retry=RetryBudget(backoff=0.01),
            on_event=tell,
        )
        print(await runner.run(asked), flush=True)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:4], *map(int, sys.argv[4:])))
