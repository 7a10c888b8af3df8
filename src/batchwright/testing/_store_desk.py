"""
What the checks of the store port share: a store with a run in it, and short ways to move items.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from batchwright._json import dump_json
from batchwright._shards import spans_of
from batchwright.store import (
    FINAL,
    CheckpointStore,
    ItemState,
    Lease,
    NewItem,
    OnChanged,
    Owner,
    Row,
    RunInfo,
    Settled,
    Settlement,
    Shard,
    ShardPlan,
    ShardState,
    Staged,
)
from batchwright.types import ItemError, Tokens

NOW: Final = datetime(2026, 3, 1, 12, 0, 0, 250_000, tzinfo=UTC)
LATER: Final = NOW + timedelta(hours=1)
OWNER: Final = Owner(host="here", boot="b1", pid=11, started="s1", instance="i1")
RIVAL: Final = Owner(host="there", boot="b2", pid=22, started="s2", instance="i2")
TOKENS: Final = Tokens(3, 5, 7, 11)
MODEL: Final = "claude-test"
ALL: Final = frozenset(ShardState)


def question(position: int, item_id: str = "", text: str = "?", **other: Any) -> NewItem:
    """Return an item whose digest follows from *text*."""
    item_id = item_id or f"item-{position}"
    body = dump_json({"model": MODEL, "messages": text})
    digest = hashlib.blake2b(body, digest_size=16).digest()
    custom_id = f"c-{hashlib.sha256(item_id.encode() + digest).hexdigest()[:11]}"
    fields: dict[str, Any] = {"body": body, "digest": digest, "model": MODEL, **other}
    return NewItem(position=position, id=item_id, custom_id=custom_id, **fields)


def refused(position: int, item_id: str = "", message: str = "no model") -> NewItem:
    """Return an item that was refused at intake."""
    return question(
        position,
        item_id,
        digest=b"",
        body=b"",
        model="",
        refusal=ItemError("invalid_request_error", message),
        reason="refused_at_intake",
    )


def raw_answer(text: str = "yes", stop_reason: str = "end_turn") -> bytes:
    """Return a result object as the API gives it."""
    content = [{"type": "text", "text": text}]
    message = {"content": content, "stop_reason": stop_reason}
    return dump_json({"type": "succeeded", "message": message})


def answer(seq: int, batch_id: str | None = "b-1", **other: Any) -> Settlement:
    """Return a settlement in which the model answered."""
    fields: dict[str, Any] = {
        "state": ItemState.SUCCEEDED,
        "org": "main",
        "raw": raw_answer(),
        "tokens": TOKENS,
        "model": MODEL,
        **other,
    }
    return Settlement(seq=seq, batch_id=batch_id, **fields)


def fault(seq: int, state: ItemState, batch_id: str | None = "b-1", **other: Any) -> Settlement:
    """Return a settlement without an answer."""
    fields: dict[str, Any] = {"org": "main", "error": ItemError("api_error", "oh", "r1"), **other}
    return Settlement(seq=seq, state=state, batch_id=batch_id, **fields)


def plan_of(seqs: Sequence[int], **other: Any) -> ShardPlan:
    """Return a plan for a shard of *seqs*."""
    fields: dict[str, Any] = {
        "spans": tuple(spans_of(seqs)),
        "count": len(seqs),
        "size": 1_000,
        "headers": "",
        "org": "main",
        "wave": 1,
        "planned_at": NOW,
        **other,
    }
    return ShardPlan(**fields)


@dataclass(slots=True)
class Desk:
    """A run in a store, owned, with short ways to work on it."""

    store: CheckpointStore
    lease: Lease
    run_id: str = "run"
    intake: int = 0

    async def stage(self, *rows: NewItem, on_changed: OnChanged = "error") -> Staged:
        """Begin an intake and stage *rows* in it, without committing."""
        self.intake = await self.store.begin_intake(self.lease)
        return await self.store.stage(self.lease, self.intake, rows, on_changed)

    async def take(self, *rows: NewItem, on_changed: OnChanged = "error") -> Staged:
        """Take *rows* in as one whole intake."""
        staged = await self.stage(*rows, on_changed=on_changed)
        await self.store.commit_intake(self.lease, self.intake)
        return staged

    async def fill(self, count: int) -> None:
        """Take in *count* plain items and begin a wave."""
        await self.take(*(question(position) for position in range(count)))
        await self.store.start_wave(self.lease, frozenset())

    async def plan(self, *seqs: int, **other: Any) -> Shard:
        """Plan a shard of *seqs*."""
        return await self.store.plan_shard(self.lease, plan_of(seqs, **other))

    async def move(self, number: int, to: ShardState, **other: Any) -> Shard:
        """Move a shard from wherever it is."""
        return await self.store.move_shard(self.lease, number, expect=ALL, to=to, **other)

    async def ship(self, *seqs: int) -> Shard:
        """Plan a shard and let it live as batch `b-<number>`."""
        shard = await self.plan(*seqs)
        await self.move(shard.number, ShardState.SENDING, sent_at=NOW)
        return await self.move(shard.number, ShardState.LIVE, batch_id=f"b-{shard.number}")

    async def settle(self, number: int | None, *said: Settlement) -> list[Settled]:
        """Settle and return the verdicts."""
        return list(await self.store.settle(self.lease, number, said))

    async def info(self) -> RunInfo:
        """Return what stands about the run."""
        info = await self.store.read_run(self.run_id)
        assert info is not None, "read_run finds a run that was acquired"
        return info

    async def rows(self, **other: Any) -> list[Row]:
        """Return all rows, read in small pages."""
        rows: list[Row] = []
        while page := await self.store.read_rows(
            self.run_id, rows[-1].position if rows else -1, 3, **other
        ):
            rows.extend(page)
        return rows

    async def row(self, seq: int) -> Row:
        """Return one row."""
        return next(row for row in await self.rows() if row.seq == seq)

    async def states(self) -> str:
        """Return the states in order, one letter each."""
        return "".join(row.state.name[0] for row in await self.rows())

    async def pending(self, headers: str = "") -> list[int]:
        """Return the `seq`s that wait in one group."""
        return [p.seq for p in await self.store.read_pending(self.run_id, headers, -1, 1_000)]

    async def audit(self) -> None:
        """Compare the kept counters with a recount."""
        info, rows = await self.info(), await self.rows()
        states = Counter(row.state for row in rows)
        held = {ItemState.IN_FLIGHT, ItemState.SUCCEEDED}
        reasons = Counter(r.outcome.reason for r in rows if r.state not in held)
        reasons.pop(None, None)
        done = [row.outcome for row in rows if row.state is ItemState.SUCCEEDED]
        assert info.items == len(rows), "items counts the items"
        assert {s: n for s, n in info.states.items() if n} == states, "states counts the states"
        assert dict(info.reasons) == reasons, "reasons counts the reasons"
        assert info.truncated == sum(o.truncated for o in done), "truncated counts its flag"
        assert info.refused == sum(o.refused for o in done), "refused counts its flag"
        for row in rows:
            final = row.state in FINAL
            assert (row.outcome.status == "unresolved") is not final, "status follows the state"


async def desk_on(store: CheckpointStore, run_id: str = "run") -> Desk:
    """Acquire a new run in *store*."""
    lease = await store.acquire(run_id, OWNER, NOW, replacing=None)
    return Desk(store, lease, run_id)
