"""
One SQLite connection: opened and checked, its transactions, its errors, its interned words.

Everything here runs on the store's thread.
"""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeVar

from batchwright._json import load_json
from batchwright.errors import SchemaTooNew, StoreBusy, StoreCorrupt, StoreError, StoreFull
from batchwright.store import Lease, Owner
from batchwright.stores import _rules
from batchwright.stores._sqlite_files import RESERVE, free_space, network_filesystem, prepare_file
from batchwright.stores._sqlite_schema import APPLICATION_ID, SCHEMA_VERSION, SHIFT, TABLES

T = TypeVar("T")

#: Page cache, KiB: intake looks ids up in an index that may be some hundred megabytes.
_CACHE: Final = 64 * 1024
#: Bytes of a page. Requests are some kilobytes each: at SQLite's default of 4,096 a page is often
#: half empty, and twice as many are written.
_PAGE: Final = 16_384
#: Pages of write-ahead log after which it is written back; 16 MB halve the fsyncs of an intake.
_CHECKPOINT: Final = 1_000
#: Bytes of write-ahead log kept on disk when a burst is over.
_LOG_LIMIT: Final = 64_000_000
#: Most parameters in one statement; old builds of SQLite take 999.
MAX_PARAMS: Final = 900

#: How often the journal mode is set while other openers are at it.
_JOURNAL_TRIES: Final = 100

_BUSY: Final = (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)
_CORRUPT: Final = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)


@dataclass(slots=True)
class Db:
    """A connection with what is known about it."""

    conn: sqlite3.Connection
    path: Path
    #: Which file was opened: device and number.
    identity: tuple[int, int] = (0, 0)
    #: `PRAGMA synchronous` for what can be read again from the API.
    calm: str = "NORMAL"
    words: dict[str, int] = field(default_factory=dict)
    texts: dict[int, str] = field(default_factory=dict)
    headers: dict[tuple[int, str], int] = field(default_factory=dict)

    def word(self, text: str | None) -> int | None:
        """Return the number of an often repeated text, giving it one if it is new."""
        if text is None:
            return None
        number = self.words.get(text)
        if number is None:
            self.conn.execute("INSERT OR IGNORE INTO words (text) VALUES (?)", (text,))
            number = self.find_word(text)
            assert number is not None
        return number

    def find_word(self, text: str) -> int | None:
        """Return the number of a text, `None` where it has none."""
        found = self.conn.execute("SELECT id FROM words WHERE text = ?", (text,)).fetchone()
        if found is None:
            return None
        self.words[text] = found[0]
        return int(found[0])

    def text(self, number: int | None) -> str | None:
        """Return the text behind a number."""
        if number is None:
            return None
        text = self.texts.get(number)
        if text is None:
            row = self.conn.execute("SELECT text FROM words WHERE id = ?", (number,)).fetchone()
            text = self.texts[number] = str(row[0])
        return text

    def forget(self) -> None:
        """Drop interned words: after a rollback their numbers may be another's."""
        self.words.clear()
        self.texts.clear()
        self.headers.clear()


class RunRow(NamedTuple):
    """The row of a run that every method needs."""

    number: int
    items: int
    staged: int
    opened: int | None
    intake: int | None
    wave: int
    name: str

    @property
    def low(self) -> int:
        """Key of its first item."""
        return self.number << SHIFT

    @property
    def end(self) -> int:
        """Key behind its last committed item."""
        return self.low + self.items


_RUN: Final = "SELECT number, items, staged, opened, intake, wave, name FROM runs WHERE name = ?"


def find_run(db: Db, run_id: str) -> RunRow | None:
    """Return the row of a run, `None` where it does not exist."""
    row = db.conn.execute(_RUN, (run_id,)).fetchone()
    return None if row is None else RunRow(*row)


def need_run(db: Db, run_id: str) -> RunRow:
    """Return the row of a run that must exist."""
    run = find_run(db, run_id)
    if run is None:
        raise _rules.no_run(run_id)
    return run


def fence(db: Db, lease: Lease) -> RunRow:
    """Return the row of the run that *lease* still owns, else raise `RunLocked`."""
    row = db.conn.execute(
        "SELECT first_token, token, owner FROM runs WHERE name = ?", (lease.run_id,)
    ).fetchone()
    if row is None or row[2] is None or not row[0] <= lease.token <= row[1]:
        raise _rules.locked(lease, load_owner(row[2]) if row else None)
    return need_run(db, lease.run_id)


def load_owner(data: bytes | None) -> Owner | None:
    """Read a stored owner."""
    return None if data is None else Owner(**load_json(data))


def stamp(moment: datetime | None) -> str | None:
    """Write a moment as it is stored."""
    return None if moment is None else moment.isoformat()


def moment(text: str | None) -> datetime | None:
    """Read a stored moment."""
    return None if text is None else datetime.fromisoformat(text)


def slices(values: Sequence[T], size: int) -> Iterator[Sequence[T]]:
    """Cut *values* into pieces of at most *size*."""
    return (values[start : start + size] for start in range(0, len(values), size))


# -- opening ----------------------------------------------------------------------------------


def connect(path: Path, busy_timeout: float) -> Db:
    """Open the store at *path*, creating or checking it; see `CheckpointStore.open`."""
    prepare_file(path)
    with translated(path, busy_timeout):
        conn = sqlite3.connect(
            str(path), timeout=busy_timeout, isolation_level=None, cached_statements=256
        )
        try:
            return _ready(conn, path)
        except BaseException:
            conn.close()
            raise


