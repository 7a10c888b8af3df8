"""The least that a batch job can cost: straight-line orjson, sqlite3 and aiohttp, no features."""

from __future__ import annotations

import asyncio
import itertools
import sqlite3
from pathlib import Path

import aiohttp
import orjson
from tests.benchmarks.meter import Asked, contend, part
from tests.benchmarks.questions import SHARD, items

PATH = "/v1/messages/batches"
#: Lines that are stored together.
CHUNK = 1_000
STORE = "of that: store them"
#: Seconds between two looks at a batch.
LOOK = 0.5


def open_store(path: Path) -> sqlite3.Connection:
    """Create the two tables that are needed, with the journal that a careful author would set."""
    db = sqlite3.connect(path, isolation_level=None)
    db.execute("PRAGMA journal_mode = WAL")
    db.execute("PRAGMA synchronous = NORMAL")
    db.execute("CREATE TABLE questions (custom_id TEXT PRIMARY KEY, body BLOB)")
    db.execute("CREATE TABLE answers (custom_id TEXT PRIMARY KEY, line BLOB)")
    return db


def store(db: sqlite3.Connection, statement: str, rows: list[tuple[str, bytes]]) -> None:
    """Make *rows* durable together."""
    db.execute("BEGIN")
    db.executemany(statement, rows)
    db.execute("COMMIT")


async def send(http: aiohttp.ClientSession, db: sqlite3.Connection, asked: Asked) -> list[str]:
    """Store and upload every item; return the ids of the batches."""
    batches = []
    source = items(asked.items, asked.bytes)
    while True:
        with part("make and encode the items"):
            rows = [(name, orjson.dumps(p)) for name, p in itertools.islice(source, SHARD)]
        if not rows:
            return batches
        with part("store them"):
            store(db, "INSERT INTO questions VALUES (?, ?)", rows)
        with part("upload them"):
            batches.append(await create(http, rows))


async def create(http: aiohttp.ClientSession, rows: list[tuple[str, bytes]]) -> str:
    """Make one batch; return its id."""
    entries = (b'{"custom_id":"%b","params":%b}' % (n.encode(), body) for n, body in rows)
    body = b'{"requests":[' + b",".join(entries) + b"]}"
    async with http.post(PATH, data=body, headers={"content-type": "application/json"}) as answer:
        return str(orjson.loads(await answer.read())["id"])


async def wait(http: aiohttp.ClientSession, batch: str) -> None:
    """Look at the batch until it has ended."""
    while True:
        async with http.get(f"{PATH}/{batch}") as answer:
            if orjson.loads(await answer.read())["processing_status"] == "ended":
                return
        await asyncio.sleep(LOOK)


async def collect(http: aiohttp.ClientSession, db: sqlite3.Connection, batch: str) -> int:
    """Stream the results of one batch into the store; return how many there were."""
    count = 0
    rows: list[tuple[str, bytes]] = []
    async with http.get(f"{PATH}/{batch}/results") as answer:
        async for line in answer.content:
            rows.append((orjson.loads(line)["custom_id"], line))
            count += 1
            if len(rows) == CHUNK:
                with part(STORE):
                    store(db, "INSERT INTO answers VALUES (?, ?)", rows)
                rows = []
    with part(STORE):
        store(db, "INSERT INTO answers VALUES (?, ?)", rows)
    return count


async def carry(asked: Asked) -> int:
    """Carry all items; return the number of answers."""
    db = open_store(asked.folder / "floor.db")
    head = {"x-api-key": "sk-benchmark", "anthropic-version": "2023-06-01"}
    async with aiohttp.ClientSession(asked.url, headers=head) as http:
        batches = await send(http, db, asked)
        count = 0
        for batch in batches:
            await wait(http, batch)
            with part("download, parse and store the results"):
                count += await collect(http, db, batch)
    db.close()
    return count


if __name__ == "__main__":
    contend(carry)
