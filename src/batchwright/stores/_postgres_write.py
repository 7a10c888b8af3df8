"""
PostgreSQL: ownership, waves, shards.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, replace
from datetime import datetime
from typing import Any, Final

from batchwright._json import dump_json
from batchwright.errors import RunLocked
from batchwright.store import Group, ItemState, Lease, Owner, Rest, Shard, ShardPlan, ShardState
from batchwright.stores import _rules
from batchwright.stores._postgres_counts import write_counts
from batchwright.stores._postgres_db import Db, RunRow, blob, fence, lock_run, text_of
from batchwright.stores._postgres_read import lease_of, need_shard
from batchwright.stores._tally import Tally

# -- ownership --------------------------------------------------------------------------------


def acquire(db: Db, run_id: str, owner: Owner, now: datetime, replacing: int | None) -> Lease:
    """See `CheckpointStore.acquire`."""
    run = lock_run(db, run_id) or _create(db, run_id, now)
    held = lease_of(run)
    if held is not None and held.token != replacing:
        raise RunLocked(run_id, _rules.describe(held.owner))
    db.run(
        "UPDATE runs SET token = token + 1, first_token = token + 1, owner = %b, beat_at = %s "
        "WHERE number = %s",
        (dump_json(asdict(owner)), now, run.number),
    )
    return Lease(run_id=run_id, token=run.token + 1, owner=owner, beat_at=now)


def _create(db: Db, run_id: str, now: datetime) -> RunRow:
    # Somebody else may create it at the same moment; whoever comes second waits for the first.
    db.run(
        "INSERT INTO runs (name, created_at) VALUES (%b, %s) ON CONFLICT DO NOTHING",
        (run_id.encode(), now),
    )
    run = lock_run(db, run_id)
    assert run is not None
    return run


def renew(db: Db, lease: Lease, now: datetime) -> Lease:
    """See `CheckpointStore.renew`."""
    run = fence(db, lease)
    db.run("UPDATE runs SET token = token + 1, beat_at = %s WHERE number = %s", (now, run.number))
    renewed = lease_of(run)
    assert renewed is not None
    return replace(renewed, token=run.token + 1, beat_at=now)


def release(db: Db, lease: Lease) -> None:
    """See `CheckpointStore.release`."""
    run = lock_run(db, lease.run_id)
    if run is not None and run.first_token <= lease.token <= run.token:
        db.run("UPDATE runs SET owner = NULL, beat_at = NULL WHERE number = %s", (run.number,))


_PUT_FACT: Final = (
    "INSERT INTO run_facts (run, name, value) VALUES (%s, %b, %b) "
    "ON CONFLICT (run, sha256(name)) DO UPDATE SET value = excluded.value"
)


def put_facts(db: Db, lease: Lease, facts: Mapping[str, Any]) -> None:
    """See `CheckpointStore.put_facts`."""
    run = fence(db, lease)
    for name, value in facts.items():
        db.run(_PUT_FACT, (run.number, name.encode(), dump_json(value)))


def put_wish(db: Db, run_id: str, name: str, value: Any) -> None:
    """See `CheckpointStore.put_wish`."""
    run = lock_run(db, run_id)
    if run is None:
        raise _rules.no_run(run_id)
    db.run(_PUT_FACT, (run.number, f"wish/{name}".encode(), dump_json(value)))


# -- waves ------------------------------------------------------------------------------------


def start_wave(db: Db, lease: Lease, resubmit: frozenset[str]) -> list[Group]:
    """See `CheckpointStore.start_wave`."""
    run = fence(db, lease)
    db.run("UPDATE runs SET wave = wave + 1 WHERE number = %s", (run.number,))
    tally = Tally()
    for reason in sorted(resubmit):
        _take_up(db, run, reason, ItemState.REJECTED, "used = 0,", tally)
    for reason in _rules.TAKEN_UP_BY_WAVE:
        _take_up(db, run, reason, ItemState.UNRESOLVED, "", tally)
    write_counts(db, run.number, tally)
    return _groups(db, run)


def _take_up(db: Db, run: RunRow, reason: str, lowest: ItemState, used: str, tally: Tally) -> None:
    where = "state >= 4 AND reason = %b AND key >= %s AND key < %s AND state >= %s"
    values = (reason.encode(), run.low, run.end, int(lowest))
    for state, spent, count in db.rows(
        f"SELECT state, used, count(*) FROM items WHERE {where} GROUP BY 1, 2",
        values,
    ):
        tally.item(ItemState(state), reason, "", -count)
        tally.item(ItemState.PENDING, None, "", +count)
        tally.put_back(reason, 0 if used else spent, count)
    db.run(
        f"UPDATE items SET {used} state = 0, reason = NULL, shard = NULL WHERE {where}",
        values,
    )


def _groups(db: Db, run: RunRow) -> list[Group]:
    rows = db.rows(
        "SELECT h.text, n.fresh, n.again FROM headers h CROSS JOIN LATERAL "
        "(SELECT count(*) FILTER (WHERE attempts = 0), count(*) FILTER (WHERE attempts > 0) "
        "FROM items WHERE state = 0 AND headers = h.id AND key >= %s AND key < %s) "
        "AS n (fresh, again) WHERE h.run = %s AND n.fresh + n.again > 0",
        (run.low, run.end, run.number),
    )
    groups = [Group(headers=text.decode(), fresh=fresh, again=again) for text, fresh, again in rows]
    return sorted(groups, key=lambda group: group.headers)


# -- shards -----------------------------------------------------------------------------------

#: The waiting items of some spans become a shard's; told are the reasons for which they waited.
_PLAN: Final = (
    "WITH waiting AS MATERIALIZED (SELECT DISTINCT i.key, i.reason "
    "FROM unnest(%b::bigint[], %b::bigint[]) AS span (low, high) "
    "JOIN items i ON i.key BETWEEN span.low AND span.high AND i.state = 0 AND i.key < %s), "
    "moved AS (UPDATE items SET state = 1, reason = NULL, shard = %s FROM waiting "
    "WHERE items.key = waiting.key) "
    "SELECT reason, count(*) FROM waiting GROUP BY reason"
)


def plan_shard(db: Db, lease: Lease, plan: ShardPlan) -> Shard:
    """See `CheckpointStore.plan_shard`."""
    run = fence(db, lease)
    _rules.check_plan(plan)
    number = db.row(
        "SELECT coalesce(max(number), 0) + 1 FROM shards WHERE run = %s", (run.number,)
    )[0]
    lows = [run.low + first for first, _ in plan.spans]
    highs = [run.low + last for _, last in plan.spans]
    waited = db.rows(_PLAN, (lows, highs, run.end, number))
    moved = sum(count for _, count in waited)
    if moved != plan.count:
        raise _rules.not_pending(plan, moved)
    db.run(
        "DELETE FROM answers USING unnest(%b::bigint[], %b::bigint[]) AS span (low, high) "
        "WHERE key BETWEEN span.low AND span.high",
        (lows, highs),
    )
    tally = Tally()
    for reason, count in waited:
        tally.item(ItemState.PENDING, text_of(reason), "", -count)
    tally.item(ItemState.IN_FLIGHT, None, "", moved)
    write_counts(db, run.number, tally)
    _insert_shard(db, run, number, plan)
    return need_shard(db, run, number)


def _insert_shard(db: Db, run: RunRow, number: int, plan: ShardPlan) -> None:
    size = (plan.count, plan.size, blob(plan.headers), blob(plan.org), plan.wave)
    db.run(
        "INSERT INTO shards (run, number, count, size, headers, org, wave, state, planned_at, "
        "facts) VALUES (%s, %s, %s, %s, %b, %b, %s, %s, %s, %b)",
        (
            run.number,
            number,
            *size,
            ShardState.PLANNED.value,
            plan.planned_at,
            dump_json(dict(plan.facts)),
        ),
    )
    lows, highs = [first for first, _ in plan.spans], [last for _, last in plan.spans]
    db.run(
        "INSERT INTO shard_spans VALUES (%s, %s, %b::bigint[], %b::bigint[])",
        (run.number, number, lows, highs),
    )


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
    run = fence(db, lease)
    shard = need_shard(db, run, number)
    _rules.check_facts(facts)
    _rules.check_move(shard, expect, to)
    fields = {name: _column(shard, name, value) for name, value in facts.items()}
    fields["state"] = to.value
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


def _column(shard: Shard, name: str, value: Any) -> Any:
    if name == "facts":
        return dump_json({**shard.facts, **value})
    if name == "counts":
        return None if value is None else dump_json(dict(value))
    return blob(value) if name in _BLOBS else value


#: The items that are still in flight in a shard, wherever its spans reach.
_FLYING: Final = (
    "SELECT i.key FROM shard_spans s "
    "CROSS JOIN LATERAL unnest(s.lows, s.highs) AS span (low, high) "
    "JOIN items i ON i.key BETWEEN %(base)s + span.low AND %(base)s + span.high "
    "AND i.state = 1 AND i.shard = %(number)s WHERE s.run = %(run)s AND s.number = %(number)s"
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
