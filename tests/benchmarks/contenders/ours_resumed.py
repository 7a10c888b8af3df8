"""batchwright resuming the run that `ours` left, with the items that failed there."""

from __future__ import annotations

from anthropic import AsyncAnthropic, DefaultAioHttpClient
from tests.benchmarks.contenders.ours import runner_on
from tests.benchmarks.meter import Asked, contend


async def carry(asked: Asked) -> int:
    """Carry what is missing; return the number of answers that there are then."""
    http = DefaultAioHttpClient()
    async with AsyncAnthropic(base_url=asked.url, api_key="sk-b", http_client=http) as client:
        runner = runner_on(client, asked)
        result = await runner.resume(resubmit=["exhausted"], collect=False)
    return result.counts["succeeded"]


if __name__ == "__main__":
    contend(carry)
