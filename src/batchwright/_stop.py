"""
Asking the server to cancel a run's batches, without waiting for what becomes of them.
"""

from __future__ import annotations

import anyio

from batchwright._context import RunContext
from batchwright._poll import Watch
from batchwright.status import CancelsRequested
from batchwright.store import Shard, ShardState


async def request_cancels(ctx: RunContext, timeout: float) -> CancelsRequested:  # noqa: ASYNC109
    """Send one cancel for each live batch, all at once; what got no answer in time is named."""
    shards = await ctx.store.read_shards(ctx.run_id)
    live = [shard for shard in shards if shard.state is ShardState.LIVE]
    asked: list[str] = []
    refused = {shard.batch_id or "": f"no answer within {timeout:g} s" for shard in live}

    async def one(shard: Shard) -> None:
        batch_id = shard.batch_id or ""
        org = ctx.org_of(shard)
        if org is None:
            refused[batch_id] = f"org {shard.org!r} is not among those given"
            return
        failure = await Watch(ctx, org, shard).cancel("user")
        if failure is None:
            asked.append(batch_id)
            del refused[batch_id]
        else:
            refused[batch_id] = str(failure)

    with anyio.move_on_after(timeout):
        async with anyio.create_task_group() as tasks:
            for shard in live:
                tasks.start_soon(one, shard)
    doubt = sum(shard.state is ShardState.SENDING for shard in shards)
    return CancelsRequested(asked=tuple(asked), refused=refused, in_doubt=doubt)
