"""
What a wave does before it sends anything: stored answers are judged again, waiting items canceled.
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator

from batchwright._api import CallFailed
from batchwright._context import RunContext
from batchwright._faults import Fault, classify
from batchwright._judge import judge_settlements
from batchwright._lines import flag_of, tokens_of
from batchwright._org import OrgLink
from batchwright.errors import ShardClaimed
from batchwright.result import pages
from batchwright.store import ItemState, Member, Rest, Row, Settlement, Shard, ShardState
from batchwright.types import ItemError

#: Rows taken at once.
CHUNK = 250


async def judge_again(ctx: RunContext) -> None:
    """
    Judge the answers on which an earlier validator broke; no call is made.

    Without a validator they are accepted as they are.
    """
    async for chunk in _chunks(pages(ctx.store, ctx.run_id, reason="validator")):
        await _judge_chunk(ctx, chunk)


async def _chunks(rows: AsyncIterator[Row]) -> AsyncIterator[list[Row]]:
    """Yield *rows* in chunks; what becomes of a chunk does not disturb the paging by position."""
    chunk: list[Row] = []
    async for row in rows:
        chunk.append(row)
        if len(chunk) >= CHUNK:
            yield chunk
            chunk = []
    if chunk:
        yield chunk


async def _judge_chunk(ctx: RunContext, rows: list[Row]) -> None:
    members = {row.seq: _member(row) for row in rows}
    answers = [_answer(row) for row in rows]
    judged = await judge_settlements(ctx, members, answers)
    await ctx.settle(None, judged, members)


def _answer(row: Row) -> Settlement:
    outcome = row.outcome
    message = outcome.answer or {}
    assert outcome.via is not None, "a stored answer came by some path"
    return Settlement(
        seq=row.seq,
        state=ItemState.SUCCEEDED,
        charge=0,
        via=outcome.via,
        org=outcome.org,
        batch_id=outcome.batch_id,
        raw=outcome.raw,
        tokens=tokens_of(message),
        model=str(message.get("model") or ""),
        flag=flag_of(message),
    )


def _member(row: Row) -> Member:
    outcome = row.outcome
    return Member(
        seq=row.seq,
        id=outcome.id,
        custom_id=outcome.custom_id,
        state=row.state,
        attempts=outcome.attempts,
        used=outcome.attempts,
        shard=None,
        metadata=outcome.metadata,
    )


async def cancel_waiting(ctx: RunContext) -> None:
    """End the items that wait to be sent as `unresolved: canceled`."""
    error = ItemError(type="canceled", message="the run was canceled before this item was sent")
    rest = pages(ctx.store, ctx.run_id, succeeded=False, raw=False)
    async for rows in _chunks(rest):
        chunk = [row for row in rows if row.state is ItemState.PENDING]
        if not chunk:
            continue
        settlements = [
            Settlement(
                seq=row.seq,
                state=ItemState.UNRESOLVED,
                reason="canceled",
                error=error,
                charge=0,
            )
            for row in chunk
        ]
        await ctx.settle(None, settlements, {row.seq: _member(row) for row in chunk})


async def take_back_unsent(ctx: RunContext) -> None:
    """
    Let items of shards that were planned and certainly not sent wait again.

    They are cut anew rather than sent as they were: an item may have been replaced since.
    """
    for shard in await ctx.store.read_shards(ctx.run_id):
        if shard.state is ShardState.PLANNED:
            await take_back(ctx, shard)


async def take_back(ctx: RunContext, shard: Shard) -> None:
    """Let the items of a planned shard wait again, unless a worker has just claimed it."""
    rest = Rest(state=ItemState.PENDING)
    with contextlib.suppress(ShardClaimed):
        await ctx.move(shard, ShardState.DONE, reason="unsent", rest=rest)


async def greet(ctx: RunContext, org: OrgLink) -> None:
    """
    Prove the credential by a cheap call, and learn the server's clock and the account's ids.

    A wrong key or a dead host is told now, and not by each of many creates.
    """
    try:
        await org.call("list", lambda: org.gateway.list(limit=1))
    except CallFailed as failed:
        fault = classify(failed.failure)
        if fault is Fault.ACCOUNT:
            org.shut = True
            ctx.halt(org, "account", str(failed.failure), failed.failure.kind)
        elif fault is Fault.MOMENT and not failed.failure.sent:
            ctx.halt(org, "interrupted", f"{org.gateway.base_url}: {failed.failure}")


def is_unfinished(shard: Shard) -> bool:
    """Tell whether something is to be done about *shard* in a new wave."""
    if shard.state is ShardState.HELD:
        return shard.batch_id is not None or shard.reason == "ambiguous"
    return shard.state is not ShardState.DONE
