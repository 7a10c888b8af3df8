"""batchwright on the batch path once more, with the CPU of its parts told apart."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextvars import ContextVar
from typing import Any

from anthropic import AsyncAnthropic, DefaultAioHttpClient
from tests.benchmarks.meter import Asked, contend, parts
from tests.benchmarks.questions import items

from batchwright import BatchRunner, Polling, _submit
from batchwright._harvest import Harvest
from batchwright._ingest import Ingest
from batchwright._threads import Worker

ENCODE = "make, check, encode and name the items"
UPLOAD = "put bodies together"
PARSE = "parse lines and judge them"
#: What is done on the thread of the store, by the names of its methods.
STORE = {
    "stage": "store: take the items in",
    "read_pending": "store: cut sub-batches",
    "plan_shard": "store: cut sub-batches",
    "read_bodies": "store: read bodies",
    "read_members": "store: read what was sent",
    "settle": "store: settle the answers",
}
REST = "the loop, HTTP, and all that is done once for a run"

_doing: ContextVar[str] = ContextVar("doing")


def timed(owner: Any, name: str, part: str) -> None:
    """Count the CPU of a function for *part*."""
    inner = getattr(owner, name)

    def outer(*args: Any, **options: Any) -> Any:
        began = time.thread_time()
        result = inner(*args, **options)
        parts[part] += time.thread_time() - began
        return result

    setattr(owner, name, outer)


def named(store: Any, name: str, part: str) -> None:
    """Count what a method of the store does on its thread for *part*."""
    inner = getattr(store, name)

    async def outer(*args: Any, **options: Any) -> Any:
        token = _doing.set(part)
        try:
            return await inner(*args, **options)
        finally:
            _doing.reset(token)

    setattr(store, name, outer)


def count_threads() -> None:
    """Count the CPU of each call on the store's thread."""
    inner = Worker.call

    async def call(self: Worker, work: Callable[[], Any]) -> Any:
        part = _doing.get("store: the rest")

        def outer() -> Any:
            began = time.thread_time()
            try:
                return work()
            finally:
                parts[part] += time.thread_time() - began

        return await inner(self, outer)

    Worker.call = call  # type: ignore[method-assign]


async def carry(asked: Asked) -> int:
    """Carry all items; return the number of answers."""
    began = time.process_time()
    timed(Ingest, "_take", ENCODE)
    timed(_submit, "entries", UPLOAD)
    timed(Harvest, "_read_line", PARSE)
    count_threads()
    http = DefaultAioHttpClient()
    async with AsyncAnthropic(base_url=asked.url, api_key="sk-b", http_client=http) as client:
        runner = BatchRunner(
            client=client, store=asked.folder / "run.db", polling=Polling(interval=0.5)
        )
        for name, part in STORE.items():
            named(runner._store, name, part)
        result = await runner.run(_counted(asked), collect=False)
    parts[REST] = time.process_time() - began - sum(parts.values())
    return result.counts["succeeded"]


def _counted(asked: Asked) -> Any:
    """Yield the items, with what it takes to make them counted where the floor counts it."""
    source = items(asked.items, asked.bytes, prefix="parts")
    while True:
        began = time.thread_time()
        item = next(source, None)
        parts[ENCODE] += time.thread_time() - began
        if item is None:
            return
        yield item


if __name__ == "__main__":
    contend(carry)
