"""
PostgreSQL: answers of earlier runs to the questions of this one.

The index behind it is made when it is first used, as in the SQLite store: most stores are never
asked, and digests arrive in no order.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import accumulate
from typing import Final

from batchwright.store import Found, ItemState
from batchwright.stores._occurrences import Asked, match
from batchwright.stores._postgres_db import (
    Db,
    RunRow,
    column,
    find_run,
    lock_run,
    need_run,
    within,
)
from batchwright.stores._postgres_read import MEMBER, member_of
from batchwright.stores._postgres_schema import MASK, SHIFT

_INDEX: Final = "questions_digest"

_ASKED: Final = f"""
WITH looking AS MATERIALIZED (
    SELECT DISTINCT q.digest FROM (VALUES (0)) AS one
    {within("%(low)s", "%(high)s")} JOIN questions q ON q.key = i.key
    WHERE i.key < %(end)s AND i.state = 0 AND i.attempts = 0 AND q.digest <> ''
)
SELECT q.key, q.digest, i.state, i.attempts FROM looking
JOIN questions q ON q.digest = looking.digest JOIN items i ON i.key = q.key
WHERE q.key >> {SHIFT} = ANY(%(runs)b::bigint[]) ORDER BY q.key
"""
_SIZES: Final = (
    "SELECT octet_length(a.raw) FROM unnest(%b::bigint[]) WITH ORDINALITY AS asked (key, place) "
    "JOIN answers a ON a.key = asked.key ORDER BY asked.place"
)
_FOUND: Final = (
    f"{MEMBER}, a.raw FROM unnest(%b::bigint[], %b::bigint[]) AS found (key, there) "
    "JOIN items i ON i.key = found.key JOIN questions q ON q.key = found.key "
    "JOIN answers a ON a.key = found.there ORDER BY i.key"
)


def has_index(db: Db) -> bool:
    """Tell whether the index is there."""
    return bool(db.row("SELECT to_regclass(%s) IS NOT NULL", (_INDEX,))[0])


def make_index(db: Db, run_id: str) -> None:
    """Make the index; some seconds for a million items."""
    lock_run(db, run_id)
    db.run(f"CREATE INDEX IF NOT EXISTS {_INDEX} ON questions (digest)")


def find_answers(
    db: Db, run_id: str, sources: Sequence[str], first: int, last: int, max_bytes: int
) -> list[Found]:
    """See `CheckpointStore.find_answers`; the index is there."""
    run = need_run(db, run_id)
    runs = {run.number: (0, run)}
    for rank, name in enumerate(sources, 1):
        source = find_run(db, name)
        if source is not None:
            runs.setdefault(source.number, (rank, source))
    by_rank = dict(runs.values())
    pairs = [
        (run.low + seq, by_rank[rank].low + there)
        for seq, (rank, there) in match(_asked(db, runs, run, max(first, 0), min(last, MASK)))
    ]
    if not pairs:
        return []
    sizes = accumulate(row[0] for row in db.rows(_SIZES, (column(pairs, 1),)))
    count = max(sum(upto <= max_bytes for upto in sizes), 1)
    values = (column(pairs[:count], 0), column(pairs[:count], 1))
    return [Found(member=member_of(row), raw=raw) for *row, raw in db.rows(_FOUND, values)]


def _asked(
    db: Db, runs: Mapping[int, tuple[int, RunRow]], run: RunRow, first: int, last: int
) -> list[Asked]:
    """Return all committed items of the *runs* that ask one of the questions, by key."""
    low, high = run.low + first, run.low + last
    asked = []
    for key, digest, state, attempts in db.rows(
        _ASKED, {"low": low, "high": high, "end": run.end, "runs": list(runs)}
    ):
        rank, holder = runs[key >> SHIFT]
        if key >= holder.end:
            continue
        if rank:
            fit = state == ItemState.SUCCEEDED
        else:
            fit = low <= key <= high and state == ItemState.PENDING and attempts == 0
        asked.append(Asked(rank, key & MASK, digest, fit))
    return asked
