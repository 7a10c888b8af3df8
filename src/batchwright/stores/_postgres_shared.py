"""
The part of the PostgreSQL store that lets several processes work on one run.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from batchwright.shared import OpenShard, Worker
from batchwright.store import Group, Lease, Owner, Shard, ShardPlan, ShardState
from batchwright.stores import _postgres_shards as shards
from batchwright.stores import _postgres_workers as workers
from batchwright.stores._postgres_hands import Hands


class PostgresWorkers(Hands):
    """What `SharedStore` asks for beside `CheckpointStore`."""

    #: Any process that can reach the server can work on a run.
    is_shared = True

    async def join(self, run_id: str, owner: Owner, now: datetime) -> Lease:
        """See `SharedStore.join`."""
        return await self._write(lambda db: workers.join(db, run_id, owner, now))

    async def read_workers(self, run_id: str) -> Sequence[Worker]:
        """See `SharedStore.read_workers`."""
        return await self._read(lambda db: workers.read_workers(db, run_id))

    async def put_note(self, lease: Lease, note: Mapping[str, Any]) -> None:
        """See `SharedStore.put_note`."""
        await self._write(lambda db: workers.put_note(db, lease, note))

    async def bury(self, seen: Lease, *, dead: bool) -> bool:
        """See `SharedStore.bury`."""
        return await self._write(lambda db: workers.bury(db, seen, dead=dead))

    async def claim(
        self,
        lease: Lease,
        states: frozenset[ShardState],
        *,
        direct: bool,
        orgs: frozenset[str],
        limit: int,
    ) -> Sequence[Shard]:
        """See `SharedStore.claim`."""
        return await self._write(
            lambda db: workers.claim(db, lease, states, direct=direct, orgs=orgs, limit=limit)
        )

    async def put_down(self, lease: Lease, number: int, *, rested: bool) -> None:
        """See `SharedStore.put_down`."""
        await self._write(lambda db: workers.put_down(db, lease, number, rested=rested))

    async def plan_part(self, lease: Lease, parent: int, plan: ShardPlan) -> Shard:
        """See `SharedStore.plan_part`."""
        return await self._write(lambda db: shards.plan_part(db, lease, parent, plan))

    async def read_open(self, run_id: str) -> Sequence[OpenShard]:
        """See `SharedStore.read_open`."""
        return await self._read(lambda db: workers.read_open(db, run_id))

    async def read_groups(self, run_id: str) -> Sequence[Group]:
        """See `SharedStore.read_groups`."""
        return await self._read(lambda db: workers.read_groups(db, run_id))
