"""
SQLite: reading. Each function is one short transaction; no cursor outlives it.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Any, Final, NamedTuple

from batchwright._json import load_json
from batchwright.store import (
    Body,
    ItemState,
    Member,
    Pending,
    Row,
    RunInfo,
    Shard,
    ShardState,
)
from batchwright.stores import _rules
from batchwright.stores._rules import Facts, Holder, Standing
from batchwright.stores._sqlite_counts import read_counts
from batchwright.stores._sqlite_db import Db, RunRow, find_run, moment, need_run
from batchwright.stores._sqlite_schema import MASK, SHIFT
from batchwright.types import Spans

#: States by their numbers; to call the class for each row would take half the time of a read.
STATES: Final = tuple(ItemState)

_SHARD: Final = (
    "SELECT number, count, size, headers, org, wave, state, reason, batch_id, cancel, planned_at, "
    "sent_at, created_at, expires_at, ended_at, done_at, polls, counts, facts, spans "
    "FROM shards JOIN shard_spans USING (run, number) WHERE run = ?"
)


def list_runs(db: Db) -> list[str]:
    """See `CheckpointStore.list_runs`."""
    return [row[0] for row in db.conn.execute("SELECT name FROM runs ORDER BY number")]


def read_run(db: Db, run_id: str) -> RunInfo | None:
    """See `CheckpointStore.read_run`."""
    run = find_run(db, run_id)
    if run is None:
        return None
    created = db.conn.execute(
        "SELECT created_at FROM runs WHERE number = ?", (run.number,)
    ).fetchone()
    facts = db.conn.execute(
        "SELECT name, value FROM run_facts WHERE run = ? ORDER BY name", (run.number,)
    )
    return RunInfo(
        run_id=run_id,
        created_at=datetime.fromisoformat(created[0]),
        intake_complete=run.intake is not None,
        items=run.items,
        wave=run.wave,
        facts={name: load_json(value) for name, value in facts},
        **read_counts(db, run.number).standing(),
    )


# -- shards -----------------------------------------------------------------------------------


def read_shards(db: Db, run_id: str) -> list[Shard]:
    """See `CheckpointStore.read_shards`."""
    run = find_run(db, run_id)
    if run is None:
        return []
    rows = db.conn.execute(f"{_SHARD} ORDER BY number", (run.number,))
    return [_shard(row) for row in rows]


def need_shard(db: Db, run: RunRow, number: int) -> Shard:
    """Return a shard that must exist."""
    row = db.conn.execute(f"{_SHARD} AND number = ?", (run.number, number)).fetchone()
    if row is None:
        raise _rules.no_shard(run.name, number)
    return _shard(row)


def _shard(row: tuple[Any, ...]) -> Shard:
    return Shard(
        number=row[0],
        count=row[1],
        size=row[2],
        headers=row[3],
        org=row[4],
        wave=row[5],
        state=ShardState(row[6]),
        reason=row[7],
        batch_id=row[8],
        cancel=row[9],
        planned_at=datetime.fromisoformat(row[10]),
        sent_at=moment(row[11]),
        created_at=moment(row[12]),
        expires_at=moment(row[13]),
        ended_at=moment(row[14]),
        done_at=moment(row[15]),
        polls=row[16],
        counts=None if row[17] is None else load_json(row[17]),
        facts=load_json(row[18]),
        spans=tuple((first, last) for first, last in load_json(row[19])),
    )


def _spans(db: Db, run: RunRow, number: int) -> Spans:
    row = db.conn.execute(
        "SELECT spans FROM shard_spans WHERE run = ? AND number = ?", (run.number, number)
    ).fetchone()
    if row is None:
        raise _rules.no_shard(run.name, number)
    spans: Spans = load_json(row[0])
    return spans


def _over(db: Db, run: RunRow, number: int, after: int, select: str) -> Iterator[tuple[Any, ...]]:
    """Yield the rows of *select*, a statement over a range of keys, for each span of a shard."""
    for first, last in _spans(db, run, number):
        if last > after:
            low = run.low + max(first, after + 1)
            yield from db.conn.execute(select, (low, run.low + last))


# -- items ------------------------------------------------------------------------------------


def read_pending(db: Db, run_id: str, headers: str, after: int, limit: int) -> list[Pending]:
    """See `CheckpointStore.read_pending`."""
    run = need_run(db, run_id)
    rows = db.conn.execute(
        "SELECT key, size FROM items INDEXED BY items_pending WHERE state = 0 AND headers = "
        "(SELECT id FROM headers WHERE run = ? AND text = ?) AND key > ? AND key < ? "
        "ORDER BY key LIMIT ?",
        (run.number, headers, run.low + max(after, -1), run.end, limit),
    )
    return [Pending(seq=key & MASK, size=size) for key, size in rows]


MEMBER: Final = (
    "SELECT key, id, custom_id, state, attempts, used, shard, metadata FROM items "
    "JOIN questions USING (key)"
)


def read_members(db: Db, run_id: str, number: int) -> list[Member]:
    """See `CheckpointStore.read_members`."""
    rows = _over(
        db,
        need_run(db, run_id),
        number,
        -1,
        f"{MEMBER} WHERE key BETWEEN ? AND ? ORDER BY key",
    )
    return [member_of(row) for row in rows]


def member_of(row: tuple[Any, ...]) -> Member:
    """Return what a row of the `MEMBER` statement holds."""
    key, item_id, custom_id, state, attempts, used, shard, metadata = row
    return Member(
        seq=key & MASK,
        id=item_id,
        custom_id=custom_id,
        state=STATES[state],
        attempts=attempts,
        used=used,
        shard=shard,
        metadata=_rules.load_metadata(metadata),
    )


def read_bodies(db: Db, run_id: str, number: int, after: int, max_bytes: int) -> list[Body]:
    """See `CheckpointStore.read_bodies`."""
    rows = _over(
        db,
        need_run(db, run_id),
        number,
        after,
        "SELECT key, custom_id, body FROM bodies JOIN questions USING (key) "
        "WHERE key BETWEEN ? AND ? ORDER BY key",
    )
    page: list[Body] = []
    with contextlib.closing(rows):  # type: ignore[type-var]
        for key, custom_id, body in rows:
            max_bytes -= len(body)
            if page and max_bytes < 0:
                break
            page.append(Body(seq=key & MASK, custom_id=custom_id, body=body))
    return page


# -- rows -------------------------------------------------------------------------------------

_FIELDS: Final = (
    "i.key, i.state, i.reason, i.attempts, i.shard, q.id, q.custom_id, q.metadata, "
    "a.via, a.org, a.batch, a.error, {raw}"
)
_JOINED: Final = "CROSS JOIN questions q ON q.key = i.key LEFT JOIN answers a ON a.key = i.key"
_BY_SEQ: Final = (
    f"SELECT i.key, {_FIELDS} FROM items i {_JOINED} WHERE i.key > :low AND i.key < :high "  # noqa: S608
    "{filter} ORDER BY i.key LIMIT :limit"
)
_BY_PLACE: Final = (
    f"SELECT p.place, {_FIELDS} FROM places p CROSS JOIN items i ON i.key = p.key {_JOINED} "  # noqa: S608
    "WHERE p.place > :low AND p.place < :high {filter} ORDER BY p.place LIMIT :limit"
)
_OF_REASON: Final = (
    "AND i.state IN (0, 1, 5) AND (i.reason = (SELECT id FROM words WHERE text = :reason) "
    "OR (i.reason IS NULL AND i.shard IN "
    "(SELECT number FROM shards WHERE run = :run AND reason = :reason)))"
)


_NOT_SUCCEEDED: Final = "AND i.state <> 2"


class Wanted(NamedTuple):
    """Which rows of a run are wanted, and whether with their bytes."""

    intake: int | None
    reason: str | None
    succeeded: bool
    raw: bool


def read_rows(
    db: Db, run_id: str, after: int, limit: int, wanted: Wanted, max_bytes: int
) -> Sequence[Row]:
    """See `CheckpointStore.read_rows`."""
    run = need_run(db, run_id)
    after = max(after, -1)
    if wanted.intake is None:
        select, low, high = _BY_SEQ, run.low + after, run.end
    else:
        _check_intake(db, run, wanted.intake)
        base = wanted.intake << SHIFT
        select, low, high = _BY_PLACE, base + after, base + MASK + 1
    filters = (
        "" if wanted.reason is None else _OF_REASON,
        "" if wanted.succeeded else _NOT_SUCCEEDED,
    )
    text = select.format(filter=" ".join(filters), raw="a.raw" if wanted.raw else "NULL")
    values = {"low": low, "high": high, "limit": limit, "run": run.number, "reason": wanted.reason}
    cursor = db.conn.execute(text, values)
    page: list[Row] = []
    holders: dict[int, Holder] = {}
    with contextlib.closing(cursor):
        for found in cursor:
            if page and max_bytes <= 0:
                break
            page.append(_row(db, run, holders, found))
            max_bytes -= len(page[-1].outcome.raw or b"")
    return page


def _check_intake(db: Db, run: RunRow, intake: int) -> None:
    known = db.conn.execute(
        "SELECT 1 FROM intakes WHERE id = ? AND run = ? AND state = 1", (intake, run.number)
    ).fetchone()
    if known is None:
        raise _rules.no_intake(run.name, intake)


def _row(db: Db, run: RunRow, holders: dict[int, Holder], found: tuple[Any, ...]) -> Row:
    place, key, state, reason, attempts, shard, item_id, custom_id, metadata, *facts = found
    via, org, batch, error, raw = facts
    standing = Standing(
        state=STATES[state],
        reason=db.text(reason),
        attempts=attempts,
        shard=shard,
        facts=Facts(
            db.text(via),  # type: ignore[arg-type]
            db.text(org),
            db.text(batch),
            _rules.load_error(error),
            raw,
        ),
    )
    holder = None if shard is None else _holder(db, run, holders, shard)
    return Row(
        seq=key & MASK,
        position=place & MASK,
        state=standing.state,
        outcome=_rules.tell(item_id, custom_id, standing, metadata, holder),
    )


def _holder(db: Db, run: RunRow, holders: dict[int, Holder], number: int) -> Holder:
    if number not in holders:
        row = db.conn.execute(
            "SELECT reason, org, batch_id FROM shards WHERE run = ? AND number = ?",
            (run.number, number),
        ).fetchone()
        holders[number] = Holder(*row)
    return holders[number]
