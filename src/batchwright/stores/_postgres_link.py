"""
PostgreSQL: one connection on one thread, which comes back by itself and makes each change once.

A connection can be lost at any moment, also between the COMMIT and its answer. Then the change is
either whole or not there, and only the server knows which. So that the store can ask, each change
carries a *mark*: in the same transaction the number of the change is written into the one row of
`writers` that belongs to this connection. On the next connection

1. the run's row is locked, as for every change. Should the lost transaction still be alive on the
   server, this waits for its end: it holds that lock, from before it wrote anything;
2. then the mark is read. If it is the number in question, the transaction was committed: its result
   is what was computed then, and nothing is done again. If not, it never will be, and the change is
   made anew.

Where the server stays away for longer than the store waits, `StoreError` is raised and the fate of
that one change stays open. The run stops; what it does next begins by reading what stands.

The mark tells one more thing: a server that comes back with a lower one than it had confirmed has
forgotten changes (a replica that was behind took over, a backup was put in place). A run that went
on would believe in what is no longer there, so the store refuses every further change.

All changes are flushed before they are confirmed, whatever the server's default: unlike a crash of
the machine under SQLite, a crash of the server leaves this process alive, with its beliefs.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, Generic, TypeAlias, TypeVar

import psycopg
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg.types.numeric import Int8BinaryDumper

from batchwright._clock import clock, thread_clock
from batchwright._threads import pause
from batchwright.errors import ConfigurationError, StoreBusy, StoreError
from batchwright.stores._postgres_db import Db
from batchwright.stores._postgres_faults import (
    Fault,
    is_soon,
    message,
    sort_out,
    translate,
    unreachable,
)
from batchwright.stores._postgres_url import Target

T = TypeVar("T")
_Connection: TypeAlias = psycopg.Connection[Any]

#: What a connection asks for where the URL says nothing; seconds, but the last in milliseconds. A
#: peer that does not answer is given up in about half a minute and not after hours.
_DEFAULTS: Final = {
    "connect_timeout": 10,
    "fallback_application_name": "batchwright",
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 20_000,
}
#: Statements are found by index, always: tables grow faster than their statistics. A transaction
#: that its client left behind keeps its locks for some seconds at most.
_SESSION: Final = """
SET default_transaction_isolation = 'read committed';
SET idle_in_transaction_session_timeout = '10s';
SET lock_timeout = '5s';
SET tcp_keepalives_idle = 10;
SET tcp_keepalives_interval = 5;
SET tcp_keepalives_count = 3;
SET timezone = 'UTC';
SET jit = off;
SET enable_seqscan = off;
SET enable_hashjoin = off;
SET enable_mergejoin = off;
SET max_parallel_workers_per_gather = 0;
SET plan_cache_mode = force_generic_plan;
SELECT set_config('synchronous_commit', 'on', false)
    WHERE current_setting('synchronous_commit') = 'off'
