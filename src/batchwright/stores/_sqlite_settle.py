"""
SQLite: what became of items.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from operator import attrgetter
from typing import Any, Final

from batchwright.store import ItemState, Lease, Settled, Settlement
from batchwright.stores import _rules
from batchwright.stores._rules import Facts, Standing
from batchwright.stores._sqlite_counts import write_counts
from batchwright.stores._sqlite_db import MAX_PARAMS, Db, RunRow, fence, slices
from batchwright.stores._sqlite_read import STATES
from batchwright.stores._tally import Tally

_LOAD: Final = (
    "SELECT i.key, i.state, i.reason, i.flag, i.shard, i.attempts, i.used, a.via, a.batch "
    "FROM items i LEFT JOIN answers a ON a.key = i.key WHERE i.key IN ({marks})"
)


def settle(
    db: Db, lease: Lease, number: int | None, settlements: Sequence[Settlement]
) -> list[Settled]:
    """See `CheckpointStore.settle`."""
    run = fence(db, lease)
    tally = Tally()
    left = _settle_travelling(db, run, number, settlements, tally)
    told = _settle_each(db, run, number, left, tally)
    write_counts(db, run.number, tally)
    if len(left) == len(settlements):
        return told
    verdicts = iter(told)
    unsettled = {said.seq for said in left}
    return [next(verdicts) if said.seq in unsettled else "applied" for said in settlements]


def _settle_travelling(
    db: Db, run: RunRow, number: int | None, settlements: Sequence[Settlement], tally: Tally
) -> Sequence[Settlement]:
    """
    Settle at once what ends items that travel in shard *number*; return the others.

    Nearly all do, and nothing has to be read of them: whatever is said of such an item is applied.
    """
    pending = ItemState.PENDING
    ends = [said for said in settlements if said.state is not pending]
    if number is None or not ends or len({s.seq for s in settlements}) < len(settlements):
        return settlements
    # In the order of the table: results come in any, and each page is then visited once.
    ends.sort(key=attrgetter("seq"))
    # Words get their numbers before the savepoint: what is rolled back would take them along.
    fates = [_rules.end_of(said) for said in ends]
    written = {fate: _written(db, *fate) for fate in set(fates)}
    rows = [
        (*written[fate], said.charge, said.charge, run.low + said.seq, number)
        for said, fate in zip(ends, fates, strict=True)
    ]
    answers = [(run.low + said.seq, *_answer(db, said)) for said in ends]
    if not _move_all(db, rows):
        return settlements
    _write_answers(db, answers)
    _rules.count_ends(ends, fates, tally)
    return [said for said in settlements if said.state is pending]


def _move_all(db: Db, rows: Sequence[tuple[Any, ...]]) -> bool:
    """End all these items, or none where one of them does not travel in the shard any more."""
    db.conn.execute("SAVEPOINT travelling")
    moved = db.conn.executemany(
        # Zeros for nulls, as where items are staged.
        "UPDATE items SET state = ?, reason = NULLIF(?, 0), flag = NULLIF(?, 0), "
        "attempts = attempts + ?, used = used + ? WHERE key = ? AND state = 1 AND shard = ?",
        rows,
    ).rowcount
    if moved != len(rows):
        db.conn.execute("ROLLBACK TO travelling")
    db.conn.execute("RELEASE travelling")
    return moved == len(rows)


def _written(db: Db, state: ItemState, reason: str | None, flag: str) -> tuple[int, int, int]:
    return int(state), db.word(reason) or 0, db.word(flag or None) or 0


def _settle_each(
    db: Db,
    run: RunRow,
    number: int | None,
    settlements: Sequence[Settlement],
    tally: Tally,
) -> list[Settled]:
    standings = _load(db, run, settlements)
    told: list[Settled] = []
    changed: dict[int, Standing] = {}
    for said in settlements:
        standing = standings[run.low + said.seq]
        verdict = _rules.settle_one(standing, number, said, tally)
        told.append(verdict)
        if verdict == "applied":
            changed[run.low + said.seq] = standing
        elif verdict == "late" and said.batch_id is not None:
            db.conn.execute(
                "INSERT OR IGNORE INTO late VALUES (?, ?)",
                (run.low + said.seq, db.word(said.batch_id)),
            )
    _store(db, changed)
    return told


def _load(db: Db, run: RunRow, settlements: Sequence[Settlement]) -> dict[int, Standing]:
    standings: dict[int, Standing] = {}
    for part in slices([run.low + said.seq for said in settlements], MAX_PARAMS):
        marks = ",".join("?" * len(part))
        for key, *row in db.conn.execute(_LOAD.format(marks=marks), part):
            if run.low <= key < run.end:
                standings[key] = _standing(db, row)
        for key, batch in db.conn.execute(
            f"SELECT key, batch FROM late WHERE key IN ({marks})",  # noqa: S608 - question marks
            part,
        ).fetchall():
            standings[key].late.add(db.text(batch) or "")
    for said in settlements:
        if run.low + said.seq not in standings:
            raise _rules.no_item(run.name, said.seq)
        if said.batch_id is None:
            _load_raw(db, run.low + said.seq, standings[run.low + said.seq])
    return standings


def _standing(db: Db, row: Sequence[Any]) -> Standing:
    state, reason, flag, shard, attempts, used, via, batch = row
    return Standing(
        state=STATES[state],
        reason=db.text(reason),
        flag=db.text(flag) or "",
        shard=shard,
        attempts=attempts,
        used=used,
        facts=Facts(via=db.text(via), batch_id=db.text(batch)),  # type: ignore[arg-type]
    )


def _load_raw(db: Db, key: int, standing: Standing) -> None:
    row = db.conn.execute("SELECT raw FROM answers WHERE key = ?", (key,)).fetchone()
    if row is not None:
        standing.facts = standing.facts._replace(raw=row[0])


def _store(db: Db, changed: Mapping[int, Standing]) -> None:
    db.conn.executemany(
        "UPDATE items SET state = ?, reason = ?, flag = ?, shard = ?, attempts = ?, used = ? "
        "WHERE key = ?",
        [(*_state(db, item), key) for key, item in changed.items()],
    )
    _write_answers(db, [(key, *_answer(db, item.facts)) for key, item in changed.items()])


def _write_answers(db: Db, rows: Sequence[tuple[Any, ...]]) -> None:
    db.conn.executemany(
        "INSERT OR REPLACE INTO answers (key, via, org, batch, error, raw) "
        "VALUES (?, ?, ?, ?, NULLIF(?, 0), ?)",
        rows,
    )


def _state(db: Db, item: Standing) -> tuple[Any, ...]:
    words = (db.word(item.reason), db.word(item.flag or None))
    return (item.state, *words, item.shard, item.attempts, item.used)


def _answer(db: Db, facts: Facts | Settlement) -> tuple[Any, ...]:
    words = (db.word(facts.via), db.word(facts.org), db.word(facts.batch_id))
    return (*words, _rules.dump_error(facts.error) or 0, facts.raw)
