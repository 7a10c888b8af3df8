"""
PostgreSQL: several workers on one run.

Locks are taken in one order: the run's row, the worker's row, rows of shards. Whoever changes items
or counters holds the run's row alone. Claims hold it together with other claims, so that none waits
for another, and pass over the shards that another one is just taking.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, replace
from datetime import datetime
from typing import Any, Final

from batchwright._json import dump_json, load_json
from batchwright.shared import UNSURE, WORK_FACT, OpenShard, Worker
from batchwright.store import Group, Lease, Owner, Shard, ShardState
from batchwright.stores import _rules
from batchwright.stores._postgres_db import Db, RunRow, find_run, load_owner, lock_run, need_run
from batchwright.stores._postgres_fence import WORKER, lock_worker
from batchwright.stores._postgres_read import SHARD, groups_of, shard_of

# -- workers ----------------------------------------------------------------------------------


def join(db: Db, run_id: str, owner: Owner, now: datetime) -> Lease:
    """See `SharedStore.join`."""
    run = lock_run(db, run_id)
    if run is None:
        raise _rules.no_run(run_id)
    number = db.row(
        "UPDATE runs SET workers = workers + 1 WHERE number = %s RETURNING workers", (run.number,)
    )[0]
    db.run(
        "INSERT INTO workers (run, number, token, owner, beat_at, note) "
        "VALUES (%s, %s, 1, %b, %s, %b)",
        (run.number, number, dump_json(asdict(owner)), now, b"{}"),
    )
    return Lease(run_id=run_id, token=1, owner=owner, beat_at=now, worker=number)


def read_workers(db: Db, run_id: str) -> list[Worker]:
    """See `SharedStore.read_workers`."""
    run = find_run(db, run_id)
    if run is None:
        return []
    workers = []
    for number, token, data, beat_at, note in db.rows(
        "SELECT number, token, owner, beat_at, note FROM workers WHERE run = %s ORDER BY number",
        (run.number,),
    ):
        owner = load_owner(data)
        assert owner is not None
        lease = Lease(run_id=run_id, token=token, owner=owner, beat_at=beat_at, worker=number)
        workers.append(Worker(lease=lease, note=load_json(note)))
    return workers


def beat(db: Db, lease: Lease, now: datetime) -> Lease:
    """See `SharedStore` and `CheckpointStore.renew`: a worker's heartbeat waits for no change."""
    run = find_run(db, lease.run_id)
    if run is None:
        raise _rules.buried(lease)
    held = lock_worker(db, run, lease)
    db.run(
        "UPDATE workers SET token = token + 1, beat_at = %s WHERE run = %s AND number = %s",
        (now, run.number, lease.worker),
    )
    return replace(held, token=held.token + 1, beat_at=now)


def put_note(db: Db, lease: Lease, note: Mapping[str, Any]) -> None:
    """See `SharedStore.put_note`."""
    run = find_run(db, lease.run_id)
    if run is None:
        raise _rules.buried(lease)
    lock_worker(db, run, lease)
    db.run(
        "UPDATE workers SET note = %b WHERE run = %s AND number = %s",
        (dump_json(dict(note)), run.number, lease.worker),
    )


def leave(db: Db, lease: Lease) -> None:
    """See `SharedStore` and `CheckpointStore.release`: a worker leaves and frees its claims."""
    run = lock_run(db, lease.run_id)
    if run is not None:
        _remove(db, run, lease.worker)


def _remove(db: Db, run: RunRow, worker: int) -> None:
    db.run("DELETE FROM workers WHERE run = %s AND number = %s", (run.number, worker))
    db.run(
        "UPDATE shards SET claimed_by = NULL WHERE run = %s AND claimed_by = %s",
        (run.number, worker),
    )


def bury(db: Db, seen: Lease, *, dead: bool) -> bool:
    """See `SharedStore.bury`."""
    run = lock_run(db, seen.run_id)
    if run is None:
        return False
    row = db.row(f"{WORKER} FOR UPDATE", (run.number, seen.worker))
    if row is None or row[0] != seen.token:
        return False
    if not dead:
        for number, facts in db.rows(
            "SELECT number, facts FROM shards WHERE run = %s AND claimed_by = %s AND state = %s",
            (run.number, seen.worker, ShardState.SENDING.value),
        ):
            db.run(
                "UPDATE shards SET facts = %b WHERE run = %s AND number = %s",
                (dump_json({**load_json(facts), UNSURE: True}), run.number, number),
            )
    _remove(db, run, seen.worker)
    return True


# -- the queue --------------------------------------------------------------------------------

_CLAIM: Final = """
WITH free AS (
    SELECT number FROM shards WHERE run = %s AND state <> 'done' AND state = ANY(%b::text[])
    AND org = ANY(%b::bytea[]) AND direct = %s AND claimed_by IS NULL
    AND rested_in IS DISTINCT FROM %s ORDER BY number LIMIT %s FOR NO KEY UPDATE SKIP LOCKED
)
UPDATE shards SET claimed_by = %s FROM free WHERE run = %s AND shards.number = free.number
RETURNING shards.number
"""


def claim(
    db: Db,
    lease: Lease,
    states: frozenset[ShardState],
    *,
    direct: bool,
    orgs: frozenset[str],
    limit: int,
) -> list[Shard]:
    """See `SharedStore.claim`."""
    run = lock_run(db, lease.run_id, together=True)
    if run is None:
        raise _rules.buried(lease)
    lock_worker(db, run, lease)
    if not _is_open(db, run):
        return []
    wanted = ([state.value for state in states], [org.encode() for org in orgs], direct)
    values = (run.number, *wanted, run.wave, limit, lease.worker, run.number)
    numbers = sorted(row[0] for row in db.rows(_CLAIM, values))
    if not numbers:
        return []
    rows = db.rows(f"{SHARD} AND number = ANY(%b::bigint[]) ORDER BY number", (run.number, numbers))
    return [shard_of(row) for row in rows]


def _is_open(db: Db, run: RunRow) -> bool:
    row = db.row(
        "SELECT value FROM run_facts WHERE run = %s AND sha256(name) = sha256(%b)",
        (run.number, WORK_FACT.encode()),
    )
    work = None if row is None else load_json(row[0])
    return isinstance(work, dict) and work.get("open") is True


def put_down(db: Db, lease: Lease, number: int, *, rested: bool) -> None:
    """See `SharedStore.put_down`."""
    run = lock_run(db, lease.run_id)
    if run is not None:
        db.run(
            "UPDATE shards SET claimed_by = NULL, rested_in = CASE WHEN %s THEN %s ELSE rested_in "
            "END WHERE run = %s AND number = %s AND claimed_by = %s",
            (rested, run.wave, run.number, number, lease.worker),
        )


def read_open(db: Db, run_id: str) -> list[OpenShard]:
    """See `SharedStore.read_open`."""
    run = need_run(db, run_id)
    rows = db.rows(
        f"{SHARD.replace(' FROM', ', claimed_by, rested_in FROM', 1)} AND state <> 'done' "
        "ORDER BY number",
        (run.number,),
    )
    return [
        OpenShard(shard=shard_of(row), worker=claimant, rested=rested_in == run.wave)
        for *row, claimant, rested_in in rows
    ]


def read_groups(db: Db, run_id: str) -> list[Group]:
    """See `SharedStore.read_groups`."""
    return groups_of(db, need_run(db, run_id))
