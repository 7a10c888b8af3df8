"""
Runs kept in plain dicts: gone with the process, and the model that other stores are compared to.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from batchwright._wire import entry_size
from batchwright.errors import RunLocked
from batchwright.store import (
    FINAL,
    Body,
    Clash,
    Found,
    Group,
    ItemState,
    Lease,
    Member,
    NewItem,
    OnChanged,
    Owner,
    Pending,
    Rest,
    Row,
    RunInfo,
    Settled,
    Settlement,
    Shard,
    ShardPlan,
    ShardState,
    Staged,
)
from batchwright.stores import _rules
from batchwright.stores._memory_run import (
    Intake,
    Run,
    asked_in,
    count,
    groups_of,
    holds,
    member_of,
    new_shard,
    opened_intake,
    places_of,
    plain,
    row_of,
    settle_rest,
    stage_one,
    take_up,
)
from batchwright.stores._memory_workers import MemoryWorkers
from batchwright.stores._occurrences import match


class MemoryStore(MemoryWorkers):
    """
    A `CheckpointStore` without durability, which several runners of one process can work on.

    It is bound to no event loop. Closing it keeps what it holds, as with the other stores.
    """

    def __init__(self) -> None:
        super().__init__({})
        self._intakes = 0

    async def open(self) -> None:
        """See `CheckpointStore.open`."""

    async def close(self) -> None:
        """See `CheckpointStore.close`."""

    # -- ownership ----------------------------------------------------------------------------

    async def read_lease(self, run_id: str) -> Lease | None:
        """See `CheckpointStore.read_lease`."""
        run = self._runs.get(run_id)
        return None if run is None else run.lease

    async def acquire(
        self, run_id: str, owner: Owner, now: datetime, *, replacing: int | None
    ) -> Lease:
        """See `CheckpointStore.acquire`."""
        run = self._runs.get(run_id) or Run(run_id, now)
        if run.lease is not None and run.lease.token != replacing:
            raise RunLocked(run_id, _rules.describe(run.lease.owner))
        self._runs[run_id] = run
        run.token = run.first_token = run.token + 1
        run.lease = Lease(run_id=run_id, token=run.token, owner=owner, beat_at=now)
        return run.lease

    async def renew(self, lease: Lease, now: datetime) -> Lease:
        """See `CheckpointStore.renew`."""
        if lease.worker:
            return self._fence_worker(lease).beat(lease.worker, now)
        run = self._fence(lease)
        assert run.lease is not None
        run.token += 1
        run.lease = replace(run.lease, token=run.token, beat_at=now)
        return run.lease

    async def release(self, lease: Lease) -> None:
        """See `CheckpointStore.release`."""
        run = self._runs.get(lease.run_id)
        if run is not None and lease.worker:
            run.remove_worker(lease.worker)
        elif run is not None and holds(run, lease):
            run.lease = None

    # -- intake -------------------------------------------------------------------------------

    async def begin_intake(self, lease: Lease) -> int:
        """See `CheckpointStore.begin_intake`."""
        run = self._fence(lease)
        self._intakes += 1
        run.open = Intake(self._intakes)
        return self._intakes

    async def stage(
        self, lease: Lease, intake: int, rows: Sequence[NewItem], on_changed: OnChanged
    ) -> Staged:
        """See `CheckpointStore.stage`."""
        run = self._fence(lease)
        opened = opened_intake(run, intake)
        new, known = len(opened.new), 0
        clashes: list[Clash] = []
        for row in rows:
            clash = stage_one(run, opened, row, on_changed)
            if clash is not None:
                clashes.append(clash)
            else:
                known += row.id in run.by_id
        return Staged(new=len(opened.new) - new, known=known, clashes=tuple(clashes))

    async def commit_intake(self, lease: Lease, intake: int) -> RunInfo:
        """See `CheckpointStore.commit_intake`."""
        run = self._fence(lease)
        if run.open is None and run.places and intake == max(run.places):
            return run.info()
        opened = opened_intake(run, intake)
        for seq, row in opened.changes.items():
            entry = run.entries[seq]
            count(run, entry, -1)
            entry.ask(row)
            count(run, entry, +1)
        for entry in opened.new.values():
            run.entries.append(entry)
            count(run, entry, +1)
        run.by_id.update(opened.new)
        run.places[intake] = sorted(opened.places)
        run.open = None
        for number in sorted(run.places)[: -_rules.KEPT_INTAKES]:
            del run.places[number]
        return run.info()

    # -- work ---------------------------------------------------------------------------------

    async def start_wave(self, lease: Lease, resubmit: frozenset[str]) -> Sequence[Group]:
        """See `CheckpointStore.start_wave`."""
        run = self._fence(lease)
        run.wave += 1
        for entry in run.entries:
            take_up(run, entry.standing, resubmit)
        return groups_of(run)

    async def plan_shard(self, lease: Lease, plan: ShardPlan) -> Shard:
        """See `CheckpointStore.plan_shard`."""
        run = self._fence(lease)
        _rules.check_plan(plan)
        shard = new_shard(run, plan)
        waiting = {e.seq for e in run.members(shard) if e.standing.state is ItemState.PENDING}
        if len(waiting) != plan.count:
            raise _rules.not_pending(plan, len(waiting))
        for entry in run.members(shard):
            run.move(entry.standing, ItemState.IN_FLIGHT, None)
            entry.standing.shard = shard.number
            entry.standing.facts = _rules.NO_FACTS
        run.shards.append(shard)
        return shard

    async def move_shard(
        self,
        lease: Lease,
        number: int,
        *,
        expect: frozenset[ShardState],
        to: ShardState,
        rest: Rest | None = None,
        **facts: Any,
    ) -> Shard:
        """See `CheckpointStore.move_shard`."""
        run = self._fence_shard(lease, number)
        shard = run.shard(number)
        _rules.check_facts(facts)
        _rules.check_move(shard, expect, to)
        if "facts" in facts:
            facts["facts"] = {**shard.facts, **plain(facts["facts"])}
        if facts.get("counts") is not None:
            facts["counts"] = plain(facts["counts"])
        shard = replace(shard, state=to, **facts)
        run.shards[number - 1] = shard
        if rest is not None:
            settle_rest(run, shard, rest)
        return shard

    async def settle(
        self, lease: Lease, number: int | None, settlements: Sequence[Settlement]
    ) -> Sequence[Settled]:
        """See `CheckpointStore.settle`."""
        run = self._fence_shard(lease, number)
        for said in settlements:
            if not 0 <= said.seq < len(run.entries):
                raise _rules.no_item(run.run_id, said.seq)
        return [
            _rules.settle_one(run.entries[said.seq].standing, number, said, run.tally)
            for said in settlements
        ]

    async def put_facts(self, lease: Lease, facts: Mapping[str, Any]) -> None:
        """See `CheckpointStore.put_facts`."""
        run = self._fence_worker(lease) if lease.worker else self._fence(lease)
        run.facts.update(plain(facts))

    async def put_wish(self, run_id: str, name: str, value: Any) -> None:
        """See `CheckpointStore.put_wish`."""
        self._run(run_id).facts.update(plain({f"wish/{name}": value}))

    # -- reading ------------------------------------------------------------------------------

    async def list_runs(self) -> Sequence[str]:
        """See `CheckpointStore.list_runs`."""
        return list(self._runs)

    async def read_run(self, run_id: str) -> RunInfo | None:
        """See `CheckpointStore.read_run`."""
        run = self._runs.get(run_id)
        return None if run is None else run.info()

    async def read_shards(self, run_id: str) -> Sequence[Shard]:
        """See `CheckpointStore.read_shards`."""
        run = self._runs.get(run_id)
        return [] if run is None else list(run.shards)

    async def read_pending(
        self, run_id: str, headers: str, after: int, limit: int
    ) -> Sequence[Pending]:
        """See `CheckpointStore.read_pending`."""
        found: list[Pending] = []
        for seq in range(max(after + 1, 0), len(self._run(run_id).entries)):
            if len(found) >= limit:
                break
            entry = self._run(run_id).entries[seq]
            if entry.standing.state is ItemState.PENDING and entry.row.headers == headers:
                size = entry_size(entry.row.custom_id, len(entry.row.body))
                found.append(Pending(seq=seq, size=size))
        return found

    async def read_members(self, run_id: str, number: int) -> Sequence[Member]:
        """See `CheckpointStore.read_members`."""
        run = self._run(run_id)
        return [member_of(entry) for entry in run.members(run.shard(number))]

    async def read_bodies(
        self, run_id: str, number: int, after: int, max_bytes: int
    ) -> Sequence[Body]:
        """See `CheckpointStore.read_bodies`."""
        run = self._run(run_id)
        page: list[Body] = []
        for entry in run.members(run.shard(number)):
            if entry.seq <= after or entry.row.refusal is not None:
                continue
            max_bytes -= len(entry.row.body)
            if page and max_bytes < 0:
                break
            page.append(Body(seq=entry.seq, custom_id=entry.row.custom_id, body=entry.row.body))
        return page

    async def read_rows(
        self,
        run_id: str,
        after: int,
        limit: int,
        *,
        intake: int | None = None,
        reason: str | None = None,
        succeeded: bool = True,
        raw: bool = True,
        max_bytes: int = 16_000_000,
    ) -> Sequence[Row]:
        """See `CheckpointStore.read_rows`."""
        run = self._run(run_id)
        page: list[Row] = []
        for position, seq in places_of(run, after, intake):
            if len(page) >= limit or (page and max_bytes <= 0):
                break
            entry = run.entries[seq]
            if not succeeded and entry.standing.state is ItemState.SUCCEEDED:
                continue
            row = row_of(run, entry, position, raw=raw)
            if reason is None or (row.state not in FINAL and row.outcome.reason == reason):
                page.append(row)
                max_bytes -= len(row.outcome.raw or b"")
        return page

    async def find_answers(
        self,
        run_id: str,
        sources: Sequence[str],
        first: int,
        last: int,
        *,
        max_bytes: int = 16_000_000,
    ) -> Sequence[Found]:
        """See `CheckpointStore.find_answers`."""
        runs = [self._run(run_id), *(run for name in sources if (run := self._runs.get(name)))]
        found: list[Found] = []
        for seq, (rank, seq_there) in match(asked_in(runs, first, last)):
            raw = runs[rank].entries[seq_there].standing.facts.raw
            assert raw is not None, "an item that succeeded has an answer"
            max_bytes -= len(raw)
            if found and max_bytes < 0:
                break
            found.append(Found(member=member_of(runs[0].entries[seq]), raw=raw))
        return found
