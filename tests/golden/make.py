"""
Make a store that was stopped in each state a sub-batch can be in: `python -m tests.golden.make`.

The files are kept for ever: every later version must resume what this one left behind. A new
version of the schema adds a folder of its own and leaves the older ones as they are.
"""

from __future__ import annotations

import asyncio
import sqlite3
from datetime import UTC, datetime, timedelta
from pathlib import Path

from tests.postgres.server import Server, running

from batchwright import Item
from batchwright._intake import IntakeRules, encode_item
from batchwright._shards import cut
from batchwright.store import (
    CheckpointStore,
    ItemState,
    Owner,
    Rest,
    Settlement,
    Shard,
    ShardPlan,
    ShardState,
)
from batchwright.stores.postgres import PostgresStore
from batchwright.stores.sqlite import SQLiteStore
from batchwright.types import Tokens

HERE = Path(__file__).parent
RUN = "golden"
NOW = datetime(2026, 11, 29, 12, tzinfo=UTC)
OWNER = Owner(host="golden", boot="golden", pid=1, started="0", instance="golden")
RULES = IntakeRules(run_id=RUN, max_bytes=250_000_000, api_version="2026-10-21")
STATES = ("planned", "sending", "live", "ended", "part_harvested", "held", "done")
COUNT = 6
#: Name of the PostgreSQL schema in a file; whoever loads it puts another in its place.
SCHEMA = "golden_store"


def question(number: int) -> dict[str, object]:
    """Return the question of golden item *number*."""
    return {
        "model": "claude-haiku-4-5",
        "max_tokens": 16,
        "messages": [{"role": "user", "content": f"golden question {number}"}],
    }


ITEMS = [(f"golden-{n}", question(n)) for n in range(COUNT)]


async def make(store: CheckpointStore, state: str) -> None:
    """Fill an empty store whose only sub-batch stands in *state*."""
    await store.open()
    lease = await store.acquire(RUN, OWNER, NOW, replacing=None)
    intake = await store.begin_intake(lease)
    rows = [encode_item(Item(*item), n, RULES) for n, item in enumerate(ITEMS)]
    await store.stage(lease, intake, rows, "error")
    await store.commit_intake(lease, intake)
    await store.start_wave(lease, frozenset())
    piece = cut(await store.read_pending(RUN, "", -1, 99), max_requests=99, max_bytes=250_000_000)
    plan = ShardPlan(
        spans=piece.spans,
        count=piece.count,
        size=piece.size,
        headers="",
        org="default",
        wave=1,
        planned_at=NOW,
    )
    shard = await store.plan_shard(lease, plan)
    await _move(store, lease, shard, state)
    await store.close()


def make_file(path: Path, state: str) -> None:
    """Write a SQLite store."""
    asyncio.run(make(SQLiteStore(path), state))
    with sqlite3.connect(path) as db:
        db.execute("PRAGMA journal_mode=DELETE")
    db.close()


async def _move(store: CheckpointStore, lease: object, shard: Shard, state: str) -> None:
    async def to(state: ShardState, **facts: object) -> None:
        await store.move_shard(lease, 1, expect=frozenset(ShardState), to=state, **facts)

    if state == "planned":
        return
    await to(ShardState.SENDING, sent_at=NOW, facts={"server_clock": True})
    if state == "sending":
        return
    await to(
        ShardState.LIVE,
        batch_id="msgbatch_01golden",
        created_at=NOW,
        expires_at=NOW + timedelta(hours=24),
    )
    if state == "live":
        return
    if state == "held":
        rest = Rest(state=ItemState.UNRESOLVED, reason="overdue", charge=1)
        await to(ShardState.HELD, reason="overdue", rest=rest, facts={"charged": True})
        return
    await to(ShardState.ENDED, ended_at=NOW + timedelta(hours=1), counts={"succeeded": COUNT})
    if state == "ended":
        return
    members = await store.read_members(RUN, 1)
    told = members[:3] if state == "part_harvested" else members
    await store.settle(lease, 1, [answer(member.seq) for member in told])
    if state == "done":
        await to(ShardState.DONE, done_at=NOW + timedelta(hours=2))


def answer(seq: int) -> Settlement:
    """Return the stored answer to golden item *seq*."""
    return Settlement(
        seq=seq,
        state=ItemState.SUCCEEDED,
        org="default",
        batch_id="msgbatch_01golden",
        raw=b'{"type":"succeeded","message":{"content":[{"type":"text","text":"golden"}]}}',
        tokens=Tokens(input=3, output=1),
        model="claude-haiku-4-5",
    )


def make_dump(server: Server, path: Path, state: str) -> None:
    """Write the SQL that makes a PostgreSQL store."""
    asyncio.run(make(PostgresStore(server.url(SCHEMA)), state))
    dump = server.tool("pg_dump", "--schema", SCHEMA, "--inserts", "--no-owner")
    # What is left depends on no version of the server, and not on the program psql.
    noise = ("--", "SET ", "SELECT pg_catalog.set_config", "\\")
    lines = [line for line in dump.splitlines() if line and not line.startswith(noise)]
    path.write_text("\n".join(lines) + "\n")
    with server.connect() as conn:
        conn.execute(f"DROP SCHEMA {SCHEMA} CASCADE")
    conn.close()


def main() -> None:
    """Make the files of the present schemas; existing ones are never overwritten."""
    folder = HERE / "schema-1"
    folder.mkdir(exist_ok=True)
    with running() as server:
        for state in STATES:
            for path in (folder / f"{state}.db", folder / f"{state}.sql"):
                if not path.exists():
                    print(path.name)
                    if path.suffix == ".db":
                        make_file(path, state)
                    else:
                        make_dump(server, path, state)


if __name__ == "__main__":
    main()
