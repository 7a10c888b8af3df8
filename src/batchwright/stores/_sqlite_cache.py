"""
SQLite: answers of earlier runs to the questions of this one.

The index behind it is made when it is first used. Digests arrive in no order, so to keep the index
doubles the time in which a large run is read in, and most stores are never asked.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from batchwright.store import Found, ItemState
from batchwright.stores._occurrences import Asked, match
from batchwright.stores._sqlite_db import MAX_PARAMS, Db, RunRow, find_run, need_run, slices
from batchwright.stores._sqlite_read import MEMBER, member_of
from batchwright.stores._sqlite_schema import MASK, SHIFT

_INDEX: Final = "questions_digest"

_LOOKING: Final = """
SELECT DISTINCT q.digest FROM items i JOIN questions q ON q.key = i.key
WHERE i.key BETWEEN ? AND ? AND i.key < ? AND i.state = 0 AND i.attempts = 0 AND q.digest <> x''
"""
_ASKED: Final = f"""
SELECT q.key, q.digest, i.state, i.attempts FROM questions q INDEXED BY {_INDEX}
CROSS JOIN items i ON i.key = q.key WHERE q.digest IN ({{marks}})
"""  # noqa: S608 - our own names and question marks


def has_index(db: Db) -> bool:
    """Tell whether the index is there."""
    found = db.conn.execute(
        "SELECT 1 FROM sqlite_master WHERE type = 'index' AND name = ?", (_INDEX,)
    ).fetchone()
    return found is not None


def make_index(db: Db) -> None:
    """Make the index; some seconds for a million items."""
    db.conn.execute(f"CREATE INDEX IF NOT EXISTS {_INDEX} ON questions (digest)")


def find_answers(
    db: Db, run_id: str, sources: Sequence[str], first: int, last: int, max_bytes: int
) -> list[Found]:
    """See `CheckpointStore.find_answers`; the index is there."""
    run = need_run(db, run_id)
    low, high = run.low + max(first, 0), run.low + min(last, MASK)
    runs = {run.number: (0, run)}
    for rank, name in enumerate(sources, 1):
        source = find_run(db, name)
        if source is not None:
            runs.setdefault(source.number, (rank, source))
    by_rank = dict(runs.values())
    digests = [row[0] for row in db.conn.execute(_LOOKING, (low, high, run.end))]
    found: list[Found] = []
    for seq, (rank, seq_there) in match(_asked(db, runs, digests, low, high)):
        raw = _raw(db, by_rank[rank].low + seq_there)
        max_bytes -= len(raw)
        if found and max_bytes < 0:
            break
        row = db.conn.execute(f"{MEMBER} WHERE key = ?", (run.low + seq,)).fetchone()
        found.append(Found(member=member_of(row), raw=raw))
    return found


def _asked(
    db: Db, runs: Mapping[int, tuple[int, RunRow]], digests: Sequence[bytes], low: int, high: int
) -> list[Asked]:
    """Return all committed items of the *runs* that ask one of the questions, by key."""
    rows: list[tuple[Any, ...]] = []
    for part in slices(digests, MAX_PARAMS):
        rows += db.conn.execute(_ASKED.format(marks=",".join("?" * len(part))), part)
    asked = []
    for key, digest, state, attempts in sorted(rows):
        rank, run = runs.get(key >> SHIFT, (None, None))
        if rank is None or run is None or key >= run.end:
            continue
        if rank:
            fit = state == ItemState.SUCCEEDED
        else:
            fit = low <= key <= high and state == ItemState.PENDING and attempts == 0
        asked.append(Asked(rank, key & MASK, digest, fit))
    return asked


def _raw(db: Db, key: int) -> bytes:
    raw: bytes = db.conn.execute("SELECT raw FROM answers WHERE key = ?", (key,)).fetchone()[0]
    return raw
