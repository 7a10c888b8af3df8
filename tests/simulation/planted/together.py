"""
Bugs of several processes on one run; each needs a scenario in which there are some.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any
from unittest import mock

from tests.simulation.planted.bugs import BUGS, Patch

from batchwright import _sync
from batchwright.store import ShardState
from batchwright.stores.memory import MemoryStore

#: What the scenarios of these bugs have to have.
NEEDS: dict[str, dict[str, Any]] = {}


def _bug(**needs: Any) -> Callable[[Callable[[], Sequence[Patch]]], None]:
    def register(make: Callable[[], Sequence[Patch]]) -> None:
        name = make.__name__.strip("_")
        BUGS[name] = make
        NEEDS[name] = {"workers": 2, **needs}

    return register


@_bug()
def _claimed_twice() -> Sequence[Patch]:
    """A shard that somebody has claimed is claimed by the next one as well."""
    real, look = MemoryStore.claim, MemoryStore.read_open

    async def claim(self: Any, lease: Any, states: Any, **more: Any) -> Any:
        run = self._runs[lease.run_id]
        mine = {n: worker for n, worker in run.claims.items() if worker == lease.worker}
        others = {n: worker for n, worker in run.claims.items() if worker != lease.worker}
        run.claims = mine
        found = await real(self, lease, states, **more)
        run.claims = {**others, **run.claims}
        return found

    async def read_open(self: Any, run_id: str) -> Any:
        return [replace(one, worker=None) for one in await look(self, run_id)]

    def fence(self: Any, lease: Any, number: Any) -> Any:
        return self._runs[lease.run_id]

    return [
        mock.patch.object(MemoryStore, "claim", claim),
        mock.patch.object(MemoryStore, "read_open", read_open),
        mock.patch.object(MemoryStore, "_fence_shard", fence),
    ]


@_bug(switch="all")
def _asks_all_again() -> Sequence[Patch]:
    """What a dead process had asked directly is asked again by the one that takes over."""
    return [mock.patch.object(_sync, "_is_open_in", return_value=True)]


@_bug()
def _claims_kept() -> Sequence[Patch]:
    """Who leaves takes its claims along."""

    async def release(self: Any, lease: Any) -> None:
        run = self._runs[lease.run_id]
        if lease.worker:
            run.workers.pop(lease.worker, None)
        elif run.lease is not None:
            run.lease = None

    return [mock.patch.object(MemoryStore, "release", release)]


@_bug()
def _sends_what_was_sent() -> Sequence[Patch]:
    """What a dead worker was sending is taken for unsent by the one that takes over."""
    real = MemoryStore.claim

    async def claim(self: Any, lease: Any, states: Any, **more: Any) -> Any:
        run = self._runs[lease.run_id]
        for place, shard in enumerate(run.shards):
            if shard.state is ShardState.SENDING and shard.number not in run.claims:
                run.shards[place] = replace(shard, state=ShardState.PLANNED)
        return await real(self, lease, states, **more)

    return [mock.patch.object(MemoryStore, "claim", claim)]