"""
_MARK: Final = (
    "INSERT INTO writers (id, mark, at) VALUES (%b, %s, now()) "
    "ON CONFLICT (id) DO UPDATE SET mark = excluded.mark, at = excluded.at"
)
_READ_MARK: Final = "SELECT mark FROM writers WHERE id = %b"

#: Ours, and those that killed processes left behind.
_FORGET_MARKS: Final = "DELETE FROM writers WHERE id = %b OR at < now() - interval '90 days'"

#: How often a transaction is made anew that the server undid for the sake of another.
_TRIES: Final = 20
#: Shortest and longest pause before the next try, seconds.
_PAUSE: Final = 0.05
_MAX_PAUSE: Final = 1.0


class _Stood(Exception):
    """The change whose fate was open had been committed."""


class _Unconnected(psycopg.OperationalError):
    """There is no connection to the server."""


@dataclass(slots=True, eq=False)
class Job(Generic[T]):
    """One transaction to be made; `abandoned` once nobody waits for it any more."""

    work: Callable[[Db], T]
    changes: bool
    abandoned: bool = False

    def abandon(self) -> None:
        """Let it end at the next setback."""
        self.abandoned = True


class Link:
    """
    A connection that is made when it is needed.

    Args:
        target: Where to.
        writer: The name under which changes are marked; only one link may use it.
    """

    def __init__(self, target: Target, writer: bytes) -> None:
        self._target = target
        self._writer = writer
        self._conn: _Connection | None = None
        self._down_since: float | None = None
        #: Number of the latest change, and of the latest that the server confirmed.
        self._mark = 0
        self._confirmed = 0
        #: The result of the change that is in doubt, in a list of one.
        self._doubted: list[Any] = []
        self._broken: str | None = None
        self.closing = False

    # -- life ---------------------------------------------------------------------------------

    def open(self, prepare: Callable[[_Connection], None]) -> None:
        """
        Connect for the first time, and *prepare*.

        A server that cannot be reached is told of at once: most likely the URL is wrong. One that
        says that it is just starting, or that was reached before, is waited for.
        """
        begun = thread_clock()
        while self._conn is None:
            try:
                self._conn = self._prepared(prepare)
            except psycopg.Error as error:
                waited = thread_clock() - begun
                soon = is_soon(error) or not isinstance(error, _Unconnected)
                if not soon or waited >= self._target.outage or self.closing:
                    raise unreachable(error, self._target) from None
                pause(_MAX_PAUSE / 4)

    def _prepared(self, prepare: Callable[[_Connection], None] | None) -> _Connection:
        """Return a connection with its settings: without them it would find other tables."""
        conn = self._connect()
        try:
            if prepare is not None:
                prepare(conn)
            self._configure(conn)
        except psycopg.Error as error:
            fault = sort_out(error, connected=True, gone=conn.closed)
            conn.close()
            if fault is Fault.FATAL:
                raise translate(error, self._target) from None
            raise
        except BaseException:
            conn.close()
            raise
        return conn

    def close(self) -> None:
        """Let go of the connection and of the name; never raises."""
        conn = self._conn
        if conn is not None and self._mark:
            with contextlib.suppress(psycopg.Error):
                conn.execute(_FORGET_MARKS, (self._writer,))
        self._drop()

    def _connect(self) -> _Connection:
        try:
            given = conninfo_to_dict(self._target.url)
        except psycopg.Error:
            # What the driver says may repeat the URL.
            raise ConfigurationError(
                f"store is not a PostgreSQL URL that the driver takes ({self._target.name}). Look "
                "at the names of its parameters, and write special characters as %XX."
            ) from None
        whole: dict[str, Any] = {**_DEFAULTS, **given}
        try:
            return psycopg.connect(make_conninfo("", **whole), autocommit=True)
        except psycopg.OperationalError as error:
            raise _Unconnected(str(error)) from None

    def _configure(self, conn: _Connection) -> None:
        conn.adapters.register_dumper(int, Int8BinaryDumper)
        # Its name is found before any other's, and only there.
        path = sql.SQL("SET search_path = {}").format(sql.Identifier(self._target.schema))
        conn.execute(path)
        conn.execute(_SESSION)
        self._check_memory(conn)

    def _check_memory(self, conn: _Connection) -> None:
        """Make sure that the server remembers what it confirmed."""
        if not self._confirmed:
            return
        row = conn.execute(_READ_MARK, (self._writer,)).fetchone()
        if row is None or row[0] < self._confirmed:
            self._broken = (
                f"the server of the store {self._target.name} came back without changes that it "
                "had confirmed; a replica that was behind may have taken over, or an older backup. "
                "Nothing more is written by this process: run again, which goes on from what the "
                "store holds now."
            )
            raise StoreError(self._broken)

    def _drop(self) -> None:
        conn, self._conn = self._conn, None
        if conn is not None:
            with contextlib.suppress(psycopg.Error):
                conn.close()

    # -- transactions -------------------------------------------------------------------------

    def do(self, job: Job[T]) -> T:
        """
        Make one transaction, once, through whatever happens to the connection.

        Raises:
            StoreError: The server stayed away or refused. Of a change whose confirmation was lost
                it is not known whether it was made; every other one was not.
        """
        self._doubted.clear()
        if job.changes:
            self._mark += 1
        tries = 0
        while True:
            if self._broken is not None:
                raise StoreError(self._broken)
            tries += 1
            try:
                self._conn = self._conn or self._prepared(None)
                return self._finished(self._attempt(self._conn, job), job)
            except _Stood:
                stood: T = self._doubted[0]
                return self._finished(stood, job)
            except psycopg.Error as error:
                longest = self._set_back(error, job, tries)
            pause(longest * (0.5 + clock().random() / 2))

    def _finished(self, result: T, job: Job[T]) -> T:
        self._down_since = None
        if job.changes:
            self._confirmed = self._mark
        return result

    def _attempt(self, conn: _Connection, job: Job[T]) -> T:
        failure: BaseException | None = None
        try:
            with contextlib.ExitStack() as pipe:
                pipe.enter_context(conn.pipeline())
                # Caught here: the driver would log what else fails on the way out.
                try:
                    result = self._transact(Db(conn, self._recall, pipe), job)
                except BaseException as error:
                    failure = error
        except psycopg.Error as error:
            failure = failure or error
        if failure is not None:
            self._undo(conn)
            raise failure
        return result

    def _transact(self, db: Db, job: Job[T]) -> T:
        db.conn.execute("BEGIN" if job.changes else _SNAPSHOT, prepare=False)
        result = job.work(db)
        if job.changes:
            db.conn.execute(_MARK, (self._writer, self._mark))
            self._doubted[:] = [result]
        db.conn.execute("COMMIT", prepare=False)
        return result

    def _undo(self, conn: _Connection) -> None:
        try:
            conn.execute("ROLLBACK")
        except psycopg.Error:
            self._drop()

    def _recall(self) -> None:
        """See whether the change in doubt was made; called with the run's row locked."""
        conn = self._conn
        if self._doubted and conn is not None:
            row = conn.execute(_READ_MARK, (self._writer,)).fetchone()
            if row is not None and row[0] == self._mark:
                raise _Stood

    # -- setbacks -----------------------------------------------------------------------------

    def _set_back(self, error: psycopg.Error, job: Job[Any], tries: int) -> float:
        """Return how long to wait before another try, else raise what is told."""
        fault = sort_out(
            error,
            connected=not isinstance(error, _Unconnected),
            gone=self._conn is None or self._conn.closed,
        )
        if fault is Fault.FATAL:
            told = unreachable if isinstance(error, _Unconnected) else translate
            raise told(error, self._target) from None
        if fault is Fault.LOST:
            self._drop()
        if job.abandoned or self.closing:
            raise StoreError(f"the store {self._target.name} was closed meanwhile") from None
        if fault is Fault.AGAIN:
            if tries >= _TRIES:
                raise self._busy(error, f"{tries} times") from None
            return _PAUSE
        now = thread_clock()
        self._down_since = now if self._down_since is None else self._down_since
        if now - self._down_since < self._target.outage:
            if tries == 1 and fault is Fault.LOST:
                return 0.0
            return min(_PAUSE * 2.0 ** min(tries, 10), _MAX_PAUSE)
        if fault is Fault.BUSY:
            raise self._busy(error, f"for {self._target.outage:g} s") from None
        raise self._away(error) from None

    def _busy(self, error: psycopg.Error, how_long: str) -> StoreBusy:
        return StoreBusy(
            f"the store {self._target.name} was held up by another program {how_long}: "
            f"{message(error)}. Look for what else works on its tables, and run again."
        )

    def _away(self, error: psycopg.Error) -> StoreError:
        open_fate = (
            " Whether the last change was stored before that is not known, and does not have to be."
            if self._doubted
            else ""
        )
        return StoreError(
            f"the store {self._target.name} could not be reached for {self._target.outage:g} s: "
            f"{message(error)}.{open_fate} What was confirmed before is safe: run again once the "
            "server is back."
        )


_SNAPSHOT: Final = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"
