"""
SQLite: items on their way in.

New rows are written where they belong, behind the last committed item: nobody reads that far.
Known rows only get a place in the new intake; changed ones wait in a table of their own. So a
commit costs next to nothing, however many items there are, and no heartbeat waits for it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from batchwright._wire import entry_size
from batchwright.store import Clash, ItemState, Lease, NewItem, OnChanged, RunInfo, Staged
from batchwright.stores import _rules
from batchwright.stores._sqlite_counts import fold_counts, write_counts
from batchwright.stores._sqlite_db import MAX_PARAMS, Db, RunRow, fence, slices
from batchwright.stores._sqlite_files import check_space
from batchwright.stores._sqlite_read import read_run
from batchwright.stores._sqlite_schema import MASK, SHIFT
from batchwright.stores._tally import Tally

#: Rows that one transaction forgets, so that others get their turn in between.
_FORGET: Final = 10_000
#: Bytes that a row takes beside its body and its id, roughly.
_ROW: Final = 400

_OPEN, _COMMITTED, _OLD = 0, 1, 2


class _Known(NamedTuple):
    key: int
    digest: bytes
    seen: int


@dataclass(slots=True)
class _Chunk:
    """What becomes of one chunk: its new items, and rows for the tables that know the others."""

    new: list[NewItem] = field(default_factory=list)
    #: Place of each id that was taken.
    taken: dict[str, int] = field(default_factory=dict)
    changes: list[tuple[object, ...]] = field(default_factory=list)
    seen: list[tuple[int, int]] = field(default_factory=list)
    places: list[tuple[int, int]] = field(default_factory=list)
    clashes: list[Clash] = field(default_factory=list)


# -- begin ------------------------------------------------------------------------------------


def forget_some(db: Db, lease: Lease) -> bool:
    """Forget a part of what no committed intake needs; tell whether there may be more."""
    run = fence(db, lease)
    if run.staged:
        _forget_rows(db, run)
        return True
    db.conn.execute("DELETE FROM counts WHERE run = ? AND staged = 1", (run.number,))
    old = db.conn.execute(
        "SELECT id FROM intakes WHERE run = ? AND state <> ?", (run.number, _COMMITTED)
    ).fetchone()
    if old is not None:
        _forget_places(db, old[0])
        return True
    return _forget_changes(db, run)


def _forget_rows(db: Db, run: RunRow) -> None:
    kept = max(run.staged - _FORGET, 0)
    first = run.end + kept
    for table in ("items", "questions", "bodies", "answers"):
        db.conn.execute(
            f"DELETE FROM {table} WHERE key BETWEEN ? AND ?",  # noqa: S608 - our own names
            (first, run.low | MASK),
        )
    db.conn.execute("UPDATE runs SET staged = ? WHERE number = ?", (kept, run.number))


def _forget_places(db: Db, intake: int) -> None:
    low, high = intake << SHIFT, intake << SHIFT | MASK
    limit = db.conn.execute(
        "SELECT place FROM places WHERE place BETWEEN ? AND ? ORDER BY place LIMIT 1 OFFSET ?",
        (low, high, _FORGET),
    ).fetchone()
    last = high if limit is None else limit[0]
    db.conn.execute("DELETE FROM places WHERE place BETWEEN ? AND ?", (low, last))
    if limit is None:
        db.conn.execute("DELETE FROM intakes WHERE id = ?", (intake,))


def _forget_changes(db: Db, run: RunRow) -> bool:
    return (
        db.conn.execute(
            "DELETE FROM changes WHERE key IN "
            "(SELECT key FROM changes WHERE key BETWEEN ? AND ? LIMIT ?)",
            (run.low, run.low | MASK, _FORGET),
        ).rowcount
        == _FORGET
    )


def begin_intake(db: Db, lease: Lease) -> int:
    """See `CheckpointStore.begin_intake`; what was left behind is forgotten already."""
    run = fence(db, lease)
    number = db.conn.execute("INSERT INTO intakes (run) VALUES (?)", (run.number,)).lastrowid
    assert number is not None
    db.conn.execute("UPDATE runs SET opened = ? WHERE number = ?", (number, run.number))
    return number


# -- stage ------------------------------------------------------------------------------------


def stage(
    db: Db, lease: Lease, intake: int, rows: Sequence[NewItem], on_changed: OnChanged
) -> Staged:
    """See `CheckpointStore.stage`."""
    run = fence(db, lease)
    if run.opened != intake:
        raise _rules.not_open(run.name, intake)
    size = sum(_ROW + len(row.body) + 2 * len(row.id) for row in rows)
    check_space(db.path, size, run.staged + len(rows))
    known = _look_up(db, run, [row.id for row in rows])
    chunk = _Chunk()
    for row in rows:
        place = intake << SHIFT | row.position
        found = known.get(row.id)
        earlier = chunk.taken.get(row.id)
        if earlier is not None:
            _clash(chunk, "duplicate", row, earlier & MASK)
        elif found is None:
            chunk.new.append(row)
            chunk.taken[row.id] = place
        elif found.seen >> SHIFT == intake:
            _clash(chunk, "duplicate", row, found.seen & MASK)
        else:
            _take_known(db, run, chunk, found, place, row, on_changed)
    _write_new(db, run, intake, chunk.new)
    _write_known(db, chunk)
    write_counts(db, run.number, _rules.count_births(chunk.new), staged=True)
    new = len(chunk.new)
    db.conn.execute("UPDATE runs SET staged = staged + ? WHERE number = ?", (new, run.number))
    return Staged(new=new, known=len(chunk.places), clashes=tuple(chunk.clashes))


_LOOK_UP: Final = (
    "SELECT q.id, q.key, q.digest, i.seen FROM questions q JOIN items i ON i.key = q.key "
    "WHERE q.run = ? AND q.id IN ({marks})"
)


def _look_up(db: Db, run: RunRow, ids: Sequence[str]) -> dict[str, _Known]:
    known: dict[str, _Known] = {}
    for part in slices(ids, MAX_PARAMS):
        marks = ",".join("?" * len(part))
        found = db.conn.execute(
            _LOOK_UP.format(marks=marks),
            (run.number, *part),
        )
        known.update((row[0], _Known(*row[1:])) for row in found)
    return known


def _take_known(
    db: Db,
    run: RunRow,
    chunk: _Chunk,
    found: _Known,
    place: int,
    row: NewItem,
    on_changed: OnChanged,
) -> None:
    chunk.taken[row.id] = place
    chunk.seen.append((place, found.key))
    if on_changed == "error" and _rules.is_changed(found.digest, row):
        _clash(chunk, "changed", row, found.key & MASK)
        return
    if _rules.is_replaced(found.digest, row, on_changed):
        _add_change(db, run, chunk, found.key, row)
    chunk.places.append((place, found.key))


def _clash(chunk: _Chunk, kind: str, row: NewItem, first: int) -> None:
    assert kind in {"duplicate", "changed"}
    chunk.clashes.append(
        Clash(kind=kind, id=row.id, position=row.position, first_position=first)  # type: ignore[arg-type]
    )


def _add_change(db: Db, run: RunRow, chunk: _Chunk, key: int, row: NewItem) -> None:
    state, reason = _rules.birth(row)
    headers, size = header_id(db, run, row.headers), entry_size(row.custom_id, len(row.body))
    question = (key, row.custom_id, row.digest, db.word(row.model), row.metadata)
    standing = (state, db.word(reason), headers, size, _rules.dump_error(row.refusal))
    chunk.changes.append((*question, *standing, row.body))


def header_id(db: Db, run: RunRow, text: str) -> int:
    """Return the number of a run's header group, giving it one if it is new."""
    cached = db.headers.get((run.number, text))
    if cached is None:
        key = (run.number, text)
        db.conn.execute("INSERT OR IGNORE INTO headers (run, text) VALUES (?, ?)", key)
        row = db.conn.execute("SELECT id FROM headers WHERE run = ? AND text = ?", key).fetchone()
        cached = db.headers[key] = int(row[0])
    return cached


