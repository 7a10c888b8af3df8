"""
SQLite: reading a store without leaving a trace beside it or in it.

A store that nobody has open is read as an immutable file, since even a reader of a write-ahead log
leaves two files behind. Whether somebody opened it meanwhile is looked at afterwards; then it is
read again, with locks this time.
"""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Final, TypeVar

from batchwright.errors import StoreAbsent, StoreBusy, StoreError
from batchwright.stores._sqlite_db import Db, is_fresh, transact, translated

T = TypeVar("T")

#: How often a store is read again that others opened or closed meanwhile.
_TRIES: Final = 20


def holds_something(path: Path) -> bool:
    """
    Tell whether there is a file at *path* that may be a store; an empty one holds no run.

    Raises:
        StoreError: Something is there that cannot be one.
    """
    if path.is_dir():
        raise StoreError(f"the store {path} is a folder; name a file in it")
    try:
        return path.stat().st_size > 0
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError as error:
        raise StoreError(f"the store {path} cannot be read: {error.strerror or error}") from None


def look(path: Path, busy_timeout: float, work: Callable[[Db], T]) -> T:
    """
    Run *work*, which only reads, on the store at *path*.

    Raises:
        StoreError: It cannot be read, or is no store of this version.
    """
    for _ in range(_TRIES):
        quiet = not _is_open_elsewhere(path)
        before = _marks(path)
        try:
            result = _read(path, busy_timeout, work, quiet=quiet)
        except StoreError:
            if quiet and _moved(path, before):
                continue
            raise
        if not quiet or not _moved(path, before):
            return result
    raise StoreBusy(f"the store {path} is opened and closed all the time; try again in a moment")


def _read(path: Path, busy_timeout: float, work: Callable[[Db], T], *, quiet: bool) -> T:
    address = f"{path.as_uri()}?mode=ro{'&immutable=1' if quiet else ''}"
    with (
        translated(path, busy_timeout),
        contextlib.closing(
            sqlite3.connect(address, uri=True, timeout=busy_timeout, isolation_level=None)
        ) as conn,
    ):
        return transact(Db(conn, path), lambda db: _checked(db, work), begin="BEGIN")


def _checked(db: Db, work: Callable[[Db], T]) -> T:
    if is_fresh(db):
        raise StoreAbsent(f"the store {db.path} is empty; it holds no run")
    return work(db)


def _is_open_elsewhere(path: Path) -> bool:
    # The log is there while somebody has the store open, and after a crash.
    return any(path.with_name(path.name + end).exists() for end in ("-wal", "-journal"))


def _marks(path: Path) -> tuple[int, int]:
    found = path.stat()
    return found.st_mtime_ns, found.st_size


def _moved(path: Path, before: tuple[int, int]) -> bool:
    return _is_open_elsewhere(path) or _marks(path) != before
