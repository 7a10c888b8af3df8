"""
PostgreSQL: what an error of the driver means, and what a person can do about it.
"""

from __future__ import annotations

import re
from enum import Enum, auto
from typing import Final

import psycopg
from psycopg import errors

from batchwright.errors import StoreCorrupt, StoreError, StoreFull
from batchwright.stores._postgres_url import Target


class Fault(Enum):
    """What the store does about an error."""

    #: The connection is gone, or leads to a server that does not take changes now: make another.
    LOST = auto()
    #: The server undid the transaction for the sake of another: do it again.
    AGAIN = auto()
    #: Somebody holds a lock: wait and do it again.
    BUSY = auto()
    #: It will not get better by itself.
    FATAL = auto()


#: The connection ends with these, whatever it was doing.
_ENDED: Final = (
    errors.AdminShutdown,
    errors.CrashShutdown,
    errors.CannotConnectNow,
    errors.IdleInTransactionSessionTimeout,
    errors.ReadOnlySqlTransaction,
)
_AGAIN: Final = (errors.SerializationFailure, errors.DeadlockDetected)

#: A server that will take connections in a moment, by what it says in English; it has no code.
_SOON: Final = re.compile(
    r"starting up|shutting down|not yet accepting|recovery|too many (clients|connections)"
    r"|connection slots|too many connections for",
    re.IGNORECASE,
)
#: What a reconnection cannot mend.
_NEVER: Final = re.compile(
    r"password|authentication|pg_hba|does not exist|permission denied|is not permitted to log in",
    re.IGNORECASE,
)

_CONNECT_HINTS: Final = (
    (r"password authentication failed|no password supplied", "Look at user and password."),
    (r"database .* does not exist", "Make the database first (createdb), or name another."),
    (r"role .* does not exist", "Look at the user's name."),
    (r"no pg_hba\.conf entry", "Its pg_hba.conf does not let you in from here."),
    (
        r"resolve host|translate host|Name or service not known|nodename nor servname",
        "Look at the host's name.",
    ),
    (r"timeout|timed out", "Is the address right, and is nothing in between that drops packets?"),
    (r"SSL|certificate", "Look at sslmode and the certificates."),
)


def sort_out(error: psycopg.Error, *, connected: bool, gone: bool) -> Fault:
    """
    Tell what to do about an error.

    Args:
        error: What the driver raised.
        connected: Whether there was a connection.
        gone: Whether there is none any more.
    """
    if not connected:
        return Fault.FATAL if _NEVER.search(str(error)) else Fault.LOST
    if gone or isinstance(error, _ENDED) or (error.sqlstate or "").startswith("08"):
        return Fault.LOST
    if isinstance(error, _AGAIN):
        return Fault.AGAIN
    if isinstance(error, errors.LockNotAvailable):
        return Fault.BUSY
    return Fault.FATAL


def is_soon(error: psycopg.Error) -> bool:
    """Tell whether a server that refused a first connection will take one in a moment."""
    return bool(_SOON.search(str(error)))


def unreachable(error: psycopg.Error, target: Target) -> StoreError:
    """Return what is told where no connection could be made."""
    said = message(error)
    hints = (hint for pattern, hint in _CONNECT_HINTS if re.search(pattern, said, re.IGNORECASE))
    hint = next(hints, "")
    end = "" if said.endswith("?") else "."
    return StoreError(f"the store {target.name} cannot be reached: {said}{end} {hint}".rstrip())


def translate(error: psycopg.Error, target: Target) -> StoreError:
    """Turn an error that will not get better by itself into the library's."""
    said = message(error)
    if isinstance(error, errors.DiskFull):
        return StoreFull(
            f"no space left on the server of the store {target.name}: {said}. What was stored "
            "before is safe: free some space and run again."
        )
    if isinstance(error, errors.UndefinedTable | errors.UndefinedColumn | errors.InvalidSchemaName):
        return StoreCorrupt(
            f"the store {target.name} has lost a part of its tables: {said}. Restore the schema "
            f'"{target.schema}" from a backup, or name another; `batchwright recover` can rebuild '
            "a lost store from the batches of the last 29 days."
        )
    if isinstance(error, errors.DataCorrupted | errors.IndexCorrupted):
        return StoreCorrupt(f"the store {target.name} is damaged: {said}. Restore a backup.")
    if isinstance(error, errors.InsufficientPrivilege):
        return StoreError(
            f"the user of the store {target.name} may not do what it has to: {said}. Let the "
            f'user own the schema: CREATE SCHEMA "{target.schema}" AUTHORIZATION …'
        )
    if isinstance(error, errors.QueryCanceled):
        return StoreError(
            f"the server of the store {target.name} cut a statement short: {said}. Look at "
            "statement_timeout of the user and of the database."
        )
    return StoreError(f"the store {target.name} failed: {said}")


def message(error: psycopg.Error) -> str:
    """Return what the server said, in one line and without the data it may have quoted."""
    said = error.diag.message_primary or str(error)
    return " ".join(said.split()).rstrip(".")
