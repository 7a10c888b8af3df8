"""batchwright's sync path: durable in SQLite, paced, retried."""

from __future__ import annotations

from anthropic import AsyncAnthropic, DefaultAioHttpClient
from tests.benchmarks.meter import Asked, contend
from tests.benchmarks.questions import items

from batchwright import BatchRunner, SyncLimits


async def carry(asked: Asked) -> int:
    """Ask all items directly; return the number of answers."""
    http = DefaultAioHttpClient()
    async with AsyncAnthropic(base_url=asked.url, api_key="sk-b", http_client=http) as client:
        runner = BatchRunner(
            client=client,
            store=asked.folder / "run.db",
            policy="sync",
            sync=SyncLimits(concurrency=asked.width),
            preflight=False,
            canary=0,
        )
        result = await runner.run(items(asked.items, asked.bytes), collect=False)
    return result.counts["succeeded"]


if __name__ == "__main__":
    contend(carry)
