"""
Events told from outside: what two looks at a store say has happened in between.

A display that shows a run's own events thereby shows a run of another process too.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from batchwright._context import REMEDIES
from batchwright.events import (
    BatchCanceled,
    BatchHarvested,
    DeadlineExceeded,
    Event,
    RunStarted,
    ShardHeld,
    ShardSubmitted,
    SwitchDecided,
    Talking,
)
from batchwright.status import RunStatus
from batchwright.store import Shard, ShardState

#: Held sub-batches that are named when a run is first looked at; `status` lists them all.
HELD_SHOWN = 10


def told_by(before: RunStatus | None, now: RunStatus, store: str) -> Iterator[Event]:
    """
    Yield what happened between two looks, then where every item stands.

    Of the first look (*before* is `None`) only what still matters is told: that the run is there,
    and what waits for a person.
    """
    if not now.intake_complete:
        return
    if _begun(now) not in {None, _begun(before)}:
        yield _started(now, store)
    if before is None:
        yield from [_held(now.run_id, shard) for shard in now.held[:HELD_SHOWN]]
    else:
        old = {shard.number: shard for shard in before.shards}
        for shard in now.shards:
            yield from _moved(now.run_id, old.get(shard.number), shard)
        yield from _switched(before, now)
    yield now.progress


def _begun(look: RunStatus | None) -> int | None:
    """Return the wave that has said with whom it talks."""
    return look.info.wave if look is not None and look.info.facts.get("talking_to") else None


def _started(now: RunStatus, store: str) -> RunStarted:
    facts = now.info.facts
    return RunStarted(
        run_id=now.run_id,
        wave=now.info.wave,
        items=now.info.items,
        waiting=now.progress.waiting,
        live=len(now.live),
        policy=str(facts.get("policy", "?")),
        store=store,
        talking_to=tuple(Talking(**one) for one in facts.get("talking_to", ())),
    )


def _moved(run_id: str, old: Shard | None, new: Shard) -> Iterator[Event]:
    """Yield what became of one sub-batch."""
    if new.batch_id is not None and (old is None or old.batch_id is None):
        yield ShardSubmitted(
            run_id=run_id,
            shard=new.number,
            org=new.org,
            batch_id=new.batch_id,
            count=new.count,
            size=new.size,
            expires_at=new.expires_at,
        )
    if new.cancel and (old is None or not old.cancel):
        yield _canceled(run_id, new)
    was = old.state if old is not None else None
    if new.state is ShardState.HELD and was is not ShardState.HELD:
        yield _held(run_id, new)
    if new.state is ShardState.DONE and was is not ShardState.DONE and new.batch_id is not None:
        yield BatchHarvested(
            run_id=run_id,
            shard=new.number,
            org=new.org,
            batch_id=new.batch_id,
            lines=sum((new.counts or {}).values()),
        )


def _canceled(run_id: str, shard: Shard) -> Event:
    if shard.cancel == "overdue":
        return DeadlineExceeded(
            run_id=run_id,
            shard=shard.number,
            org=shard.org,
            batch_id=shard.batch_id or "",
            count=shard.count,
            expires_at=shard.expires_at,
        )
    return BatchCanceled(
        run_id=run_id,
        shard=shard.number,
        org=shard.org,
        batch_id=shard.batch_id or "",
        by=shard.cancel,
    )


def _held(run_id: str, shard: Shard) -> ShardHeld:
    reason = shard.reason or "unknown"
    return ShardHeld(
        run_id=run_id,
        shard=shard.number,
        org=shard.org,
        batch_id=shard.batch_id,
        count=shard.count,
        reason=reason,
        remedy=REMEDIES.get(reason, "batchwright status says more"),
    )


def _switched(before: RunStatus, now: RunStatus) -> Iterator[Event]:
    fact = now.info.facts.get("switch")
    if not isinstance(fact, Mapping) or before.info.facts.get("switch"):
        return
    yield SwitchDecided(
        run_id=now.run_id,
        reason=str(fact.get("reason", "?")),
        share=float(fact.get("share", 1.0)),
        remaining=int(fact.get("items", 0)),
    )
