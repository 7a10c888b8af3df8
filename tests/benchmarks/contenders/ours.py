"""batchwright on the batch path: items from a generator, a SQLite store, nothing collected."""

from __future__ import annotations

from anthropic import AsyncAnthropic, DefaultAioHttpClient
from tests.benchmarks.meter import Asked, contend
from tests.benchmarks.questions import items

from batchwright import BatchRunner, Polling, RetryBudget


def runner_on(client: AsyncAnthropic, asked: Asked) -> BatchRunner:
    """Return a runner as anybody would make it, but that looks every half second."""
    # Where some items are to be left for a later call, they are tried once.
    retry = RetryBudget(max_attempts=1) if asked.failing else RetryBudget()
    store = asked.folder / "run.db"
    return BatchRunner(client=client, store=store, polling=Polling(interval=0.5), retry=retry)


async def carry(asked: Asked) -> int:
    """Carry all items; return the number of answers."""
    http = DefaultAioHttpClient()
    async with AsyncAnthropic(base_url=asked.url, api_key="sk-b", http_client=http) as client:
        source = items(asked.items, asked.bytes, prefix=f"of-{asked.items}", failing=asked.failing)
        result = await runner_on(client, asked).run(source, collect=False)
    return result.counts["succeeded"]


if __name__ == "__main__":
    contend(carry)