def _write_new(db: Db, run: RunRow, intake: int, new: Sequence[NewItem]) -> None:
    first, place = run.end + run.staged, intake << SHIFT
    headers = {text: header_id(db, run, text) for text in {row.headers for row in new}}
    births = {born: _born(db, *born) for born in {_rules.birth(row) for row in new}}
    models = {name: db.word(name) for name in {row.model for row in new}}
    many, number = db.conn.executemany, run.number
    # Row by row out of generators: lists of tuples would keep the garbage collector busy. Zeros for
    # nulls: the module asks whether a null could be adapted, which takes longer than the rest of
    # its way into the table. The same holds for numbers of an enum and for bytes.
    many(
        "INSERT INTO items (key, state, reason, headers, size, seen) "
        "VALUES (?, ?, NULLIF(?, 0), ?, ?, ?)",
        (
            (
                key,
                *births[_rules.birth(row)],
                headers[row.headers],
                entry_size(row.custom_id, len(row.body)),
                place | row.position,
            )
            for key, row in enumerate(new, first)
        ),
    )
    many(
        "INSERT INTO questions VALUES (?, ?, ?, ?, ?, ?, NULLIF(?, 0))",
        (
            (
                key,
                number,
                row.id,
                row.custom_id,
                bytearray(row.digest),
                models[row.model],
                row.metadata or 0,
            )
            for key, row in enumerate(new, first)
        ),
    )
    many(
        "INSERT INTO bodies VALUES (?, ?)",
        ((key, row.body) for key, row in enumerate(new, first) if row.refusal is None),
    )
    many(
        "INSERT INTO answers (key, error) VALUES (?, ?)",
        (
            (key, _rules.dump_error(row.refusal))
            for key, row in enumerate(new, first)
            if row.refusal is not None
        ),
    )
    db.conn.execute(
        "INSERT INTO places SELECT seen, key FROM items WHERE key >= ? AND key < ?",
        (first, first + len(new)),
    )


