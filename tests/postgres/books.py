"""
What the tables of a store must add up to after whatever happened to it.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import psycopg
from tests.postgres.server import Server
from tests.support import assert_conserved, assert_own_answers, sent

from batchwright.simulator import Simulator


def check_tables(server: Server, schema: str) -> None:
    """Check the kept counters against a recount, and that the tables belong together."""
    with server.connect() as conn, conn.transaction():
        # One snapshot: a killed process may just be rolled back.
        conn.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        conn.execute(f"SET LOCAL search_path = {schema}")
        _check(conn)
    conn.close()


def _check(conn: psycopg.Connection[Any]) -> None:
    conn.execute(
        "CREATE TEMP VIEW there AS SELECT i.* FROM items i JOIN runs r ON r.number = i.key >> 40 "
        "WHERE i.key - (r.number::bigint << 40) < r.items"
    )
    kept = "SELECT convert_from(name, 'UTF8'), n FROM counts WHERE NOT staged AND n <> 0"
    counted = dict(conn.execute(f"{kept} AND kind = 'state'").fetchall())
    states = conn.execute("SELECT state::text, count(*) FROM there GROUP BY 1").fetchall()
    assert counted == dict(states), "the counters of states are those of the items"
    held = conn.execute(
        "SELECT convert_from(reason, 'UTF8'), count(*) FROM there "
        "WHERE reason IS NOT NULL AND state <> 2 GROUP BY 1"
    ).fetchall()
    reasons = conn.execute(f"{kept} AND kind = 'reason'").fetchall()
    assert dict(reasons) == dict(held), "the counters of reasons are those of the items"
    for table in ("questions", "bodies"):
        missing = conn.execute(
            f"SELECT count(*) FROM there LEFT JOIN {table} t USING (key) WHERE t.key IS NULL"
        ).fetchone()
        assert missing == (0,), f"each item has its row in {table}"
    (runs,) = conn.execute("SELECT coalesce(sum(items), 0) FROM runs").fetchone()  # type: ignore[misc]
    assert runs == sum(counted.values()), "the runs hold all items there are"
    spent = conn.execute(
        "SELECT coalesce(sum(n), 0) FROM counts WHERE kind = 'spent' AND NOT staged"
    ).fetchone()
    answers = conn.execute("SELECT count(*) FROM there WHERE state = 2").fetchone()
    assert spent == answers, "each answer is counted once"


def assert_paid_once(sim: Simulator, result: Any, asked: list[tuple[str, dict[str, Any]]]) -> None:
    """Check a finished run of sound items against the server's books."""
    books = sim.world.books()
    assert_conserved(result, len(asked))
    assert Counter(outcome.status for outcome in result.outcomes) == {"succeeded": len(asked)}
    assert_own_answers(result, asked)
    assert books.billed_twice == {}, "nothing is paid twice"
    assert set(sent(sim).values()) == {1}, "nothing is sent twice"
    assert len(sent(sim)) == len(asked), "everything is sent"
