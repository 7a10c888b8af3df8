"""
SQLite: the counters of a run, kept by differences.
"""

from __future__ import annotations

from typing import Final

from batchwright.stores._sqlite_db import Db
from batchwright.stores._tally import Tally

_COLUMNS: Final = "kind, name, other, n, input, output, cache_write, cache_read"
_ADD: Final = (
    "ON CONFLICT (run, staged, kind, name, other) DO UPDATE SET n = n + excluded.n, "
    "input = input + excluded.input, output = output + excluded.output, "
    "cache_write = cache_write + excluded.cache_write, "
    "cache_read = cache_read + excluded.cache_read"
)


def write_counts(db: Db, run: int, tally: Tally, *, staged: bool = False) -> None:
    """Add the differences in *tally* to the stored counters."""
    db.conn.executemany(
        f"INSERT INTO counts (run, staged, {_COLUMNS}) "  # noqa: S608 - our own names
        f"VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?) {_ADD}",
        [(run, int(staged), *name, *sums) for name, sums in tally.sums.items() if any(sums)],
    )


def fold_counts(db: Db, run: int) -> None:
    """Add the counters of the staged items to those of the run."""
    db.conn.execute(
        f"INSERT INTO counts (run, staged, {_COLUMNS}) "  # noqa: S608 - our own names
        f"SELECT run, 0, {_COLUMNS} FROM counts WHERE run = ? AND staged = 1 {_ADD}",
        (run,),
    )
    db.conn.execute("DELETE FROM counts WHERE run = ? AND staged = 1", (run,))


def read_counts(db: Db, run: int) -> Tally:
    """Return the stored counters."""
    tally = Tally()
    for kind, name, other, *numbers in db.conn.execute(
        f"SELECT {_COLUMNS} FROM counts WHERE run = ? AND staged = 0",  # noqa: S608 - our own names
        (run,),
    ):
        tally.add(kind, name, other, tuple(numbers))
    return tally
