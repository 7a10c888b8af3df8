"""
PostgreSQL: items on their way in.

New rows are copied where they belong, behind the last committed item: nobody reads that far. Known
rows only get a place in the new intake, and places that follow one another share a row; changed
ones wait in a table of their own. So a commit costs next to nothing, however many items there are.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

import psycopg

from batchwright._wire import entry_size
from batchwright.store import Clash, ItemState, Lease, NewItem, OnChanged, RunInfo, Staged
from batchwright.stores import _rules
from batchwright.stores._postgres_counts import fold_counts, forget_staged_counts, write_counts
from batchwright.stores._postgres_db import Db, RunRow, blob, column, text_of
from batchwright.stores._postgres_fence import fence
from batchwright.stores._postgres_read import PLACE, read_run
from batchwright.stores._postgres_schema import MASK
from batchwright.stores._tally import Tally

#: Rows that one transaction forgets, so that others get their turn in between.
_FORGET: Final = 10_000

_COMMITTED, _OLD = 1, 2


class _Known(NamedTuple):
    key: int
    digest: bytes
    seen: int | None
    """Position at which it was seen in this intake."""


@dataclass(slots=True)
class _Chunk:
    """What becomes of one chunk: rows for each table."""

    run: RunRow
    intake: int
    headers: Mapping[str, int]
    known: dict[bytes, _Known]
    items: list[tuple[Any, ...]] = field(default_factory=list)
    questions: list[tuple[Any, ...]] = field(default_factory=list)
    bodies: list[tuple[Any, ...]] = field(default_factory=list)
    errors: list[tuple[Any, ...]] = field(default_factory=list)
    changes: list[tuple[Any, ...]] = field(default_factory=list)
    places: list[list[Any]] = field(default_factory=list)
    clashes: list[Clash] = field(default_factory=list)
    tally: Tally = field(default_factory=Tally)
    taken: int = 0

    def place(self, position: int, key: int, *, taken: bool) -> None:
        """Note that the item *key* stands at *position* in the intake."""
        self.taken += taken
        if self.places and taken:
            place, first, count, whole = last = self.places[-1]
            if whole and count < PLACE and (place + count, first + count) == (position, key):
                last[2] = count + 1
                return
        self.places.append([position, key, 1, taken])


# -- begin ------------------------------------------------------------------------------------


def forget_some(db: Db, lease: Lease) -> bool:
    """Forget a part of what no committed intake needs; tell whether there may be more."""
    run = fence(db, lease)
    if run.staged:
        _forget_rows(db, run)
        return True
    forget_staged_counts(db, run.number)
    old = db.row(
        "SELECT id FROM intakes WHERE run = %s AND state <> %s LIMIT 1", (run.number, _COMMITTED)
    )
    if old is not None:
        _forget_places(db, old[0])
        return True
    return _forget_changes(db, run)


def _forget_rows(db: Db, run: RunRow) -> None:
    kept = max(run.staged - _FORGET, 0)
    for table in ("items", "questions", "bodies", "answers"):
        db.run(
            f"DELETE FROM {table} WHERE key BETWEEN %s AND %s",
            (run.end + kept, run.low | MASK),
        )
    db.run("UPDATE runs SET staged = %s WHERE number = %s", (kept, run.number))


def _forget_places(db: Db, intake: int) -> None:
    gone = db.row(
        "WITH gone AS (DELETE FROM places WHERE intake = %s AND position <= coalesce("
        "(SELECT position FROM places WHERE intake = %s ORDER BY position OFFSET %s LIMIT 1), %s) "
        "RETURNING 1) SELECT count(*) FROM gone",
        (intake, intake, _FORGET - 1, MASK),
    )[0]
    if gone < _FORGET:
        db.run("DELETE FROM intakes WHERE id = %s", (intake,))


def _forget_changes(db: Db, run: RunRow) -> bool:
    gone = db.row(
        "WITH gone AS (DELETE FROM changes WHERE key IN "
        "(SELECT key FROM changes WHERE key BETWEEN %s AND %s LIMIT %s) RETURNING 1) "
        "SELECT count(*) FROM gone",
        (run.low, run.low | MASK, _FORGET),
    )[0]
    return bool(gone == _FORGET)


def begin_intake(db: Db, lease: Lease) -> int:
    """See `CheckpointStore.begin_intake`; what was left behind is forgotten already."""
    run = fence(db, lease)
    number = db.row("INSERT INTO intakes (run) VALUES (%s) RETURNING id", (run.number,))[0]
    db.run("UPDATE runs SET opened = %s WHERE number = %s", (number, run.number))
    return int(number)


# -- stage ------------------------------------------------------------------------------------


def stage(
    db: Db, lease: Lease, intake: int, rows: Sequence[NewItem], on_changed: OnChanged
) -> Staged:
    """See `CheckpointStore.stage`."""
    run = fence(db, lease)
    if run.opened != intake:
        raise _rules.not_open(run.name, intake)
    hashes = [_hash(run, row.id) for row in rows]
    # Both are asked before the first answer is read.
    headers = _ask_headers(db, run, rows)
    known = db.run(_LOOK_UP, (hashes, intake))
    chunk = _Chunk(
        run,
        intake,
        headers={text.decode(): number for text, number in headers.fetchall()},
        known={row[0]: _Known(*row[1:]) for row in known.fetchall()},
    )
    for row, hashed in zip(rows, hashes, strict=True):
        _take(chunk, hashed, row, on_changed)
    _write(db, chunk)
    write_counts(db, run.number, chunk.tally, staged=True)
    new = len(chunk.items)
    db.run("UPDATE runs SET staged = staged + %s WHERE number = %s", (new, run.number))
    return Staged(new=new, known=chunk.taken - new, clashes=tuple(chunk.clashes))


def _hash(run: RunRow, item_id: str) -> bytes:
    salt = run.number.to_bytes(16, "big")
    return hashlib.blake2b(item_id.encode(), digest_size=16, salt=salt).digest()


# No item stands twice in an intake, so the last place that begins at or before it is the only one
# that can hold it.
_LOOK_UP: Final = (
    "SELECT q.hash, q.key, q.digest, p.position + (q.key - p.key) "
    "FROM unnest(%b::bytea[]) AS asked (hash) JOIN questions q ON q.hash = asked.hash "
    "LEFT JOIN LATERAL (SELECT position, key, count FROM places "
    "WHERE intake = %s AND key <= q.key ORDER BY key DESC LIMIT 1) p ON q.key < p.key + p.count"
)


def _ask_headers(db: Db, run: RunRow, rows: Sequence[NewItem]) -> psycopg.Cursor[Any]:
    """Ask for the numbers of the header groups of *rows*; those that are new are given one."""
    return db.run(
        "WITH asked AS (SELECT text FROM unnest(%b::bytea[]) AS asked (text)), "
        "made AS (INSERT INTO headers (run, text) SELECT %s, text FROM asked WHERE NOT EXISTS "
        "(SELECT 1 FROM headers h WHERE h.run = %s AND sha256(h.text) = sha256(asked.text)) "
        "RETURNING text, id) "
        "SELECT text, id FROM made UNION ALL SELECT h.text, h.id FROM asked "
        "JOIN headers h ON h.run = %s AND sha256(h.text) = sha256(asked.text)",
        ([text.encode() for text in {row.headers for row in rows}], *[run.number] * 3),
    )


def _take(chunk: _Chunk, hashed: bytes, row: NewItem, on_changed: OnChanged) -> None:
    found = chunk.known.get(hashed)
    if found is None:
        key = chunk.run.end + chunk.run.staged + len(chunk.items)
        _add_new(chunk, key, hashed, row)
    elif found.seen is not None:
        _clash(chunk, "duplicate", row, found.seen)
        return
    else:
        key = found.key
        if on_changed == "error" and _rules.is_changed(found.digest, row):
            chunk.known[hashed] = found._replace(seen=row.position)
            chunk.place(row.position, key, taken=False)
            _clash(chunk, "changed", row, key & MASK)
            return
        if _rules.is_replaced(found.digest, row, on_changed):
            _add_change(chunk, key, row)
    chunk.known[hashed] = _Known(key, row.digest, row.position)
    chunk.place(row.position, key, taken=True)


def _clash(chunk: _Chunk, kind: str, row: NewItem, first: int) -> None:
    assert kind in {"duplicate", "changed"}
    chunk.clashes.append(
        Clash(kind=kind, id=row.id, position=row.position, first_position=first)  # type: ignore[arg-type]
    )


def _add_new(chunk: _Chunk, key: int, hashed: bytes, row: NewItem) -> None:
    state, reason = _rules.birth(row)
    chunk.items.append((key, *_size(chunk, row), int(state), blob(reason)))
    words = (row.custom_id.encode(), row.digest, row.model.encode(), row.metadata)
    chunk.questions.append((key, hashed, row.id.encode(), *words))
    if row.refusal is None:
        chunk.bodies.append((key, row.body))
    else:
        chunk.errors.append((key, _rules.dump_error(row.refusal)))
    chunk.tally.item(state, reason, "", +1)
    chunk.tally.model(row.model, +1)


def _add_change(chunk: _Chunk, key: int, row: NewItem) -> None:
    state, reason = _rules.birth(row)
    words = (row.custom_id.encode(), row.digest, row.model.encode(), row.metadata)
    standing = (*_size(chunk, row), int(state), blob(reason), _rules.dump_error(row.refusal))
    chunk.changes.append((key, *words, *standing, row.body))


def _size(chunk: _Chunk, row: NewItem) -> tuple[int, int, int]:
    size = entry_size(row.custom_id, len(row.body))
    return chunk.headers[row.headers], size, size - len(row.body)


_WORDS: Final = ("digest bytea", "model bytea", "metadata bytea")
_STANDING: Final = ("headers int4", "size int4", "extra int2", "state int2", "reason bytea")
_ITEMS: Final = ("key int8", *_STANDING)
_QUESTIONS: Final = ("key int8", "hash bytea", "id bytea", "custom_id bytea", *_WORDS)
_BODIES: Final = ("key int8", "body bytea")
_ERRORS: Final = ("key int8", "error bytea")
_CHANGES: Final = ("key int8", "custom_id bytea", *_WORDS, *_STANDING, "error bytea", "body bytea")


def _write(db: Db, chunk: _Chunk) -> None:
    tables = (
        ("items", _ITEMS, chunk.items),
        ("questions", _QUESTIONS, chunk.questions),
        ("bodies", _BODIES, chunk.bodies),
        ("answers", _ERRORS, chunk.errors),
        ("changes", _CHANGES, chunk.changes),
    )
    filled = [table for table in tables if table[2]]
    if filled:
        with db.apart():
            for table in filled:
                _copy(db, *table)
    if chunk.places:
        db.run(
            "INSERT INTO places (intake, position, key, count, taken) SELECT %s, * FROM "
            "unnest(%b::bigint[], %b::bigint[], %b::bigint[], %b::boolean[])",
            (chunk.intake, *(column(chunk.places, place) for place in range(4))),
        )


def _copy(db: Db, table: str, columns: Sequence[str], rows: Sequence[tuple[Any, ...]]) -> None:
    names, types = zip(*(one.split() for one in columns), strict=True)
    statement = f"COPY {table} ({', '.join(names)}) FROM STDIN (FORMAT BINARY)"
    failure: BaseException | None = None
    with db.conn.cursor() as cursor, cursor.copy(statement) as copy:
        # Caught here: the driver would log what else fails on the way out. Half a table is undone
        # with the whole transaction.
        try:
            copy.set_types(types)
            for row in rows:
                copy.write_row(row)
        except BaseException as error:
            failure = error
    if failure is not None:
        raise failure


# -- commit -----------------------------------------------------------------------------------


def commit_intake(db: Db, lease: Lease, intake: int) -> RunInfo:
    """See `CheckpointStore.commit_intake`."""
    run = fence(db, lease)
    if run.opened != intake:
        if run.opened is not None or run.intake != intake:
            raise _rules.not_open(run.name, intake)
    else:
        _apply_changes(db, run)
        fold_counts(db, run.number)
        _make_real(db, run, intake)
    info = read_run(db, run.name)
    assert info is not None
    return info


def _make_real(db: Db, run: RunRow, intake: int) -> None:
    db.run(
        "UPDATE runs SET items = items + staged, staged = 0, opened = NULL, intake = %s "
        "WHERE number = %s",
        (intake, run.number),
    )
    db.run("UPDATE intakes SET state = %s WHERE id = %s", (_COMMITTED, intake))
    db.run(
        "UPDATE intakes SET state = %s WHERE run = %s AND state = %s AND id NOT IN "
        "(SELECT id FROM intakes WHERE run = %s AND state = %s ORDER BY id DESC LIMIT %s)",
        (_OLD, run.number, _COMMITTED, run.number, _COMMITTED, _rules.KEPT_INTAKES),
    )


_OURS: Final = "changes c WHERE c.key BETWEEN %s AND %s"
_APPLY: Final = f"""
UPDATE questions SET custom_id = c.custom_id, digest = c.digest, model = c.model,
    metadata = c.metadata FROM {_OURS} AND c.key = questions.key;
