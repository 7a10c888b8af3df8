"""
Cutting a shard that was refused into parts, where several processes work on the run.

The items never wait in between: they change from the shard into its parts, so that nobody else can
mix them with what waits.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from batchwright._clock import clock
from batchwright._context import RunContext
from batchwright._shards import spans_of
from batchwright._wire import body_size, entry_size
from batchwright.events import ShardPlanned
from batchwright.shared import SharedStore
from batchwright.store import Shard, ShardPlan

#: Bytes of bodies read at once while their sizes are taken.
PAGE_BYTES = 1_000_000


async def plan_parts(
    ctx: RunContext, store: SharedStore, parent: Shard, parts: Sequence[Sequence[int]]
) -> list[Shard]:
    """Create a shard for each of *parts*, positions of items that are in flight in *parent*."""
    sizes = await _sizes(ctx, parent)
    shards = []
    for seqs in parts:
        if not seqs:
            continue
        plan = _plan(parent, seqs, sizes)
        shard = await store.plan_part(ctx.lease, parent.number, plan)
        ctx.emit(
            ShardPlanned(
                run_id=ctx.run_id,
                shard=shard.number,
                org=shard.org,
                count=shard.count,
                size=shard.size,
            )
        )
        shards.append(shard)
    return shards


def _plan(parent: Shard, seqs: Sequence[int], sizes: Mapping[int, int]) -> ShardPlan:
    return ShardPlan(
        spans=spans_of(seqs),
        count=len(seqs),
        size=body_size(len(seqs), sum(sizes[seq] for seq in seqs)),
        headers=parent.headers,
        org=parent.org,
        wave=parent.wave,
        planned_at=clock().now(),
    )


async def _sizes(ctx: RunContext, parent: Shard) -> dict[int, int]:
    """Return the bytes of each item's entry on the wire."""
    sizes: dict[int, int] = {}
    after = -1
    while page := await ctx.store.read_bodies(ctx.run_id, parent.number, after, PAGE_BYTES):
        sizes.update((body.seq, entry_size(body.custom_id, len(body.body))) for body in page)
        after = page[-1].seq
    return sizes
