"""
What stands about a run, read from its store: no lease, no request.
"""

from __future__ import annotations

from batchwright import _lease
from batchwright._clock import clock
from batchwright.events import LiveBatch
from batchwright.shared import SharedStore
from batchwright.status import RunStatus, kept_until, progress_of
from batchwright.store import CheckpointStore, RunInfo, Shard, ShardState

#: So many of the processes that work on a run are named.
NAMED = 3


async def read_status(store: CheckpointStore, info: RunInfo) -> RunStatus:
    """Return what stands about the run of *info*."""
    shards = await store.read_shards(info.run_id)
    now = clock().now()
    live = [s for s in shards if s.state not in {ShardState.DONE, ShardState.HELD}]
    return RunStatus(
        run_id=info.run_id,
        intake_complete=info.intake_complete,
        progress=progress_of(info, tuple(live_batch(s) for s in live if s.batch_id), now),
        reasons=info.reasons,
        truncated=info.truncated,
        refused=info.refused,
        owner=await _owner(store, info.run_id),
        live=live,
        held=[s for s in shards if s.state is ShardState.HELD],
        shards=shards,
        kept_until=kept_until(shards, unread_only=True),
        info=info,
    )


async def _owner(store: CheckpointStore, run_id: str) -> str | None:
    """Return who works on a run now; several processes are counted and the first ones named."""
    lease = await store.read_lease(run_id)
    leases = [] if lease is None else [lease]
    if isinstance(store, SharedStore):
        # Whoever conducts works as well, and is named once.
        leases = [worker.lease for worker in await store.read_workers(run_id)] or leases
    here, now = _lease.myself(), clock().now()
    living = [one for one in leases if not _lease.may_succeed(one, here, now)]
    names = [f"process {one.owner.pid} on {one.owner.host}" for one in living]
    if len(names) <= 1:
        return names[0] if names else None
    more = ", …" if len(names) > NAMED else ""
    return f"{len(names)} processes: {', '.join(names[:NAMED])}{more}"


def live_batch(shard: Shard) -> LiveBatch:
    """Return a sub-batch that is alive as events and displays tell it."""
    return LiveBatch(
        shard=shard.number,
        org=shard.org,
        batch_id=shard.batch_id or "",
        count=shard.count,
        status=_status(shard),
        created_at=shard.created_at,
        expires_at=shard.expires_at,
    )


def _status(shard: Shard) -> str:
    """Return what the server would say of a batch, as far as the store can know."""
    if shard.state is ShardState.LIVE:
        return "canceling" if shard.cancel else "in_progress"
    return str(shard.state)
