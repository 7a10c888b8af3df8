"""
One item of each shape goes ahead by direct call, before many of them wait a day for an error.

A batch tells of a bad request only when the whole batch has ended. So before a large first wave a
few items, one of each distinct shape, are asked directly; nothing is committed before they pass.
"""

from __future__ import annotations

from collections.abc import Sequence

import orjson

from batchwright._api import CallFailed
from batchwright._context import RunContext
from batchwright._faults import Failure, Fault, classify
from batchwright._json import load_json
from batchwright._judge import judge_settlements
from batchwright._org import OrgLink
from batchwright._sync import answer_of, message_in, needs_stream
from batchwright.errors import CanaryFailed
from batchwright.store import ItemState, Member, NewItem, Settlement

#: Waves of more items than this are tried by a canary first.
ABOVE = 1_000

_ITEM_FAULTS = frozenset({Fault.ENVELOPE, Fault.TOO_LARGE})


async def try_shapes(org: OrgLink, firsts: Sequence[NewItem], items: int) -> list[Settlement]:
    """
    Ask the first item of each shape directly; return their answers.

    Only the item's own fault counts against it: where direct calls are busy, forbidden or not
    there at all, the canary says nothing and the batches go out.

    Raises:
        CanaryFailed: The API refuses an item of this shape.
    """
    answers = []
    for first in firsts:
        headers = orjson.loads(first.headers) if first.headers else {}
        try:
            reply = await org.gateway.message(first.body, headers, stream=needs_stream(first.body))
        except CallFailed as failed:
            if _is_items_fault(failed.failure):
                raise CanaryFailed(first.id, first.model, str(failed.failure), items) from None
            continue
        message = message_in(reply.body)
        if message is None:
            continue
        # In a run without items before it, positions are the places in the store as well.
        answers.append(answer_of(first.position, org.label, reply.body.strip(), message))
    return answers


async def settle_answers(
    ctx: RunContext, firsts: Sequence[NewItem], answers: Sequence[Settlement]
) -> None:
    """Make the canary's answers count, judged like any others."""
    members = {first.position: _member(first) for first in firsts}
    judged = await judge_settlements(ctx, members, answers)
    await ctx.settle(None, judged, members)


def _member(first: NewItem) -> Member:
    return Member(
        seq=first.position,
        id=first.id,
        custom_id=first.custom_id,
        state=ItemState.PENDING,
        attempts=0,
        used=0,
        shard=None,
        metadata=None if first.metadata is None else load_json(first.metadata),
    )


def _is_items_fault(failure: Failure) -> bool:
    """Tell whether the API itself refused the request for what is in it."""
    fault = classify(failure)
    # An unknown model is told by a 404 that names it; any other says that nothing answers here.
    no_model = fault is Fault.NOT_FOUND and failure.message.startswith("model:")
    return failure.envelope and (fault in _ITEM_FAULTS or no_model)
