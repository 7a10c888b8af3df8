"""
PostgreSQL: the counters of a run, kept by differences.
"""

from __future__ import annotations

import hashlib
from typing import Final

from batchwright.stores._postgres_db import Db, column
from batchwright.stores._tally import Tally

_COLUMNS: Final = "kind, name, other, n, input, output, cache_write, cache_read"
_ADD: Final = (
    "ON CONFLICT (run, staged, hash) DO UPDATE SET n = counts.n + excluded.n, "
    "input = counts.input + excluded.input, output = counts.output + excluded.output, "
    "cache_write = counts.cache_write + excluded.cache_write, "
    "cache_read = counts.cache_read + excluded.cache_read"
)
_WRITE: Final = (
    f"INSERT INTO counts (run, staged, hash, {_COLUMNS}) "
    "SELECT %s, %s, * FROM unnest(%b::bytea[], %b::text[], %b::bytea[], %b::bytea[], "
    "%b::bigint[], %b::bigint[], %b::bigint[], %b::bigint[], %b::bigint[]) " + _ADD
)


def write_counts(db: Db, run: int, tally: Tally, *, staged: bool = False) -> None:
    """Add the differences in *tally* to the stored counters."""
    rows = []
    for (kind, name, other), sums in tally.sums.items():
        if any(sums):
            names = (name.encode(), other.encode())
            rows.append((_hash(kind, *names), kind, *names, *sums))
    if rows:
        db.run(_WRITE, (run, staged, *(column(rows, place) for place in range(9))))


def _hash(kind: str, name: bytes, other: bytes) -> bytes:
    # The lengths keep the three apart.
    whole = b"%s %d %d %s%s" % (kind.encode(), len(name), len(other), name, other)
    return hashlib.blake2b(whole, digest_size=16).digest()


def fold_counts(db: Db, run: int) -> None:
    """Add the counters of the staged items to those of the run."""
    db.run(
        f"INSERT INTO counts (run, staged, hash, {_COLUMNS}) "
        f"SELECT run, false, hash, {_COLUMNS} FROM counts WHERE run = %s AND staged {_ADD}",
        (run,),
    )
    forget_staged_counts(db, run)


def forget_staged_counts(db: Db, run: int) -> None:
    """Drop the counters of items that will not be committed, or were added to the run's."""
    db.run("DELETE FROM counts WHERE run = %s AND staged", (run,))


def read_counts(db: Db, run: int) -> Tally:
    """Return the stored counters."""
    tally = Tally()
    for kind, name, other, *numbers in db.rows(
        f"SELECT {_COLUMNS} FROM counts WHERE run = %s AND NOT staged",
        (run,),
    ):
        tally.add(kind, name.decode(), other.decode(), tuple(numbers))
    return tally