def _ready(conn: sqlite3.Connection, path: Path) -> Db:
    db = Db(conn, path)
    # A stranger's file is recognised before anything about it is changed. In one transaction:
    # another opener may be creating the tables right now.
    fresh = transact(db, is_fresh, begin="BEGIN")
    if fresh:
        _pragma(conn, "page_size", _PAGE)
    if network_filesystem(path) is None:
        _set_journal(conn, "WAL")
    else:
        db.calm = "FULL"
        _set_journal(conn, "DELETE")
    _pragma(conn, "synchronous", db.calm)
    _pragma(conn, "cache_size", -_CACHE)
    _pragma(conn, "wal_autocheckpoint", _CHECKPOINT)
    _pragma(conn, "journal_size_limit", _LOG_LIMIT)
    _pragma(conn, "temp_store", "MEMORY")
    if fresh:
        transact(db, _create, begin="BEGIN IMMEDIATE", durable=True)
    else:
        transact(db, lambda _: None, begin="BEGIN IMMEDIATE")
    db.identity = _identity(path)
    return db


def check_still_there(db: Db) -> None:
    """
    Make sure that the file still stands where it was opened.

    A deleted file can be written to its end, and nobody will ever read it: what is sent from then
    on would be known to no later run.

    Raises:
        StoreError: It was deleted, or another one stands in its place.
    """
    try:
        found = _identity(db.path)
    except FileNotFoundError:
        found = None
    if found != db.identity:
        what = "was deleted" if found is None else "was replaced by another file"
        raise StoreError(
            f"the store {db.path} {what} while this process worked on it. Nothing more is sent; "
            "batches that are alive go on at the server. Put the file back, or read what they "
            "answer into a new store: batchwright recover, with the same items"
        )


def _identity(path: Path) -> tuple[int, int]:
    found = path.stat()
    return found.st_dev, found.st_ino


def _set_journal(conn: sqlite3.Connection, mode: str) -> None:
    """Set the journal mode, which SQLite refuses at once while another opener does the same."""
    for _ in range(_JOURNAL_TRIES):
        try:
            _pragma(conn, "journal_mode", mode)
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode & 0xFF not in _BUSY:
                raise
            # A transaction, unlike the pragma, waits its turn.
            conn.execute("BEGIN IMMEDIATE")
            conn.execute("ROLLBACK")
        else:
            return
    _pragma(conn, "journal_mode", mode)


def _pragma(conn: sqlite3.Connection, name: str, value: object = None) -> Any:
    setting = "" if value is None else f" = {value}"
    return conn.execute(f"PRAGMA {name}{setting}").fetchone()


def is_fresh(db: Db) -> bool:
    """Tell whether the file is still empty; raise where it is not a store that we know."""
    application = _pragma(db.conn, "application_id")[0]
    version = _pragma(db.conn, "user_version")[0]
    tables = db.conn.execute("SELECT COUNT(*) FROM sqlite_master").fetchone()[0]
    if application != APPLICATION_ID:
        if application == 0 and version == 0 and tables == 0:
            return True
        raise StoreCorrupt(
            f"the store {db.path} is the SQLite database of another program; nothing was changed. "
            "Name another file."
        )
    if version > SCHEMA_VERSION:
        raise SchemaTooNew(str(db.path), version, SCHEMA_VERSION)
    return False


def _create(db: Db) -> None:
    # Somebody else may have created it since it was looked at.
    if not is_fresh(db):
        return
    for statement in TABLES.split(";\n"):
        db.conn.execute(statement)
    _pragma(db.conn, "application_id", APPLICATION_ID)
    _pragma(db.conn, "user_version", SCHEMA_VERSION)


# -- transactions -----------------------------------------------------------------------------


def transact(db: Db, work: Callable[[Db], T], *, begin: str, durable: bool = False) -> T:
    """
    Run *work* in one transaction: all of it, or nothing.

    *durable*: it survives a loss of power once this returns. Anything else survives the process.
    """
    conn = db.conn
    if durable:
        _pragma(conn, "synchronous", "FULL")
    try:
        conn.execute(begin)
        try:
            result = work(db)
            conn.execute("COMMIT")
        except BaseException:
            db.forget()
            if conn.in_transaction:
                conn.execute("ROLLBACK")
            raise
    finally:
        if durable:
            _pragma(conn, "synchronous", db.calm)
    return result


@contextlib.contextmanager
def translated(path: Path, busy_timeout: float) -> Iterator[None]:
    """Turn SQLite's exceptions into the library's: the one place that knows both."""
    try:
        yield
    except sqlite3.Error as error:
        raise _translate(error, path, busy_timeout) from error


def _translate(error: sqlite3.Error, path: Path, busy_timeout: float) -> StoreError:
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    if code in _BUSY:
        return StoreBusy(
            f"the store {path} was locked by another program for {busy_timeout:g} s. Close what "
            "else has it open (a database browser, a backup), and run again."
        )
    if code == sqlite3.SQLITE_FULL or (code == sqlite3.SQLITE_IOERR and _no_room(path)):
        return StoreFull(
            f"no space left for the store {path}. What was stored before is safe: free some "
            "space and run again."
        )
    if code in _CORRUPT:
        return StoreCorrupt(
            f"the store {path} is damaged or is not a batchwright store ({error}). Put it aside "
            "and restore a copy, or name another file; `batchwright recover` can rebuild a lost "
            "store from the batches of the last 29 days."
        )
    return StoreError(f"the store {path} failed: {error}")


def _no_room(path: Path) -> bool:
    try:
        return free_space(path) < RESERVE // 64
    except OSError:
        return False
