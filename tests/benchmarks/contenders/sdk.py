"""The plain loop over the SDK, as its documentation suggests: create, retrieve, results."""

from __future__ import annotations

import asyncio
import itertools
import json
from collections.abc import AsyncIterator

from anthropic import AsyncAnthropic
from anthropic.types.messages.batch_create_params import Request
from tests.benchmarks.meter import Asked, contend, part
from tests.benchmarks.questions import SHARD, items

#: Seconds between two looks at a batch.
LOOK = 0.5


async def send(client: AsyncAnthropic, asked: Asked) -> list[str]:
    """Upload every item; return the ids of the batches."""
    batches = []
    source = items(asked.items, asked.bytes)
    while some := list(itertools.islice(source, SHARD)):
        requests = [Request(custom_id=name, params=params) for name, params in some]
        batches.append((await client.messages.batches.create(requests=requests)).id)
    return batches


async def collect(client: AsyncAnthropic, batch: str) -> AsyncIterator[tuple[str, str]]:
    """Wait for the end of a batch; yield ids and texts."""
    while (await client.messages.batches.retrieve(batch)).processing_status != "ended":
        await asyncio.sleep(LOOK)
    async for line in await client.messages.batches.results(batch):
        if line.result.type == "succeeded":
            blocks = line.result.message.content
            yield line.custom_id, "".join(b.text for b in blocks if b.type == "text")


async def carry(asked: Asked) -> int:
    """Carry all items; return the number of answers."""
    count = 0
    async with AsyncAnthropic(base_url=asked.url, api_key="sk-benchmark") as client:
        with part("make, encode and upload the items"):
            batches = await send(client, asked)
        with (
            part("download, parse and write the results"),
            (asked.folder / "answers.jsonl").open("w") as file,
        ):
            for batch in batches:
                async for name, text in collect(client, batch):
                    file.write(json.dumps({"id": name, "text": text}) + "\n")
                    count += 1
    return count


if __name__ == "__main__":
    contend(carry)
