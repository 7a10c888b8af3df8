"""
Runs kept in one SQLite file: the default store.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, TypeVar

import anyio

from batchwright._threads import Worker
from batchwright.errors import StoreError
from batchwright.store import (
    Body,
    Found,
    Group,
    Lease,
    Member,
    NewItem,
    OnChanged,
    Owner,
    Pending,
    Rest,
    Row,
    RunInfo,
    Settled,
    Settlement,
    Shard,
    ShardPlan,
    ShardState,
    Staged,
)
from batchwright.stores import _sqlite_cache as caching
from batchwright.stores import _sqlite_intake as intakes
from batchwright.stores import _sqlite_read as reading
from batchwright.stores import _sqlite_settle as settling
from batchwright.stores import _sqlite_write as writing
from batchwright.stores._sqlite_db import Db, check_still_there, connect, transact, translated
from batchwright.stores._sqlite_look import look

T = TypeVar("T")

#: Moves after which a batch may exist that nothing else knows of: they survive a loss of power.
_MOMENTOUS = frozenset({ShardState.SENDING, ShardState.LIVE})


class SQLiteStore:
    """
    A `CheckpointStore` in one SQLite file.

    One connection on one thread; each method is one transaction. The file is created readable by
    its owner only. It is bound to no event loop; closed, it can be opened again.

    Args:
        path: The file; its folder must exist.
        busy_timeout: Seconds to wait for another program that has the file locked.
        read_only: Only read. The file must be there; it, and what lies beside it, stay as they are.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        busy_timeout: float = 30.0,
        read_only: bool = False,
    ) -> None:
        self.path: Path = Path(os.path.abspath(path))  # noqa: PTH100 - symbolic links stay
        self.busy_timeout = busy_timeout
        self.read_only = read_only
        self._worker: Worker | None = None
        self._db: Db | None = None

    def __repr__(self) -> str:
        return f"{type(self).__name__}({str(self.path)!r})"

    async def open(self) -> None:
        """See `CheckpointStore.open`."""
        if self._worker is None:
            self._worker = Worker("batchwright-sqlite")
        worker = self._worker
        try:
            await worker.call(self._connect)
        except BaseException:
            await self.close()
            raise

    async def close(self) -> None:
        """See `CheckpointStore.close`."""
        worker, self._worker = self._worker, None
        if worker is not None:
            try:
                with anyio.CancelScope(shield=True):
                    await worker.call(self._disconnect)
            finally:
                worker.stop()

    def _connect(self) -> None:
        if self.read_only:
            look(self.path, self.busy_timeout, lambda _: None)
        elif self._db is None:
            self._db = connect(self.path, self.busy_timeout)

    def _disconnect(self) -> None:
        db, self._db = self._db, None
        if db is not None:
            with translated(self.path, self.busy_timeout):
                db.conn.close()

    async def _call(self, work: Callable[[Db], T], begin: str, *, durable: bool = False) -> T:
        def call() -> T:
            if self._db is None:
                raise StoreError(f"the store {self.path} is not open")
            with translated(self.path, self.busy_timeout):
                return transact(self._db, work, begin=begin, durable=durable)

        if self._worker is None:
            raise StoreError(f"the store {self.path} is not open")
        return await self._worker.call(call)

    async def _read(self, work: Callable[[Db], T]) -> T:
        if self.read_only and self._worker is not None:
            return await self._worker.call(lambda: look(self.path, self.busy_timeout, work))
        return await self._call(work, "BEGIN")

    async def _write(self, work: Callable[[Db], T], *, durable: bool = False) -> T:
        def write(db: Db) -> T:
            check_still_there(db)
            return work(db)

        if self.read_only:
            raise StoreError(f"the store {self.path} was opened for reading only")
        # IMMEDIATE: a reader that turns into a writer can be refused without waiting.
        return await self._call(write, "BEGIN IMMEDIATE", durable=durable)

    # -- ownership ----------------------------------------------------------------------------

    async def read_lease(self, run_id: str) -> Lease | None:
        """See `CheckpointStore.read_lease`."""
        return await self._read(lambda db: writing.read_lease(db, run_id))

    async def acquire(
        self, run_id: str, owner: Owner, now: datetime, *, replacing: int | None
    ) -> Lease:
        """See `CheckpointStore.acquire`."""
        return await self._write(lambda db: writing.acquire(db, run_id, owner, now, replacing))

    async def renew(self, lease: Lease, now: datetime) -> Lease:
        """See `CheckpointStore.renew`."""
        return await self._write(lambda db: writing.renew(db, lease, now))

    async def release(self, lease: Lease) -> None:
        """See `CheckpointStore.release`."""
        await self._write(lambda db: writing.release(db, lease))

    # -- intake -------------------------------------------------------------------------------

    async def begin_intake(self, lease: Lease) -> int:
        """See `CheckpointStore.begin_intake`."""
        while await self._write(lambda db: intakes.forget_some(db, lease)):
            pass
        return await self._write(lambda db: intakes.begin_intake(db, lease))

    async def stage(
        self, lease: Lease, intake: int, rows: Sequence[NewItem], on_changed: OnChanged
    ) -> Staged:
        """See `CheckpointStore.stage`."""
        return await self._write(lambda db: intakes.stage(db, lease, intake, rows, on_changed))

    async def commit_intake(self, lease: Lease, intake: int) -> RunInfo:
        """See `CheckpointStore.commit_intake`."""
        return await self._write(lambda db: intakes.commit_intake(db, lease, intake))

    # -- work ---------------------------------------------------------------------------------

    async def start_wave(self, lease: Lease, resubmit: frozenset[str]) -> Sequence[Group]:
        """See `CheckpointStore.start_wave`."""
        return await self._write(lambda db: writing.start_wave(db, lease, resubmit))

    async def plan_shard(self, lease: Lease, plan: ShardPlan) -> Shard:
        """See `CheckpointStore.plan_shard`."""
        return await self._write(lambda db: writing.plan_shard(db, lease, plan))

    async def move_shard(
        self,
        lease: Lease,
        number: int,
        *,
        expect: frozenset[ShardState],
        to: ShardState,
        rest: Rest | None = None,
        **facts: Any,
    ) -> Shard:
        """See `CheckpointStore.move_shard`."""
        return await self._write(
            lambda db: writing.move_shard(db, lease, number, expect, to, rest, facts),
            durable=to in _MOMENTOUS,
        )

    async def settle(
        self, lease: Lease, number: int | None, settlements: Sequence[Settlement]
    ) -> Sequence[Settled]:
        """See `CheckpointStore.settle`."""
        # A direct answer was paid for and cannot be read again; a batch can.
        return await self._write(
            lambda db: settling.settle(db, lease, number, settlements),
            durable=any(said.via == "sync" for said in settlements),
        )

    async def put_facts(self, lease: Lease, facts: Mapping[str, Any]) -> None:
        """See `CheckpointStore.put_facts`."""
        await self._write(lambda db: writing.put_facts(db, lease, facts))

    async def put_wish(self, run_id: str, name: str, value: Any) -> None:
        """See `CheckpointStore.put_wish`."""
        await self._write(lambda db: writing.put_wish(db, run_id, name, value))

    # -- reading ------------------------------------------------------------------------------

    async def list_runs(self) -> Sequence[str]:
        """See `CheckpointStore.list_runs`."""
        return await self._read(reading.list_runs)

    async def read_run(self, run_id: str) -> RunInfo | None:
        """See `CheckpointStore.read_run`."""
        return await self._read(lambda db: reading.read_run(db, run_id))

    async def read_shards(self, run_id: str) -> Sequence[Shard]:
        """See `CheckpointStore.read_shards`."""
        return await self._read(lambda db: reading.read_shards(db, run_id))

    async def read_pending(
        self, run_id: str, headers: str, after: int, limit: int
    ) -> Sequence[Pending]:
        """See `CheckpointStore.read_pending`."""
        return await self._read(lambda db: reading.read_pending(db, run_id, headers, after, limit))

    async def read_members(self, run_id: str, number: int) -> Sequence[Member]:
        """See `CheckpointStore.read_members`."""
        return await self._read(lambda db: reading.read_members(db, run_id, number))

    async def read_bodies(
        self, run_id: str, number: int, after: int, max_bytes: int
    ) -> Sequence[Body]:
        """See `CheckpointStore.read_bodies`."""
        return await self._read(
            lambda db: reading.read_bodies(db, run_id, number, after, max_bytes)
        )

    async def read_rows(
        self,
        run_id: str,
        after: int,
        limit: int,
        *,
        intake: int | None = None,
        reason: str | None = None,
        succeeded: bool = True,
        raw: bool = True,
        max_bytes: int = 16_000_000,
    ) -> Sequence[Row]:
        """See `CheckpointStore.read_rows`."""
        wanted = reading.Wanted(intake=intake, reason=reason, succeeded=succeeded, raw=raw)
        return await self._read(
            lambda db: reading.read_rows(db, run_id, after, limit, wanted, max_bytes)
        )

    async def find_answers(
        self,
        run_id: str,
        sources: Sequence[str],
        first: int,
        last: int,
        *,
        max_bytes: int = 16_000_000,
    ) -> Sequence[Found]:
        """See `CheckpointStore.find_answers`."""
        if not await self._read(caching.has_index):
            await self._write(caching.make_index)
        return await self._read(
            lambda db: caching.find_answers(db, run_id, sources, first, last, max_bytes)
        )
