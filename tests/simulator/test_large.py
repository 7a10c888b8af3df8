"""Large bodies: memory and the event loop must not feel them whole."""

from __future__ import annotations

import asyncio
import tracemalloc
from contextlib import asynccontextmanager

import orjson
import pytest

from batchwright.simulator import ManualClock, Simulator, WorldSettings

HEADERS = {"x-api-key": "k", "anthropic-version": "2023-06-01"}
PATH = "/v1/messages/batches"


@asynccontextmanager
async def watched_loop(pauses):
    """Record every turn that somebody else got meanwhile."""

    async def watch():
        loop = asyncio.get_running_loop()
        while True:
            before = loop.time()
            await asyncio.sleep(0.001)
            pauses.append(loop.time() - before)

    watcher = asyncio.create_task(watch())
    try:
        yield
    finally:
        watcher.cancel()
        await asyncio.gather(watcher, return_exceptions=True)


async def http_exchange(sim, method, path, pieces=()):
    """Send one request by hand and yield the pieces of what comes back."""
    host, port = sim.url.removeprefix("http://").split(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    size = sum(map(len, pieces))
    head = [f"{method} {path} HTTP/1.1", "host: x", "connection: close", f"content-length: {size}"]
    head += [f"{name}: {value}" for name, value in HEADERS.items()]
    writer.write("\r\n".join([*head, "", ""]).encode())
    for piece in pieces:
        writer.write(piece)
        await writer.drain()
    while part := await reader.read(1 << 16):
        yield part
    writer.close()
    await writer.wait_closed()


def message(text):
    """Encode one request around a text."""
    body = {"messages": [{"role": "user", "content": text}], "max_tokens": 9}
    return {"model": "claude-haiku-4-5", **body}


@pytest.mark.slow
async def test_100_mb_create():
    """A 100 MB body is taken in without holding the loop or keeping the prompts."""
    text = 'x\\n"{[' * 2000
    item = orjson.dumps(message(text))
    count = 100_000_000 // (len(item) + 40)
    pieces = [b'{"requests":[']
    pieces += [
        b'%s{"custom_id":"a%d","params":%s}' % (b"," * (n > 0), n, item) for n in range(count)
    ]
    pieces.append(b"]}")
    pauses = []
    async with Simulator(clock=ManualClock()) as sim, watched_loop(pauses):
        answer = b"".join([part async for part in http_exchange(sim, "POST", PATH, pieces)])
        assert answer.startswith(b"HTTP/1.1 200 ")
        (create,) = sim.creates
        assert create.body_size == sum(map(len, pieces)) > 99_000_000
        assert len(create.custom_ids) == count
    # Counted, not timed: parsing it whole would have been one turn for everybody else.
    assert len(pauses) > 100


@pytest.mark.slow
async def test_100_000_result_lines():
    """100,000 lines are streamed: memory does not grow by the size of the whole."""
    clock, params = ManualClock(), message("x" * 50)
    async with Simulator(clock=clock, settings=WorldSettings(duration=(1, 1))) as sim:
        access = sim.world.admit(HEADERS)
        requests = ({"custom_id": f"a{n}", "params": params} for n in range(100_000))
        batch = sim.world.create(access, requests)
        clock.advance(1)
        pauses, size, lines = [], 0, 0
        tracemalloc.start()
        try:
            async with watched_loop(pauses):
                async for part in http_exchange(sim, "GET", f"{PATH}/{batch.id}/results"):
                    size, lines = size + len(part), lines + part.count(b'{"custom_id"')
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
    assert size > 50_000_000
    assert 99_900 <= lines <= 100_000  # a mark may be cut by the end of a piece
    assert peak < size / 4
    assert len(pauses) > 100
