"""
Answers of earlier runs to the questions of this one: nothing is sent for them, and nothing paid.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from anyio.lowlevel import checkpoint

from batchwright._context import RunContext
from batchwright._json import load_json
from batchwright._judge import judge_settlements
from batchwright._lines import flag_of, tokens_of
from batchwright._org import OrgLink
from batchwright.events import AnsweredFromCache
from batchwright.store import CheckpointStore, Found, ItemState, NewItem, RunInfo, Settlement

#: Items looked at in one call of the store, and answers taken over at once.
RANGE = 1_000
CHUNK = 250


async def earlier_runs(
    store: CheckpointStore, run_id: str, orgs: Iterable[OrgLink]
) -> list[RunInfo]:
    """
    Return the other runs in *store* that hold answers of what *orgs* talk to, oldest first.

    A run that ever talked to anything else is left out: the answers of a simulator, or of another
    API version, are not answers to the same questions.
    """
    ours = {(org.gateway.base_url, org.gateway.api_version) for org in orgs}
    found = []
    for name in await store.list_runs():
        info = None if name == run_id else await store.read_run(name)
        if info is None or not info.states.get(ItemState.SUCCEEDED):
            continue
        talked = info.facts.get("talked_to", [])
        if all((one["base_url"], one["api_version"]) in ours for one in talked):
            found.append(info)
    return found


async def unproven(
    store: CheckpointStore, run_id: str, orgs: Iterable[OrgLink], firsts: Sequence[NewItem]
) -> list[NewItem]:
    """Return those of *firsts* that ask a model which no earlier run was answered by."""
    runs = await earlier_runs(store, run_id, orgs)
    return [first for first in firsts if not any(first.model in run.models for run in runs)]


async def answer_from_earlier(ctx: RunContext, *, first: int = 0) -> None:
    """
    Answer the waiting items with `seq` from *first* that earlier runs hold answers to.

    An answer that this run's `validate` refuses is no answer here: its item is asked anew.
    """
    runs = await earlier_runs(ctx.store, ctx.run_id, ctx.orgs.values())
    info = await ctx.store.read_run(ctx.run_id)
    assert info is not None, "the run exists while we hold its lease"
    sources = [run.run_id for run in runs]
    answered = 0
    while sources and first < info.items:
        last = first + RANGE - 1
        found = await ctx.store.find_answers(ctx.run_id, sources, first, last)
        for start in range(0, len(found), CHUNK):
            answered += await _take(ctx, found[start : start + CHUNK])
        # A page may end early: what lies behind its last answer is asked for again.
        first = found[-1].member.seq + 1 if found else last + 1
    if answered:
        ctx.emit(AnsweredFromCache(run_id=ctx.run_id, count=answered))


async def _take(ctx: RunContext, found: Sequence[Found]) -> int:
    """Make answers those of this run; return how many it took."""
    members = {one.member.seq: one.member for one in found}
    said = [_settlement(one) for one in found]
    judged = await judge_settlements(ctx, members, said)
    kept = [answer for answer in judged if answer.state in _KEPT]
    told = await ctx.settle(None, kept, members)
    await checkpoint()
    return told.count("applied")


#: A validator that broke says nothing of the answer: it is kept, and judged again.
_KEPT = frozenset({ItemState.SUCCEEDED, ItemState.UNRESOLVED})


def _settlement(found: Found) -> Settlement:
    message = load_json(found.raw)["message"]
    return Settlement(
        seq=found.member.seq,
        state=ItemState.SUCCEEDED,
        charge=0,
        via="cache",
        raw=found.raw,
        tokens=tokens_of(message),
        model=str(message.get("model") or ""),
        flag=flag_of(message),
    )
