"""
One PostgreSQL connection as the store's functions see it: statements, the run's row, the fence.

Everything here runs on a thread of the store's.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, NamedTuple

import psycopg

from batchwright._json import load_json
from batchwright.store import Owner
from batchwright.stores import _rules
from batchwright.stores._postgres_schema import SHIFT

Values = Sequence[Any] | dict[str, Any]


@dataclass(frozen=True, slots=True)
class Db:
    """
    A connection within a transaction.

    Statements are sent one after another without waiting; only reading rows waits for those before.

    Attributes:
        conn: The connection.
        recall: Looks, once a run's row is locked, whether this very change was made before.
        pipe: Holds the connection in the mode in which statements are sent together.
    """

    conn: psycopg.Connection[Any]
    recall: Callable[[], None]
    pipe: contextlib.ExitStack

    def run(self, statement: str, values: Values = ()) -> psycopg.Cursor[Any]:
        """Execute one statement; its rows come as they are stored, without a detour by text."""
        return self.conn.execute(statement, values, binary=True)

    def rows(self, statement: str, values: Values = ()) -> list[Any]:
        """Return all rows of one statement."""
        return self.run(statement, values).fetchall()

    def row(self, statement: str, values: Values = ()) -> Any:
        """Return the first row of one statement, `None` where there is none."""
        return self.run(statement, values).fetchone()

    @contextlib.contextmanager
    def apart(self) -> Iterator[None]:
        """Within the block statements are not sent together: a COPY has to travel alone."""
        self.pipe.close()
        yield
        self.pipe.enter_context(self.conn.pipeline())


class RunRow(NamedTuple):
    """The row of a run that every method needs."""

    name: str
    number: int
    items: int
    staged: int
    opened: int | None
    intake: int | None
    wave: int
    first_token: int
    token: int
    owner: bytes | None
    beat_at: datetime | None
    created_at: datetime

    @property
    def low(self) -> int:
        """Key of its first item."""
        return self.number << SHIFT

    @property
    def end(self) -> int:
        """Key behind its last committed item."""
        return self.low + self.items


_RUN: Final = (
    "SELECT number, items, staged, opened, intake, wave, first_token, token, owner, beat_at, "
    "created_at FROM runs WHERE sha256(name) = sha256(%b)"
)


def find_run(db: Db, run_id: str) -> RunRow | None:
    """Return the row of a run, `None` where it does not exist."""
    row = db.row(_RUN, (run_id.encode(),))
    return None if row is None else RunRow(run_id, *row)


def need_run(db: Db, run_id: str) -> RunRow:
    """Return the row of a run that must exist."""
    run = find_run(db, run_id)
    if run is None:
        raise _rules.no_run(run_id)
    return run


def lock_run(db: Db, run_id: str, *, together: bool = False) -> RunRow | None:
    """
    Return the row of a run, locked until the end of the transaction.

    Every change of a run begins so: changes of one run are made one after another, whoever makes
    them, and none can meet another in a deadlock. Those made *together* only wait for others.
    """
    how = "FOR SHARE" if together else "FOR NO KEY UPDATE"
    row = db.row(f"{_RUN} {how}", (run_id.encode(),))
    db.recall()
    return None if row is None else RunRow(run_id, *row)


def load_owner(data: bytes | None) -> Owner | None:
    """Read a stored owner."""
    return None if data is None else Owner(**load_json(data))


def blob(text: str | None) -> bytes | None:
    """Write a caller's text as it is stored: a column of type text could not hold a NUL."""
    return None if text is None else text.encode()


def text_of(data: bytes | None) -> str | None:
    """Read what `blob` wrote."""
    return None if data is None else data.decode()


def column(rows: Sequence[Sequence[Any]], place: int) -> list[Any]:
    """Return one column of *rows*, for a statement that takes columns as arrays."""
    return [row[place] for row in rows]


def within(low: str, high: str, more: str = "") -> str:
    """
    Return a join with the items *i* whose keys are in the range of each row before it.

    OFFSET 0 keeps the planner from turning the join round: believing that a range is a third of the
    table, it would look through all items instead.
    """
    return (
        f"CROSS JOIN LATERAL (SELECT * FROM items WHERE key BETWEEN {low} AND {high} {more} "
        "OFFSET 0) i"
    )
