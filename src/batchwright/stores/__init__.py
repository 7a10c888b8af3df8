"""
The stores that come with the library, and how a store is named in one word.
"""

from __future__ import annotations

import os
from pathlib import Path
from urllib.parse import unquote

from batchwright.errors import ConfigurationError
from batchwright.store import CheckpointStore
from batchwright.stores._postgres_url import InDatabase, shown
from batchwright.stores._sqlite_look import holds_something
from batchwright.stores.memory import MemoryStore
from batchwright.stores.sqlite import SQLiteStore

__all__ = ["MemoryStore", "SQLiteStore", "name_of", "open_store", "reader_of"]

_FORMS = (
    "a path, 'sqlite:///relative.db', 'sqlite:////absolute.db', 'postgresql://user@host/database', "
    "'memory://', or a store object"
)


_POSTGRES = ("postgres:", "postgresql:")
_METHODS = [name for name in vars(CheckpointStore) if not name.startswith("_")]


def open_store(spec: str | os.PathLike[str] | CheckpointStore) -> CheckpointStore:
    """
    Return the store that *spec* names, not opened yet; a store object is returned as it is.

    Raises:
        ConfigurationError: *spec* names no store of this version.
    """
    if isinstance(spec, str):
        return _named(spec)
    if isinstance(spec, os.PathLike):
        return SQLiteStore(Path(spec))
    # By what it can do, so that a store may as well be a proxy that hands its calls on.
    if all(callable(getattr(spec, name, None)) for name in _METHODS):
        return spec
    raise ConfigurationError(f"store is a {type(spec).__name__}; it takes {_FORMS}")


def reader_of(store: CheckpointStore) -> CheckpointStore | None:
    """
    Return *store* for reading alone, not opened yet; `None` where it does not exist.

    What it lives in is neither created nor changed by what is returned.

    Raises:
        StoreError: The file is there and cannot be read.
    """
    if isinstance(store, InDatabase):
        return _postgres(store.url, read_only=True)
    if not isinstance(store, SQLiteStore):
        return store
    if not holds_something(store.path):
        return None
    return SQLiteStore(store.path, busy_timeout=store.busy_timeout, read_only=True)


def _named(spec: str) -> CheckpointStore:
    if spec.startswith(_POSTGRES):
        return _postgres(spec)
    scheme, mark, rest = spec.partition("://")
    if not mark:
        return SQLiteStore(_path(spec, spec))
    if scheme == "memory" and rest in {"", "/"}:
        return MemoryStore()
    if scheme == "sqlite" and rest.startswith("/"):
        return SQLiteStore(_path(unquote(rest[1:]), spec))
    raise ConfigurationError(f"store={scheme + mark!r}… is not known; it takes {_FORMS}")


def _postgres(spec: str, *, read_only: bool = False) -> CheckpointStore:
    try:
        # Its driver is an extra, and only needed by those who name such a store.
        from batchwright.stores.postgres import PostgresStore  # noqa: PLC0415
    except ImportError as error:
        raise ConfigurationError(
            "store names a PostgreSQL database, which needs the driver psycopg: "
            f'pip install "batchwright[postgres]" ({error})'
        ) from error
    return PostgresStore(spec, read_only=read_only)


def _path(text: str, spec: str) -> Path:
    if not text or "\0" in text or text == ":memory:":
        raise ConfigurationError(f"store={spec!r} names no file; it takes {_FORMS}")
    return Path(text)


def name_of(store: str | os.PathLike[str] | CheckpointStore) -> str:
    """Return how a store is called in logs and reports, without a password."""
    if isinstance(store, str) and store.startswith(_POSTGRES):
        return shown(store)
    if isinstance(store, str | os.PathLike):
        # A connection URL may hold a password.
        head, at, tail = str(store).rpartition("@")
        return f"{head.partition('://')[0]}://…@{tail}" if at and "://" in head else str(store)
    if isinstance(store, SQLiteStore):
        return str(store.path)
    if isinstance(store, InDatabase):
        return store.target.name
    return type(store).__name__
