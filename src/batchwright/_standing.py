"""
What stands about a run, read from its store: no lease, no request.
"""

from __future__ import annotations

from batchwright import _lease
from batchwright._clock import clock
from batchwright.events import LiveBatch
from batchwright.status import RunStatus, kept_until, progress_of
from batchwright.store import CheckpointStore, RunInfo, Shard, ShardState


async def read_status(store: CheckpointStore, info: RunInfo) -> RunStatus:
    """Return what stands about the run of *info*."""
    shards = await store.read_shards(info.run_id)
    lease = await store.read_lease(info.run_id)
    now = clock().now()
    alive = lease is not None and not _lease.may_succeed(lease, _lease.myself(), now)
    live = [s for s in shards if s.state not in {ShardState.DONE, ShardState.HELD}]
    return RunStatus(
        run_id=info.run_id,
        intake_complete=info.intake_complete,
        progress=progress_of(info, tuple(live_batch(s) for s in live if s.batch_id), now),
        reasons=info.reasons,
        truncated=info.truncated,
        refused=info.refused,
        owner=f"process {lease.owner.pid} on {lease.owner.host}" if lease and alive else None,
        live=live,
        held=[s for s in shards if s.state is ShardState.HELD],
        shards=shards,
        kept_until=kept_until(shards, unread_only=True),
        info=info,
    )


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
