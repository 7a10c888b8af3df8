"""
SQLite: ownership, waves, shards.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from datetime import datetime
from typing import Any

from batchwright._json import dump_json
from batchwright.errors import RunLocked
from batchwright.store import (
    Group,
    ItemState,
    Lease,
    Owner,
    Rest,
    Shard,
    ShardPlan,
    ShardState,
)
from batchwright.stores import _rules
from batchwright.stores._sqlite_counts import write_counts
from batchwright.stores._sqlite_db import (
    Db,
    RunRow,
    fence,
    load_owner,
    need_run,
    stamp,
)
from batchwright.stores._sqlite_read import need_shard
from batchwright.stores._tally import Tally
from batchwright.types import Spans

# -- ownership --------------------------------------------------------------------------------


def read_lease(db: Db, run_id: str) -> Lease | None:
    """See `CheckpointStore.read_lease`."""
    row = db.conn.execute(
        "SELECT token, owner, beat_at FROM runs WHERE name = ?", (run_id,)
    ).fetchone()
    owner = None if row is None else load_owner(row[1])
    if owner is None:
        return None
    beat = datetime.fromisoformat(row[2])
    return Lease(run_id=run_id, token=row[0], owner=owner, beat_at=beat)


def acquire(db: Db, run_id: str, owner: Owner, now: datetime, replacing: int | None) -> Lease:
    """See `CheckpointStore.acquire`."""
    held = read_lease(db, run_id)
    if held is not None and held.token != replacing:
        raise RunLocked(run_id, _rules.describe(held.owner))
    db.conn.execute(
        "INSERT OR IGNORE INTO runs (name, created_at) VALUES (?, ?)", (run_id, stamp(now))
    )
    db.conn.execute(
        "UPDATE runs SET token = token + 1, first_token = token + 1, owner = ?, beat_at = ? "
        "WHERE name = ?",
        (dump_json(asdict(owner)), stamp(now), run_id),
    )
    lease = read_lease(db, run_id)
    assert lease is not None
    return lease


def renew(db: Db, lease: Lease, now: datetime) -> Lease:
    """See `CheckpointStore.renew`."""
    run = fence(db, lease)
    db.conn.execute(
        "UPDATE runs SET token = token + 1, beat_at = ? WHERE number = ?", (stamp(now), run.number)
    )
    renewed = read_lease(db, lease.run_id)
    assert renewed is not None
    return renewed


def release(db: Db, lease: Lease) -> None:
    """See `CheckpointStore.release`."""
    db.conn.execute(
        "UPDATE runs SET owner = NULL, beat_at = NULL "
        "WHERE name = ? AND ? BETWEEN first_token AND token",
        (lease.run_id, lease.token),
    )


def put_facts(db: Db, lease: Lease, facts: Mapping[str, Any]) -> None:
    """See `CheckpointStore.put_facts`."""
    run = fence(db, lease)
    db.conn.executemany(
        "INSERT OR REPLACE INTO run_facts VALUES (?, ?, ?)",
        [(run.number, name, dump_json(value)) for name, value in facts.items()],
    )


def put_wish(db: Db, run_id: str, name: str, value: Any) -> None:
    """See `CheckpointStore.put_wish`."""
    run = need_run(db, run_id)
    row = (run.number, f"wish/{name}", dump_json(value))
    db.conn.execute("INSERT OR REPLACE INTO run_facts VALUES (?, ?, ?)", row)


# -- waves ------------------------------------------------------------------------------------


def start_wave(db: Db, lease: Lease, resubmit: frozenset[str]) -> list[Group]:
    """See `CheckpointStore.start_wave`."""
    run = fence(db, lease)
    db.conn.execute("UPDATE runs SET wave = wave + 1 WHERE number = ?", (run.number,))
    tally = Tally()
    for reason in sorted(resubmit):
        _take_up(db, run, reason, ItemState.REJECTED, "used = 0,", tally)
    for reason in _rules.TAKEN_UP_BY_WAVE:
        _take_up(db, run, reason, ItemState.UNRESOLVED, "", tally)
    write_counts(db, run.number, tally)
    return _groups(db, run)


def _take_up(db: Db, run: RunRow, reason: str, lowest: ItemState, used: str, tally: Tally) -> None:
    where = "state >= 4 AND reason = ? AND key >= ? AND key < ? AND state >= ?"
    values = (db.find_word(reason), run.low, run.end, lowest)
    for state, spent, count in db.conn.execute(
        f"SELECT state, used, COUNT(*) FROM items WHERE {where} GROUP BY 1, 2",  # noqa: S608
        values,
    ).fetchall():
        tally.item(ItemState(state), reason, "", -count)
        tally.item(ItemState.PENDING, None, "", +count)
        tally.put_back(reason, 0 if used else spent, count)
    db.conn.execute(
        f"UPDATE items SET {used} state = 0, reason = NULL, shard = NULL WHERE {where}",  # noqa: S608
        values,
    )


def _groups(db: Db, run: RunRow) -> list[Group]:
    groups = []
    for number, text in db.conn.execute(
        "SELECT id, text FROM headers WHERE run = ? ORDER BY text", (run.number,)
    ).fetchall():
        count, fresh = db.conn.execute(
            "SELECT COUNT(*), TOTAL(attempts = 0) FROM items INDEXED BY items_pending "
            "WHERE state = 0 AND headers = ? AND key < ?",
            (number, run.end),
        ).fetchone()
        if count:
            groups.append(Group(headers=text, fresh=int(fresh), again=count - int(fresh)))
    return groups


# -- shards -----------------------------------------------------------------------------------


def plan_shard(db: Db, lease: Lease, plan: ShardPlan) -> Shard:
    """See `CheckpointStore.plan_shard`."""
    run = fence(db, lease)
    _rules.check_plan(plan)
    number = db.conn.execute(
        "SELECT COALESCE(MAX(number), 0) + 1 FROM shards WHERE run = ?", (run.number,)
    ).fetchone()[0]
    keys = _keys(run, plan.spans)
    tally = _leave_pending(db, run, keys)
    moved = db.conn.executemany(
        "UPDATE items SET state = 1, reason = NULL, shard = ? "
        "WHERE key BETWEEN ? AND ? AND state = 0 AND key < ?",
        [(number, first, last, run.end) for first, last in keys],
    ).rowcount
    if moved != plan.count:
        raise _rules.not_pending(plan, moved)
    db.conn.executemany("DELETE FROM answers WHERE key BETWEEN ? AND ?", keys)
    tally.item(ItemState.IN_FLIGHT, None, "", plan.count)
    write_counts(db, run.number, tally)
    _insert_shard(db, run, number, plan)
    return need_shard(db, run, number)


def _keys(run: RunRow, spans: Spans) -> list[tuple[int, int]]:
    return [(run.low + first, run.low + last) for first, last in spans]


def _leave_pending(db: Db, run: RunRow, keys: Sequence[tuple[int, int]]) -> Tally:
    tally = Tally()
    for first, last in keys:
        for reason, count in db.conn.execute(
            "SELECT reason, COUNT(*) FROM items WHERE key BETWEEN ? AND ? AND state = 0 "
            "GROUP BY reason",
            (first, min(last, run.end - 1)),
        ).fetchall():
            tally.item(ItemState.PENDING, db.text(reason), "", -count)
    return tally


def _insert_shard(db: Db, run: RunRow, number: int, plan: ShardPlan) -> None:
    size = (plan.count, plan.size, plan.headers, plan.org, plan.wave)
    start = (ShardState.PLANNED.value, stamp(plan.planned_at), dump_json(dict(plan.facts)))
    db.conn.execute(
        "INSERT INTO shards (run, number, count, size, headers, org, wave, state, planned_at, "
        "facts, cancel, polls) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, '', 0)",
        (run.number, number, *size, *start),
    )
    spans = dump_json([list(span) for span in plan.spans])
    db.conn.execute("INSERT INTO shard_spans VALUES (?, ?, ?)", (run.number, number, spans))


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
    db.conn.execute(
        f"UPDATE shards SET {', '.join(f'{name} = ?' for name in fields)} "  # noqa: S608 - checked
        "WHERE run = ? AND number = ?",
        (*fields.values(), run.number, number),
    )
    shard = need_shard(db, run, number)
    if rest is not None:
        if rest.reason is None and rest.state is ItemState.UNRESOLVED:
            rest = replace(rest, reason=shard.reason)
        _rest(db, run, shard, rest)
    return shard


def _column(shard: Shard, name: str, value: Any) -> Any:
    if name == "facts":
        return dump_json({**shard.facts, **value})
    if name == "counts":
        return None if value is None else dump_json(dict(value))
    return stamp(value) if name.endswith("_at") else value


def _rest(db: Db, run: RunRow, shard: Shard, rest: Rest) -> None:
    keys = _keys(run, shard.spans)
    where = "key BETWEEN ? AND ? AND state = 1 AND shard = ?"
    ranges = [(first, last, shard.number) for first, last in keys]
    if rest.error is not None:
        error = _rules.dump_error(rest.error)
        db.conn.executemany(
            "INSERT OR REPLACE INTO answers (key, error) "  # noqa: S608 - our own text
            f"SELECT key, ? FROM items WHERE {where}",
            [(error, *span) for span in ranges],
        )
    leave = "NULL" if rest.state is ItemState.PENDING else "shard"
    values = (rest.state, db.word(rest.reason), rest.charge, rest.charge)
    moved = db.conn.executemany(
        "UPDATE items SET state = ?, reason = ?, attempts = attempts + ?, used = used + ?, "  # noqa: S608
        f"shard = {leave} WHERE {where}",
        [(*values, *span) for span in ranges],
    ).rowcount
    tally = Tally()
    tally.item(ItemState.IN_FLIGHT, None, "", -moved)
    tally.item(rest.state, rest.reason, "", +moved)
    write_counts(db, run.number, tally)
