"""
PostgreSQL: what result lines and direct answers do to items.

However many there are, they cost one question and three statements.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from batchwright.store import ItemState, Lease, Settled, Settlement
from batchwright.stores import _rules
from batchwright.stores._postgres_counts import write_counts
from batchwright.stores._postgres_db import Db, RunRow, blob, column, text_of
from batchwright.stores._postgres_fence import fence_shard
from batchwright.stores._rules import Facts, Standing
from batchwright.stores._tally import Tally

# The bytes of an answer are only needed where nothing but they tells it from another.
_LOAD: Final = (
    "SELECT i.key, i.state, i.reason, i.flag, i.shard, i.attempts, i.used, a.via, a.batch, "
    "CASE WHEN asked.whole THEN a.raw END, "
    "(SELECT array_agg(l.batch) FROM late l WHERE l.key = i.key) "
    "FROM unnest(%b::bigint[], %b::boolean[]) AS asked (key, whole) "
    "JOIN items i ON i.key = asked.key LEFT JOIN answers a ON a.key = i.key "
    "WHERE i.key >= %s AND i.key < %s"
)
_STATES: Final = (
    "UPDATE items SET state = v.state, reason = v.reason, flag = v.flag, shard = v.shard, "
    "attempts = v.attempts, used = v.used "
    "FROM unnest(%b::bigint[], %b::bigint[], %b::bytea[], %b::bytea[], %b::bigint[], %b::bigint[], "
    "%b::bigint[]) AS v (key, state, reason, flag, shard, attempts, used) WHERE items.key = v.key"
)
_ANSWERS: Final = (
    "INSERT INTO answers (key, via, org, batch, error, raw) SELECT * FROM unnest(%b::bigint[], "
    "%b::text[], %b::bytea[], %b::bytea[], %b::bytea[], %b::bytea[]) "
    "ON CONFLICT (key) DO UPDATE SET via = excluded.via, org = excluded.org, "
    "batch = excluded.batch, error = excluded.error, raw = excluded.raw"
)
_LATE: Final = (
    "INSERT INTO late (key, batch) SELECT * FROM unnest(%b::bigint[], %b::bytea[]) "
    "ON CONFLICT DO NOTHING"
)


def settle(
    db: Db, lease: Lease, number: int | None, settlements: Sequence[Settlement]
) -> list[Settled]:
    """See `CheckpointStore.settle`."""
    run = fence_shard(db, lease, number)
    standings = _load(db, run, settlements)
    tally = Tally()
    told: list[Settled] = []
    changed: dict[int, Standing] = {}
    late: list[tuple[int, bytes]] = []
    for said in settlements:
        key = run.low + said.seq
        verdict = _rules.settle_one(standings[key], number, said, tally)
        told.append(verdict)
        if verdict == "applied":
            changed[key] = standings[key]
        elif verdict == "late" and said.batch_id is not None:
            late.append((key, said.batch_id.encode()))
    _store(db, changed)
    if late:
        db.run(_LATE, (column(late, 0), column(late, 1)))
    write_counts(db, run.number, tally)
    return told


def _load(db: Db, run: RunRow, settlements: Sequence[Settlement]) -> dict[int, Standing]:
    asked: dict[int, bool] = {}
    for said in settlements:
        key = run.low + said.seq
        asked[key] = asked.get(key, False) or said.batch_id is None
    standings: dict[int, Standing] = {}
    if asked:
        values = (list(asked), list(asked.values()), run.low, run.end)
        standings = {key: _standing(row) for key, *row in db.rows(_LOAD, values)}
    for said in settlements:
        if run.low + said.seq not in standings:
            raise _rules.no_item(run.name, said.seq)
    return standings


def _standing(row: Sequence[Any]) -> Standing:
    state, reason, flag, shard, attempts, used, via, batch, raw, late = row
    return Standing(
        state=ItemState(state),
        reason=text_of(reason),
        flag=text_of(flag) or "",
        shard=shard,
        attempts=attempts,
        used=used,
        facts=Facts(via=via, batch_id=text_of(batch), raw=raw),
        late={one.decode() for one in late or ()},
    )


def _store(db: Db, changed: Mapping[int, Standing]) -> None:
    if not changed:
        return
    states = [(key, *_state(item)) for key, item in changed.items()]
    db.run(_STATES, [column(states, place) for place in range(7)])
    answers = [(key, *_answer(item.facts)) for key, item in changed.items()]
    db.run(_ANSWERS, [column(answers, place) for place in range(6)])


def _state(item: Standing) -> tuple[Any, ...]:
    words = (blob(item.reason), blob(item.flag or None))
    return (int(item.state), *words, item.shard, item.attempts, item.used)


def _answer(facts: Facts) -> tuple[Any, ...]:
    words = (facts.via, blob(facts.org), blob(facts.batch_id))
    return (*words, _rules.dump_error(facts.error), facts.raw)