UPDATE items SET flag = NULL, attempts = 0, used = 0, shard = NULL, state = c.state,
    reason = c.reason, headers = c.headers, size = c.size, extra = c.extra
    FROM {_OURS} AND c.key = items.key;
DELETE FROM bodies USING {_OURS} AND c.key = bodies.key;
DELETE FROM answers USING {_OURS} AND c.key = answers.key;
DELETE FROM late USING {_OURS} AND c.key = late.key;
INSERT INTO bodies (key, body) SELECT key, body FROM {_OURS} AND error IS NULL;
INSERT INTO answers (key, error) SELECT key, error FROM {_OURS} AND error IS NOT NULL;
DELETE FROM {_OURS}
"""


def _apply_changes(db: Db, run: RunRow) -> None:
    span = (run.low, run.low | MASK)
    if db.row(f"SELECT 1 FROM {_OURS} LIMIT 1", span) is None:
        return
    write_counts(db, run.number, _changed_counts(db, span))
    for statement in _APPLY.split(";"):
        db.run(statement, span)


def _changed_counts(db: Db, span: tuple[int, int]) -> Tally:
    tally = Tally()
    for state, reason, flag, count in db.rows(
        "SELECT i.state, i.reason, i.flag, count(*) FROM items i JOIN changes c ON c.key = i.key "
        "WHERE c.key BETWEEN %s AND %s GROUP BY 1, 2, 3",
        span,
    ):
        tally.item(ItemState(state), text_of(reason), text_of(flag) or "", -count)
    for state, reason, count in db.rows(
        f"SELECT state, reason, count(*) FROM {_OURS} GROUP BY 1, 2",
        span,
    ):
        tally.item(ItemState(state), text_of(reason), "", count)
    for before, after in _models(db, span):
        tally.model(before, -1)
        tally.model(after, +1)
    return tally


def _models(db: Db, span: tuple[int, int]) -> Iterator[tuple[str, str]]:
    for before, after in db.rows(
        "SELECT q.model, c.model FROM questions q JOIN changes c ON c.key = q.key "
        "WHERE c.key BETWEEN %s AND %s AND q.model <> c.model",
        span,
    ):
        yield before.decode(), after.decode()
