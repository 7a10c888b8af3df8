"""
The memory store for several workers: what `SharedStore` adds, on the same plain dicts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from batchwright.shared import PATH, UNSURE, WORK_FACT, OpenShard, Worker
from batchwright.store import Group, ItemState, Lease, Owner, Shard, ShardPlan, ShardState
from batchwright.stores import _rules
from batchwright.stores._memory_run import Run, groups_of, holds, new_shard, plain


@dataclass(slots=True)
class MemoryWorkers:
    """The part of `MemoryStore` that lets several runners of one process work on one run."""

    _runs: dict[str, Run]

    #: A store object lives in one process: whoever wants others on it says so by `work`.
    is_shared = False

    async def join(self, run_id: str, owner: Owner, now: datetime) -> Lease:
        """See `SharedStore.join`."""
        run = self._run(run_id)
        run.last_worker += 1
        lease = Lease(run_id=run_id, token=1, owner=owner, beat_at=now, worker=run.last_worker)
        run.workers[run.last_worker] = Worker(lease=lease)
        return lease

    async def read_workers(self, run_id: str) -> Sequence[Worker]:
        """See `SharedStore.read_workers`."""
        run = self._runs.get(run_id)
        return [] if run is None else list(run.workers.values())

    async def put_note(self, lease: Lease, note: Mapping[str, Any]) -> None:
        """See `SharedStore.put_note`."""
        run = self._fence_worker(lease)
        run.workers[lease.worker] = replace(run.workers[lease.worker], note=plain(note))

    async def bury(self, seen: Lease, *, dead: bool) -> bool:
        """See `SharedStore.bury`."""
        run = self._runs.get(seen.run_id)
        known = None if run is None else run.workers.get(seen.worker)
        if run is None or known is None or known.lease.token != seen.token:
            return False
        for number, worker in run.claims.items():
            shard = run.shard(number)
            if worker == seen.worker and shard.state is ShardState.SENDING and not dead:
                run.shards[number - 1] = replace(shard, facts={**shard.facts, UNSURE: True})
        run.remove_worker(seen.worker)
        return True

    async def claim(
        self,
        lease: Lease,
        states: frozenset[ShardState],
        *,
        direct: bool,
        orgs: frozenset[str],
        limit: int,
    ) -> Sequence[Shard]:
        """See `SharedStore.claim`."""
        run = self._fence_worker(lease)
        work = run.facts.get(WORK_FACT)
        if not isinstance(work, dict) or work.get("open") is not True:
            return []
        found = [
            shard
            for shard in run.shards
            if shard.state in states - {ShardState.DONE}
            and shard.org in orgs
            and (shard.facts.get(PATH) == "sync") is direct
            and shard.number not in run.claims
            and run.rested.get(shard.number) != run.wave
        ][:limit]
        run.claims.update((shard.number, lease.worker) for shard in found)
        return found

    async def put_down(self, lease: Lease, number: int, *, rested: bool) -> None:
        """See `SharedStore.put_down`."""
        run = self._runs.get(lease.run_id)
        if run is None or run.claims.get(number) != lease.worker:
            return
        del run.claims[number]
        if rested:
            run.rested[number] = run.wave

    async def plan_part(self, lease: Lease, parent: int, plan: ShardPlan) -> Shard:
        """See `SharedStore.plan_part`."""
        run = self._fence_shard(lease, parent)
        _rules.check_plan(plan)
        shard = new_shard(run, plan)
        members = list(run.members(shard))
        inside = [
            entry
            for entry in members
            if entry.standing.state is ItemState.IN_FLIGHT and entry.standing.shard == parent
        ]
        if len(inside) != plan.count:
            raise _rules.not_inside(plan, parent, len(inside))
        for entry in members:
            entry.standing.shard = shard.number
        run.shards.append(shard)
        run.claims[shard.number] = lease.worker
        return shard

    async def read_open(self, run_id: str) -> Sequence[OpenShard]:
        """See `SharedStore.read_open`."""
        run = self._run(run_id)
        return [
            OpenShard(
                shard=shard,
                worker=run.claims.get(shard.number),
                rested=run.rested.get(shard.number) == run.wave,
            )
            for shard in run.shards
            if shard.state is not ShardState.DONE
        ]

    async def read_groups(self, run_id: str) -> Sequence[Group]:
        """See `SharedStore.read_groups`."""
        return groups_of(self._run(run_id))

    # -- inside -------------------------------------------------------------------------------

    def _run(self, run_id: str) -> Run:
        if run_id not in self._runs:
            raise _rules.no_run(run_id)
        return self._runs[run_id]

    def _fence(self, lease: Lease) -> Run:
        run = self._runs.get(lease.run_id)
        if run is None or not holds(run, lease):
            owner = None if run is None or run.lease is None else run.lease.owner
            raise _rules.locked(lease, owner)
        return run

    def _fence_worker(self, lease: Lease) -> Run:
        run = self._runs.get(lease.run_id)
        if run is None or lease.worker not in run.workers:
            raise _rules.buried(lease)
        return run

    def _fence_shard(self, lease: Lease, number: int | None) -> Run:
        """Let the claimant of a shard pass, or the owner of the run where nobody claims it."""
        if lease.worker:
            run = self._fence_worker(lease)
            if number is None or run.claims.get(number) != lease.worker:
                raise _rules.not_claimed(lease, number)
            return run
        run = self._fence(lease)
        if number is not None and number in run.claims:
            raise _rules.claimed(lease.run_id, number, run.claims[number])
        return run
