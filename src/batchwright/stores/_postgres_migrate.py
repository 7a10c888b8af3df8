"""
PostgreSQL: the tables are made, checked, and brought up to date.
"""

from __future__ import annotations

from typing import Any, Final, LiteralString

import psycopg
from psycopg import sql

from batchwright.errors import SchemaTooNew, StoreAbsent, StoreCorrupt, StoreError
from batchwright.stores._postgres_schema import LOCK, MIGRATIONS, OLDEST_SERVER, SCHEMA_VERSION
from batchwright.stores._postgres_url import Target

_VERSION: Final = "batchwright_version"
_MAKE_VERSION: Final = (
    f"CREATE TABLE {_VERSION} (version integer PRIMARY KEY, at timestamptz DEFAULT now())"
)


def prepare(conn: psycopg.Connection[Any], target: Target) -> None:
    """
    Make sure that the tables are there and are today's.

    Raises:
        SchemaTooNew: A newer version made them.
        StoreCorrupt: The schema holds somebody else's tables.
        StoreError: The server is too old.
        psycopg.Error: It could not be done.
    """
    _check_server(conn, target)
    if _version(conn, target) == SCHEMA_VERSION:
        return
    with conn.transaction():
        # Of several processes that open a new store at once one makes the tables.
        conn.execute("SET LOCAL lock_timeout = '60s'")
        conn.execute("SELECT pg_advisory_xact_lock(%s, hashtext(%s))", (LOCK, target.schema))
        _upgrade(conn, target, _version(conn, target))


def check(conn: psycopg.Connection[Any], target: Target) -> None:
    """
    Make sure that the tables are there and are today's, and change nothing.

    Raises:
        SchemaTooNew: A newer version made them.
        StoreCorrupt: The schema holds somebody else's tables.
        StoreAbsent: They are not there.
        StoreError: They were not brought up to date yet.
        psycopg.Error: It could not be found out.
    """
    _check_server(conn, target)
    version = _version(conn, target)
    if version == 0:
        raise StoreAbsent(f"there is no store in {target.name} yet; batchwright run makes one")
    if version < SCHEMA_VERSION:
        raise StoreError(
            f"the store {target.name} was written by an older version; the next run or resume "
            "brings it up to date"
        )


def _check_server(conn: psycopg.Connection[Any], target: Target) -> None:
    if conn.info.server_version < OLDEST_SERVER:
        found, oldest = conn.info.server_version // 10_000, OLDEST_SERVER // 10_000
        raise StoreError(
            f"the store {target.name} is on PostgreSQL {found}; it needs {oldest} or newer"
        )


def _version(conn: psycopg.Connection[Any], target: Target) -> int:
    """Return the version of the tables, 0 where there are none."""
    tables = _tables(conn, target)
    if not tables:
        return 0
    if _VERSION not in tables:
        raise StoreCorrupt(
            f'the schema "{target.schema}" of {target.name} holds the tables of another '
            "program; nothing was changed. Name another schema: …?schema=NAME"
        )
    row = conn.execute(
        _sql(f"SELECT coalesce(max(version), 0) FROM {{}}.{_VERSION}", target)
    ).fetchone()
    version = int(row[0]) if row else 0
    if version > SCHEMA_VERSION:
        raise SchemaTooNew(target.name, version, SCHEMA_VERSION)
    return version


def _sql(text: LiteralString, target: Target) -> sql.Composed:
    return sql.SQL(text).format(sql.Identifier(target.schema))


# From the catalogs as they are: functions like to_regclass may answer from what the connection
# remembers, which is from before it waited for another opener.
def _tables(conn: psycopg.Connection[Any], target: Target) -> set[str]:
    """Return the names of what the schema holds."""
    found = conn.execute(
        "SELECT c.relname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace "
        "WHERE n.nspname = %s",
        (target.schema,),
    )
    return {row[0] for row in found}


def _has_schema(conn: psycopg.Connection[Any], target: Target) -> bool:
    found = conn.execute("SELECT 1 FROM pg_namespace WHERE nspname = %s", (target.schema,))
    return found.fetchone() is not None


def _upgrade(conn: psycopg.Connection[Any], target: Target, version: int) -> None:
    # Where an administrator made it already, the right to make one is not needed.
    if not _has_schema(conn, target):
        conn.execute(_sql("CREATE SCHEMA {}", target))
    conn.execute(_sql("SET LOCAL search_path = {}", target))
    if version == 0:
        conn.execute(_MAKE_VERSION)
    for number, statements in enumerate(MIGRATIONS[version:], version + 1):
        conn.execute(statements)
        conn.execute(f"INSERT INTO {_VERSION} (version) VALUES (%s)", (number,))
