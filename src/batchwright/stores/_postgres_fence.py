"""
PostgreSQL: who may write. Every change begins with one of these, which locks what it needs.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from batchwright.store import Lease
from batchwright.stores import _rules
from batchwright.stores._postgres_db import Db, RunRow, load_owner, lock_run


def fence(db: Db, lease: Lease) -> RunRow:
    """Lock and return the row of the run that *lease* still owns, else raise `RunLocked`."""
    run = lock_run(db, lease.run_id)
    if lease.worker:
        raise _rules.not_claimed(lease, None)
    if run is None or run.owner is None or not run.first_token <= lease.token <= run.token:
        raise _rules.locked(lease, load_owner(run.owner) if run else None)
    return run


#: What stands about a worker.
WORKER: Final = "SELECT token, owner, beat_at FROM workers WHERE run = %s AND number = %s"


def lock_worker(db: Db, run: RunRow, lease: Lease) -> Lease:
    """Return the lease of a worker as it stands, its row locked; raise where it is gone."""
    row = db.row(f"{WORKER} FOR NO KEY UPDATE", (run.number, lease.worker))
    # A change in doubt of this worker's may have held only this row.
    db.recall()
    if row is None:
        raise _rules.buried(lease)
    token, owner, beat_at = row
    known = load_owner(owner)
    assert known is not None
    return replace(lease, token=token, owner=known, beat_at=beat_at)


def fence_worker(db: Db, lease: Lease) -> RunRow:
    """Lock the run for a change by one of its workers, else raise `RunLocked`."""
    run = lock_run(db, lease.run_id)
    if run is None:
        raise _rules.buried(lease)
    lock_worker(db, run, lease)
    return run


def fence_shard(db: Db, lease: Lease, number: int | None) -> RunRow:
    """Let the claimant of a shard pass, or the owner of the run where nobody has claimed it."""
    run = fence_worker(db, lease) if lease.worker else fence(db, lease)
    row = None
    if number is not None:
        row = db.row(
            "SELECT claimed_by FROM shards WHERE run = %s AND number = %s FOR NO KEY UPDATE",
            (run.number, number),
        )
    claimant = None if row is None else row[0]
    if lease.worker and claimant != lease.worker:
        raise _rules.not_claimed(lease, number)
    if not lease.worker and number is not None and claimant is not None:
        raise _rules.claimed(lease.run_id, number, claimant)
    return run
