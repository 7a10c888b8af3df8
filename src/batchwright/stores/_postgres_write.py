"""
PostgreSQL: ownership, facts, waves.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, replace
from datetime import datetime
from typing import Any, Final

from batchwright._json import dump_json
from batchwright.errors import RunLocked
from batchwright.store import Group, ItemState, Lease, Owner
from batchwright.stores import _rules
from batchwright.stores._postgres_counts import write_counts
from batchwright.stores._postgres_db import Db, RunRow, lock_run
from batchwright.stores._postgres_fence import fence, fence_worker
from batchwright.stores._postgres_read import groups_of, lease_of
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
    """See `CheckpointStore.renew`; a worker beats by `beat`."""
    run = fence(db, lease)
    db.run("UPDATE runs SET token = token + 1, beat_at = %s WHERE number = %s", (now, run.number))
    renewed = lease_of(run)
    assert renewed is not None
    return replace(renewed, token=run.token + 1, beat_at=now)


def release(db: Db, lease: Lease) -> None:
    """See `CheckpointStore.release`; a worker leaves by `leave`."""
    run = lock_run(db, lease.run_id)
    if run is not None and run.first_token <= lease.token <= run.token:
        db.run("UPDATE runs SET owner = NULL, beat_at = NULL WHERE number = %s", (run.number,))


_PUT_FACT: Final = (
    "INSERT INTO run_facts (run, name, value) VALUES (%s, %b, %b) "
    "ON CONFLICT (run, sha256(name)) DO UPDATE SET value = excluded.value"
)


def put_facts(db: Db, lease: Lease, facts: Mapping[str, Any]) -> None:
    """See `CheckpointStore.put_facts`."""
    run = fence_worker(db, lease) if lease.worker else fence(db, lease)
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
    return groups_of(db, run)


def _take_up(db: Db, run: RunRow, reason: str, lowest: ItemState, used: str, tally: Tally) -> None:
    # As pairs, so that only the index of what was put aside is used.
    where = "state >= 4 AND (reason, key) >= (%b, %s) AND (reason, key) < (%b, %s) AND state >= %s"
    values = (reason.encode(), run.low, reason.encode(), run.end, int(lowest))
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