def _born(db: Db, state: ItemState, reason: str | None) -> tuple[int, int]:
    return int(state), db.word(reason) or 0


def _write_known(db: Db, chunk: _Chunk) -> None:
    many = db.conn.executemany
    many("INSERT INTO changes VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", chunk.changes)
    many("UPDATE items SET seen = ? WHERE key = ?", chunk.seen)
    many("INSERT INTO places VALUES (?, ?)", chunk.places)


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
    db.conn.execute(
        "UPDATE runs SET items = items + staged, staged = 0, opened = NULL, intake = ? "
        "WHERE number = ?",
        (intake, run.number),
    )
    db.conn.execute("UPDATE intakes SET state = ? WHERE id = ?", (_COMMITTED, intake))
    db.conn.execute(
        "UPDATE intakes SET state = ? WHERE run = ? AND state = ? AND id NOT IN "
        "(SELECT id FROM intakes WHERE run = ? AND state = ? ORDER BY id DESC LIMIT ?)",
        (_OLD, run.number, _COMMITTED, run.number, _COMMITTED, _rules.KEPT_INTAKES),
    )


_APPLY: Final = """
UPDATE questions SET (custom_id, digest, model, metadata) =
    (SELECT c.custom_id, c.digest, c.model, c.metadata FROM changes c WHERE c.key = questions.key)
    WHERE key IN (SELECT key FROM changes WHERE key BETWEEN ? AND ?);
UPDATE items SET flag = NULL, attempts = 0, used = 0, shard = NULL,
    (state, reason, headers, size) =
    (SELECT c.state, c.reason, c.headers, c.size FROM changes c WHERE c.key = items.key)
    WHERE key IN (SELECT key FROM changes WHERE key BETWEEN ? AND ?);
DELETE FROM bodies WHERE key IN (SELECT key FROM changes WHERE key BETWEEN ? AND ?);
DELETE FROM answers WHERE key IN (SELECT key FROM changes WHERE key BETWEEN ? AND ?);
DELETE FROM late WHERE key IN (SELECT key FROM changes WHERE key BETWEEN ? AND ?);
INSERT INTO bodies
    SELECT key, body FROM changes WHERE key BETWEEN ? AND ? AND error IS NULL;
INSERT INTO answers (key, error)
    SELECT key, error FROM changes WHERE key BETWEEN ? AND ? AND error IS NOT NULL;
DELETE FROM changes WHERE key BETWEEN ? AND ?
"""


def _apply_changes(db: Db, run: RunRow) -> None:
    span = (run.low, run.low | MASK)
    if not db.conn.execute("SELECT 1 FROM changes WHERE key BETWEEN ? AND ?", span).fetchone():
        return
    write_counts(db, run.number, _changed_counts(db, span))
    for statement in _APPLY.split(";"):
        db.conn.execute(statement, span)


def _changed_counts(db: Db, span: tuple[int, int]) -> Tally:
    tally = Tally()
    for state, reason, flag, count in db.conn.execute(
        "SELECT i.state, i.reason, i.flag, COUNT(*) FROM changes c CROSS JOIN items i "
        "ON i.key = c.key WHERE c.key BETWEEN ? AND ? GROUP BY 1, 2, 3",
        span,
    ).fetchall():
        tally.item(ItemState(state), db.text(reason), db.text(flag) or "", -count)
    for state, reason, count in db.conn.execute(
        "SELECT state, reason, COUNT(*) FROM changes WHERE key BETWEEN ? AND ? GROUP BY 1, 2", span
    ).fetchall():
        tally.item(ItemState(state), db.text(reason), "", count)
    for before, after in db.conn.execute(
        "SELECT q.model, c.model FROM changes c CROSS JOIN questions q ON q.key = c.key "
        "WHERE c.key BETWEEN ? AND ? AND q.model <> c.model",
        span,
    ):
        tally.model(db.text(before) or "", -1)
        tally.model(db.text(after) or "", +1)
    return tally
