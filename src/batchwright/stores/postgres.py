"""
Runs kept in a PostgreSQL database: for several processes, several machines, or a disk elsewhere.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

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
from batchwright.stores import _postgres_cache as caching
from batchwright.stores import _postgres_intake as intakes
from batchwright.stores import _postgres_read as reading
from batchwright.stores import _postgres_settle as settling
from batchwright.stores import _postgres_shards as shards
from batchwright.stores import _postgres_workers as workers
from batchwright.stores import _postgres_write as writing
from batchwright.stores._postgres_shared import PostgresWorkers


class PostgresStore(PostgresWorkers):
    """
    A `CheckpointStore` in a PostgreSQL database.

    One connection writes, two read, each on a thread of its own; each method is one transaction. A
    lost connection is made anew, and a change whose confirmation was lost with it is looked up
    before it is made again. The store is bound to no event loop; closed, it can be opened again.

    Args:
        url: `postgresql://user:password@host:port/database`, with any parameter of libpq, and two
            of ours: `schema` (default `batchwright`) and `outage`, the seconds for which the server
            may be away before a call gives up (default 60).
        read_only: Make and change nothing, not even the tables.

    Raises:
        ConfigurationError: *url* is none.
    """

    # -- ownership ----------------------------------------------------------------------------

    async def read_lease(self, run_id: str) -> Lease | None:
        """See `CheckpointStore.read_lease`."""
        return await self._read(lambda db: reading.read_lease(db, run_id))

    async def acquire(
        self, run_id: str, owner: Owner, now: datetime, *, replacing: int | None
    ) -> Lease:
        """See `CheckpointStore.acquire`."""
        return await self._write(lambda db: writing.acquire(db, run_id, owner, now, replacing))

    async def renew(self, lease: Lease, now: datetime) -> Lease:
        """See `CheckpointStore.renew`."""
        renew = workers.beat if lease.worker else writing.renew
        return await self._write(lambda db: renew(db, lease, now))

    async def release(self, lease: Lease) -> None:
        """See `CheckpointStore.release`."""
        release = workers.leave if lease.worker else writing.release
        await self._write(lambda db: release(db, lease))

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
        return await self._write(lambda db: shards.plan_shard(db, lease, plan))

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
            lambda db: shards.move_shard(db, lease, number, expect, to, rest, facts)
        )

    async def settle(
        self, lease: Lease, number: int | None, settlements: Sequence[Settlement]
    ) -> Sequence[Settled]:
        """See `CheckpointStore.settle`."""
        return await self._write(lambda db: settling.settle(db, lease, number, settlements))

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
            await self._write(lambda db: caching.make_index(db, run_id))
        return await self._read(
            lambda db: caching.find_answers(db, run_id, sources, first, last, max_bytes)
        )
