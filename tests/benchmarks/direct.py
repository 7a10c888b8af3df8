"""
The sync path beside the plain loop over the SDK: `python -m tests.benchmarks.direct`.

Both ask the same items of the same server (another process) with the same number of calls under
way, in one run on one machine; the ratio is what tells. CPU is that of the client alone.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from pathlib import Path

import anthropic

from batchwright import BatchRunner, SyncLimits

from .questions import items

#: Bytes of a judge's question.
SIZE = 950
#: A file of its own, so that a server is not measured along.
SERVE = """
import asyncio, sys
BODY = (b'{"id":"msg_01bench","type":"message","role":"assistant",'
        b'"model":"claude-haiku-4-5-20251001","content":'
        b'[{"type":"text","text":"' + b'good ' * 20 + b'"}],"stop_reason":"end_turn",'
        b'"stop_sequence":null,"usage":{"input_tokens":200,"output_tokens":20}}')
HEAD = (b'HTTP/1.1 200 OK\\r\\ncontent-type: application/json\\r\\nrequest-id: req_bench\\r\\n'
        b'content-length: %d\\r\\n\\r\\n' % len(BODY))
class Fast(asyncio.Protocol):
    # Answers as soon as a request is whole, LATENCY later; it parses no more than it must.
    def connection_made(self, transport):
        self.transport, self.data = transport, b''
    def data_received(self, data):
        self.data += data
        while b'\\r\\n\\r\\n' in self.data:
            head, _, rest = self.data.partition(b'\\r\\n\\r\\n')
            size = 0
            for line in head.lower().split(b'\\r\\n'):
                if line.startswith(b'content-length:'):
                    size = int(line[15:])
            if len(rest) < size:
                return
            self.data = rest[size:]
            asyncio.get_running_loop().call_later(LATENCY, self.transport.write, HEAD + BODY)
LATENCY = float(sys.argv[1])
async def main():
    server = await asyncio.get_running_loop().create_server(Fast, '127.0.0.1', 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()
asyncio.run(main())
"""


async def plain_loop(client: anthropic.AsyncAnthropic, count: int, width: int) -> None:
    """Ask by `gather(messages.create)`, *width* at once, and keep nothing."""
    gate = asyncio.Semaphore(width)

    async def ask(body: dict[str, object]) -> None:
        async with gate:
            await client.messages.create(**body)  # type: ignore[arg-type]

    await asyncio.gather(*(ask(body) for _, body in items(count, SIZE)))


async def our_pool(client: anthropic.AsyncAnthropic, count: int, width: int) -> None:
    """Ask by the sync path, durable in SQLite."""
    with tempfile.TemporaryDirectory() as folder:
        runner = BatchRunner(
            client=client,
            store=Path(folder) / "run.db",
            policy="sync",
            sync=SyncLimits(concurrency=width),
            preflight=False,
            canary=0,
        )
        result = await runner.run(items(count, SIZE), collect=False)
        assert result.complete, result


@contextlib.asynccontextmanager
async def client_on(port: int, transport: str) -> AsyncIterator[anthropic.AsyncAnthropic]:
    """Open a client by one of the SDK's transports."""
    inner = anthropic.DefaultAioHttpClient() if transport == "aiohttp" else None
    async with anthropic.AsyncAnthropic(
        base_url=f"http://127.0.0.1:{port}", api_key="x", max_retries=0, http_client=inner
    ) as client:
        yield client


async def measure(
    port: int, how: str, transport: str, count: int, width: int
) -> tuple[float, float]:
    """Return wall and CPU seconds of one way."""
    work = plain_loop if how == "plain loop" else our_pool
    async with client_on(port, transport) as client:
        await client.messages.create(**next(items(1, SIZE))[1])  # type: ignore[arg-type]
        wall, cpu = time.perf_counter(), time.process_time()
        await work(client, count, width)
        return time.perf_counter() - wall, time.process_time() - cpu


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--items", type=int, default=6_000)
    parser.add_argument("--width", type=int, default=200)
    parser.add_argument("--latency", type=float, default=0.02)
    asked = parser.parse_args()
    argv = [sys.executable, "-c", SERVE, str(asked.latency)]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        port = int(server.stdout.readline())
        base = 0.0
        print(f"{asked.items} items, {asked.width} under way, latency {asked.latency} s")
        for how, transport in (
            ("plain loop", "httpx2"),
            ("plain loop", "aiohttp"),
            ("batchwright", "httpx2"),
            ("batchwright", "aiohttp"),
        ):
            wall, cpu = asyncio.run(measure(port, how, transport, asked.items, asked.width))
            base = base or wall
            print(
                f"{how:12} {transport:8} {asked.items / wall:7.0f} a second  "
                f"{cpu / asked.items * 1e3:6.2f} ms CPU each  {base / wall:5.2f} x the plain loop"
            )
        server.terminate()


if __name__ == "__main__":
    main()
