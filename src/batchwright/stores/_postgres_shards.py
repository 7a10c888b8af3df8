"""
PostgreSQL: shards are cut, move, and let their items go.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from batchwright._json import dump_json
from batchwright.shared import PATH
from batchwright.store import ItemState, Lease, Rest, Shard, ShardPlan, ShardState
from batchwright.stores import _rules
from batchwright.stores._postgres_counts import write_counts
from batchwright.stores._postgres_db import Db, RunRow, blob, text_of, within
from batchwright.stores._postgres_fence import fence, fence_shard
from batchwright.stores._postgres_read import SPANS, need_shard
from batchwright.stores._tally import Tally

_GIVEN: Final = "FROM unnest(%b::bigint[], %b::bigint[]) AS span (low, high)"
#: The waiting items of some spans become a shard's, and what they were told of earlier tries goes;
#: returned are the reasons for which they waited.
_PLAN: Final = (
    f"WITH waiting AS MATERIALIZED (SELECT DISTINCT i.key, i.reason {_GIVEN} "
    f"{within('span.low', 'span.high')} WHERE i.state = 0 AND i.key < %s), "
    "moved AS (UPDATE items SET state = 1, reason = NULL, shard = %s FROM waiting "
    "WHERE items.key = waiting.key), "
    "gone AS (DELETE FROM answers USING waiting WHERE answers.key = waiting.key) "
    "SELECT reason, count(*) FROM waiting GROUP BY reason"
)


def plan_shard(db: Db, lease: Lease, plan: ShardPlan) -> Shard:
    """See `CheckpointStore.plan_shard`."""
    run = fence(db, lease)
    _rules.check_plan(plan)
    number = _next_number(db, run)
    lows, highs = _keys(run, plan)
    waited = db.rows(_PLAN, (lows, highs, run.end, number))
    moved = sum(count for _, count in waited)
    if moved != plan.count:
        raise _rules.not_pending(plan, moved)
    tally = Tally()
    for reason, count in waited:
        tally.item(ItemState.PENDING, text_of(reason), "", -count)
    tally.item(ItemState.IN_FLIGHT, None, "", moved)
    write_counts(db, run.number, tally)
    _insert_shard(db, run, number, plan)
    return need_shard(db, run, number)


def _next_number(db: Db, run: RunRow) -> int:
    row = db.row("SELECT coalesce(max(number), 0) + 1 FROM shards WHERE run = %s", (run.number,))
    return int(row[0])


def _keys(run: RunRow, plan: ShardPlan) -> tuple[list[int], list[int]]:
    first = [run.low + first for first, _ in plan.spans]
    return first, [run.low + last for _, last in plan.spans]


def _facts(facts: Mapping[str, Any]) -> tuple[bytes, bool]:
    """Return facts of a shard as they are stored, and what of them claims look for."""
    return dump_json(dict(facts)), facts.get(PATH) == "sync"


def _insert_shard(db: Db, run: RunRow, number: int, plan: ShardPlan, worker: int = 0) -> None:
    size = (plan.count, plan.size, blob(plan.headers), blob(plan.org), plan.wave)
    start = (ShardState.PLANNED.value, plan.planned_at, *_facts(plan.facts))
    db.run(
        "INSERT INTO shards (run, number, count, size, headers, org, wave, state, planned_at, "
        "facts, direct, claimed_by) VALUES (%s, %s, %s, %s, %b, %b, %s, %s, %s, %b, %s, %s)",
        (run.number, number, *size, *start, worker or None),
    )
    lows, highs = [first for first, _ in plan.spans], [last for _, last in plan.spans]
    db.run(
        "INSERT INTO shard_spans VALUES (%s, %s, %b::bigint[], %b::bigint[])",
        (run.number, number, lows, highs),
    )


#: Items that are in flight in one shard go over to another.
_PART: Final = (
    f"WITH inside AS MATERIALIZED (SELECT DISTINCT i.key {_GIVEN} "
    f"{within('span.low', 'span.high')} WHERE i.state = 1 AND i.shard = %s), "
    "moved AS (UPDATE items SET shard = %s FROM inside WHERE items.key = inside.key) "
    "SELECT count(*) FROM inside"
)


def plan_part(db: Db, lease: Lease, parent: int, plan: ShardPlan) -> Shard:
    """See `SharedStore.plan_part`."""
    run = fence_shard(db, lease, parent)
    _rules.check_plan(plan)
    number = _next_number(db, run)
    inside = db.row(_PART, (*_keys(run, plan), parent, number))[0]
    if inside != plan.count:
        raise _rules.not_inside(plan, parent, inside)
    _insert_shard(db, run, number, plan, lease.worker)
    return need_shard(db, run, number)


def move_shard(
    db: Db,
    lease: Lease,
    number: int,
    expect: frozenset[ShardState],
    to: ShardState,
    rest: Rest | None,
    facts: Mapping[str, Any],
) -> Shard:
    """See `CheckpointStore.move_shard`."""
    run = fence_shard(db, lease, number)
    shard = need_shard(db, run, number)
    _rules.check_facts(facts)
    _rules.check_move(shard, expect, to)
    fields = {name: _column(name, value) for name, value in facts.items() if name != "facts"}
    fields["state"] = to.value
    if "facts" in facts:
        fields["facts"], fields["direct"] = _facts({**shard.facts, **facts["facts"]})
    db.run(
        f"UPDATE shards SET {', '.join(f'{name} = %s' for name in fields)} "
        "WHERE run = %s AND number = %s",
        (*fields.values(), run.number, number),
    )
    shard = need_shard(db, run, number)
    if rest is not None:
        if rest.reason is None and rest.state is ItemState.UNRESOLVED:
            rest = replace(rest, reason=shard.reason)
        _rest(db, run, shard, rest)
    return shard


_BLOBS: Final = frozenset({"reason", "batch_id", "org"})


def _column(name: str, value: Any) -> Any:
    if name == "counts":
        return None if value is None else dump_json(dict(value))
    return blob(value) if name in _BLOBS else value


#: The items that are still in flight in a shard, wherever its spans reach.
_FLYING: Final = (
    f"SELECT i.key {SPANS.format(items=within('%(base)s + span.low', '%(base)s + span.high'))} "
    "AND i.state = 1 AND i.shard = %(number)s"
)


def _rest(db: Db, run: RunRow, shard: Shard, rest: Rest) -> None:
    values = {"base": run.low, "run": run.number, "number": shard.number}
    if rest.error is not None:
        db.run(
            f"INSERT INTO answers (key, error) SELECT key, %(error)b FROM ({_FLYING}) flying (key) "
            "ON CONFLICT (key) DO UPDATE SET via = NULL, org = NULL, batch = NULL, "
            "error = excluded.error, raw = NULL",
            {**values, "error": _rules.dump_error(rest.error)},
        )
    leave = "NULL" if rest.state is ItemState.PENDING else "shard"
    moved = db.row(
        f"WITH flying AS MATERIALIZED ({_FLYING}), "
        "moved AS (UPDATE items SET state = %(state)s, reason = %(reason)b, "
        "attempts = attempts + %(charge)s, used = used + %(charge)s, "
        f"shard = {leave} FROM flying WHERE items.key = flying.key) SELECT count(*) FROM flying",
        {
            **values,
            "state": int(rest.state),
            "reason": blob(rest.reason),
            "charge": rest.charge,
        },
    )[0]
    tally = Tally()
    tally.item(ItemState.IN_FLIGHT, None, "", -moved)
    tally.item(rest.state, rest.reason, "", +moved)
    write_counts(db, run.number, tally)
