"""
PostgreSQL: reading. Each function runs in one short transaction on one snapshot.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from batchwright._json import load_json
from batchwright.store import (
    Body,
    Group,
    ItemState,
    Lease,
    Member,
    Pending,
    Row,
    RunInfo,
    Shard,
    ShardState,
)
from batchwright.stores import _rules
from batchwright.stores._postgres_counts import read_counts
from batchwright.stores._postgres_db import (
    Db,
    RunRow,
    blob,
    find_run,
    load_owner,
    need_run,
    text_of,
    within,
)
from batchwright.stores._postgres_schema import MASK
from batchwright.stores._rules import Facts, Holder, Standing

#: Most items that stand together in one row of `places`.
PLACE: Final = 1_000
#: Most bodies in one page, however small they are.
_BODIES: Final = 4_000


def list_runs(db: Db) -> list[str]:
    """See `CheckpointStore.list_runs`."""
    return [row[0].decode() for row in db.rows("SELECT name FROM runs ORDER BY number")]


def lease_of(run: RunRow) -> Lease | None:
    """Return the lease that stands in the row of a run."""
    owner = load_owner(run.owner)
    if owner is None or run.beat_at is None:
        return None
    return Lease(run_id=run.name, token=run.token, owner=owner, beat_at=run.beat_at)


def read_lease(db: Db, run_id: str) -> Lease | None:
    """See `CheckpointStore.read_lease`."""
    run = find_run(db, run_id)
    return None if run is None else lease_of(run)


def read_run(db: Db, run_id: str) -> RunInfo | None:
    """See `CheckpointStore.read_run`."""
    run = find_run(db, run_id)
    if run is None:
        return None
    facts = db.rows("SELECT name, value FROM run_facts WHERE run = %s ORDER BY name", (run.number,))
    return RunInfo(
        run_id=run_id,
        created_at=run.created_at,
        intake_complete=run.intake is not None,
        items=run.items,
        wave=run.wave,
        facts={name.decode(): load_json(value) for name, value in facts},
        **read_counts(db, run.number).standing(),
    )


# -- shards -----------------------------------------------------------------------------------

#: What `shard_of` reads, of one run.
SHARD: Final = (
    "SELECT number, count, size, headers, org, wave, state, reason, batch_id, cancel, planned_at, "
    "sent_at, created_at, expires_at, ended_at, done_at, polls, counts, facts, lows, highs "
    "FROM shards JOIN shard_spans USING (run, number) WHERE run = %s"
)


def read_shards(db: Db, run_id: str) -> list[Shard]:
    """See `CheckpointStore.read_shards`."""
    run = find_run(db, run_id)
    if run is None:
        return []
    return [shard_of(row) for row in db.rows(f"{SHARD} ORDER BY number", (run.number,))]


def need_shard(db: Db, run: RunRow, number: int) -> Shard:
    """Return a shard that must exist."""
    row = db.row(f"{SHARD} AND number = %s", (run.number, number))
    if row is None:
        raise _rules.no_shard(run.name, number)
    return shard_of(row)


def shard_of(row: Sequence[Any]) -> Shard:
    """Return the shard that a row of `SHARD` tells."""
    return Shard(
        number=row[0],
        count=row[1],
        size=row[2],
        headers=row[3].decode(),
        org=row[4].decode(),
        wave=row[5],
        state=ShardState(row[6]),
        reason=text_of(row[7]),
        batch_id=text_of(row[8]),
        cancel=row[9],
        planned_at=row[10],
        sent_at=row[11],
        created_at=row[12],
        expires_at=row[13],
        ended_at=row[14],
        done_at=row[15],
        polls=row[16],
        counts=None if row[17] is None else load_json(row[17]),
        facts=load_json(row[18]),
        spans=tuple(zip(row[19], row[20], strict=True)),
    )


def _need_shard_number(db: Db, run: RunRow, number: int) -> None:
    known = db.row("SELECT 1 FROM shards WHERE run = %s AND number = %s", (run.number, number))
    if known is None:
        raise _rules.no_shard(run.name, number)


# -- items ------------------------------------------------------------------------------------

# Ranges are compared as pairs where only the index on both columns is to be used: the planner
# cannot know how few of a run's items wait.


def read_pending(db: Db, run_id: str, headers: str, after: int, limit: int) -> list[Pending]:
    """See `CheckpointStore.read_pending`."""
    run = need_run(db, run_id)
    rows = db.rows(
        "WITH wanted AS (SELECT id FROM headers WHERE run = %s AND sha256(text) = sha256(%b)) "
        "SELECT key, size FROM items WHERE state = 0 "
        "AND (headers, key) > ((SELECT id FROM wanted), %s) "
        "AND (headers, key) < ((SELECT id FROM wanted), %s) ORDER BY headers, key LIMIT %s",
        (run.number, blob(headers), run.low + max(after, -1), run.end, limit),
    )
    return [Pending(seq=key & MASK, size=size) for key, size in rows]


def groups_of(db: Db, run: RunRow) -> list[Group]:
    """Return what waits, by headers."""
    rows = db.rows(
        "SELECT h.text, n.fresh, n.again FROM headers h CROSS JOIN LATERAL "
        "(SELECT count(*) FILTER (WHERE attempts = 0), count(*) FILTER (WHERE attempts > 0) "
        "FROM items WHERE state = 0 "
        "AND (headers, key) >= (h.id, %s) AND (headers, key) < (h.id, %s)) "
        "AS n (fresh, again) WHERE h.run = %s AND n.fresh + n.again > 0",
        (run.low, run.end, run.number),
    )
    groups = [Group(headers=text.decode(), fresh=fresh, again=again) for text, fresh, again in rows]
    return sorted(groups, key=lambda group: group.headers)


#: The spans of a shard.
SPANS: Final = (
    "FROM shard_spans s CROSS JOIN LATERAL unnest(s.lows, s.highs) AS span (low, high) "
    "{items} WHERE s.run = %(run)s AND s.number = %(number)s"
)
#: What `member_of` reads, of items *i* and questions *q*.
MEMBER: Final = "SELECT i.key, q.id, q.custom_id, i.state, i.attempts, i.used, i.shard, q.metadata"
_ASKED: Final = within("%(base)s + span.low", "%(base)s + span.high")
_MEMBERS: Final = (
    f"WITH i AS MATERIALIZED (SELECT i.* {SPANS.format(items=_ASKED)}) "
    f"{MEMBER} FROM i JOIN questions q ON q.key = i.key ORDER BY i.key"
)
_NEXT: Final = within(
    "%(base)s + greatest(span.low, %(after)s + 1)",
    "%(base)s + span.high",
    "ORDER BY key LIMIT %(most)s",
)
_BODIES_OF: Final = (
    "WITH sizes AS MATERIALIZED (SELECT i.key, i.size - i.extra AS size "
    f"{SPANS.format(items=_NEXT)} AND span.high > %(after)s ORDER BY i.key LIMIT %(most)s), "
    "page AS MATERIALIZED (SELECT key, size, sum(size) OVER (ORDER BY key) AS upto FROM sizes) "
    "SELECT page.key, q.custom_id, b.body FROM page "
    "JOIN questions q ON q.key = page.key JOIN bodies b ON b.key = page.key "
    "WHERE page.upto <= %(bytes)s OR page.upto = page.size ORDER BY page.key"
)


def read_members(db: Db, run_id: str, number: int) -> list[Member]:
    """See `CheckpointStore.read_members`."""
    run = need_run(db, run_id)
    _need_shard_number(db, run, number)
    values = {"base": run.low, "run": run.number, "number": number}
    return [member_of(row) for row in db.rows(_MEMBERS, values)]


def member_of(row: Sequence[Any]) -> Member:
    """Return the member that a row of `MEMBER` tells."""
    key, item_id, custom_id, state, attempts, used, shard, metadata = row
    return Member(
        seq=key & MASK,
        id=item_id.decode(),
        custom_id=custom_id.decode(),
        state=ItemState(state),
        attempts=attempts,
        used=used,
        shard=shard,
        metadata=_rules.load_metadata(metadata),
    )


def read_bodies(db: Db, run_id: str, number: int, after: int, max_bytes: int) -> list[Body]:
    """See `CheckpointStore.read_bodies`."""
    run = need_run(db, run_id)
    _need_shard_number(db, run, number)
    values = {"base": run.low, "run": run.number, "number": number, "after": max(after, -1)}
    rows = db.rows(_BODIES_OF, {**values, "most": _BODIES, "bytes": max_bytes})
    return [
        Body(seq=key & MASK, custom_id=custom_id.decode(), body=body)
        for key, custom_id, body in rows
    ]


# -- rows -------------------------------------------------------------------------------------

# First the rows are picked, by what is narrow; only those picked are joined with what is wide.
_PICKED: Final = (
    "i.key, i.state, i.reason, i.attempts, h.reason AS held, h.org AS holder, h.batch_id "
    "{source} LEFT JOIN LATERAL (SELECT reason, org, batch_id FROM shards "
    "WHERE run = %(run)s AND number = i.shard OFFSET 0) h ON true WHERE {range} {filter}"
)
_BY_SEQ: Final = "SELECT i.key - %(base)s AS position, " + _PICKED.format(
    source="FROM items i",
    range="i.key > %(base)s + %(after)s AND i.key < %(end)s",
    filter="{filter} ORDER BY i.key LIMIT %(limit)s",
)
_PLACED: Final = within("p.key + greatest(%(after)s + 1 - p.position, 0)", "p.key + p.count - 1")
_BY_PLACE: Final = "SELECT p.position + (i.key - p.key) AS position, " + _PICKED.format(
    source=f"FROM places p {_PLACED}",
    range="p.intake = %(intake)s AND p.taken AND p.position > %(after)s - %(place)s "
    "AND p.position + (i.key - p.key) > %(after)s",
    filter="{filter} ORDER BY p.position, i.key LIMIT %(limit)s",
)
_PAGE: Final = (
    "WITH picked AS MATERIALIZED ({picked}), told AS (SELECT p.*, q.id, q.custom_id, q.metadata, "
    "a.via, a.org, a.batch, a.error, {raw} AS raw, "
    "sum(coalesce(octet_length({raw}), 0)) OVER (ORDER BY p.position ROWS UNBOUNDED PRECEDING) "
    "- coalesce(octet_length({raw}), 0) AS before "
    "FROM picked p JOIN questions q ON q.key = p.key LEFT JOIN answers a ON a.key = p.key) "
    "SELECT position, key, state, reason, attempts, held, holder, batch_id, id, custom_id, "
    "metadata, via, org, batch, error, raw FROM told WHERE before < %(bytes)s ORDER BY position"
)
_OF_REASON: Final = (
    "AND i.state IN (0, 1, 5) "
    "AND (i.reason = %(reason)s OR (i.reason IS NULL AND h.reason = %(reason)s)) "
)
_NOT_SUCCEEDED: Final = "AND i.state <> 2 "


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
    if wanted.intake is not None:
        _check_intake(db, run, wanted.intake)
    filters = ("" if wanted.reason is None else _OF_REASON) + (
        "" if wanted.succeeded else _NOT_SUCCEEDED
    )
    picked = (_BY_SEQ if wanted.intake is None else _BY_PLACE).format(filter=filters)
    statement = _PAGE.format(picked=picked, raw="a.raw" if wanted.raw else "NULL::bytea")
    span = {"base": run.low, "end": run.end, "intake": wanted.intake, "place": PLACE}
    values = {**span, "run": run.number, "reason": blob(wanted.reason)}
    page = {"after": max(after, -1), "limit": limit, "bytes": max(max_bytes, 1)}
    return [_row(found) for found in db.rows(statement, {**values, **page})]


def _check_intake(db: Db, run: RunRow, intake: int) -> None:
    known = db.row(
        "SELECT 1 FROM intakes WHERE id = %s AND run = %s AND state = 1", (intake, run.number)
    )
    if known is None:
        raise _rules.no_intake(run.name, intake)


def _row(found: tuple[Any, ...]) -> Row:
    position, key, state, reason, attempts, held, holder, batch_id, *rest = found
    item_id, custom_id, metadata, via, org, batch, error, raw = rest
    facts = Facts(via, text_of(org), text_of(batch), _rules.load_error(error), raw)
    standing = Standing(
        state=ItemState(state), reason=text_of(reason), attempts=attempts, facts=facts
    )
    shard = None if holder is None else Holder(text_of(held), holder.decode(), text_of(batch_id))
    return Row(
        seq=key & MASK,
        position=position,
        state=standing.state,
        outcome=_rules.tell(item_id.decode(), custom_id.decode(), standing, metadata, shard),
    )
