"""
The port for stores that several processes work on at once.

One process at a time holds the lease of a run and *conducts*: it begins the wave, cuts shards,
decides the switch and ends the run. Any number of processes are *workers*: each is registered with
its owner and its heartbeat, and claims open shards. While a shard is claimed, only the worker that
claimed it writes to it, under a `Lease` whose `worker` is its number. The shards are the queue.

A store that has these methods in addition to those of `CheckpointStore` can be given to
`BatchRunner.work`. It proves itself with `batchwright.testing.check_shared_store`.

What a worker's lease is good for: `renew` is its heartbeat, `release` lets it leave and gives its
claims back, `move_shard` and `settle` write to the shards it has claimed, `put_facts` stores facts
of the run. Everything else refuses it with `RunLocked`, and so does every method once the worker
was buried. Under the lease of the run `move_shard` and `settle` refuse a shard that somebody has
claimed, with `ShardClaimed`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final, Protocol, runtime_checkable

from batchwright.store import CheckpointStore, Group, Lease, Owner, Shard, ShardPlan, ShardState

#: Name of the fact of a run that says whether its shards may be claimed: `{"open": true, …}`.
WORK_FACT: Final = "work"
#: Fact of a shard whose items are asked directly, with the value `"sync"`.
PATH: Final = "path"
#: Fact of a shard whose worker lapsed while it was being sent, and may still be sending.
UNSURE: Final = "unsure"


@dataclass(frozen=True, slots=True, kw_only=True)
class Worker:
    """A process that works on a run: its right to write, and what it says of itself."""

    lease: Lease
    note: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenShard:
    """
    A shard that is not DONE.

    Attributes:
        shard: The shard.
        worker: Number of the worker that has claimed it, or `None`.
        rested: Whether a worker put it down as far as it comes in the current wave.
    """

    shard: Shard
    worker: int | None
    rested: bool


@runtime_checkable
class SharedStore(CheckpointStore, Protocol):
    """A `CheckpointStore` for many processes. See the module's text."""

    #: Whether `run` and `resume` let other processes join: true where others can open the store.
    is_shared: bool

    # -- workers ------------------------------------------------------------------------------

    async def join(self, run_id: str, owner: Owner, now: datetime) -> Lease:
        """
        Register a worker; return its right to write.

        The number is higher than that of any worker of the run before it.

        Raises:
            StoreError: There is no such run.
        """

    async def read_workers(self, run_id: str) -> Sequence[Worker]:
        """Return the workers of the run by number."""

    async def put_note(self, lease: Lease, note: Mapping[str, Any]) -> None:
        """
        Replace what a worker says of itself: JSON values.

        Raises:
            RunLocked: It was buried, or has left.
        """

    async def bury(self, seen: Lease, *, dead: bool) -> bool:
        """
        Remove another worker and free its claims, if it has not beaten since *seen* was read.

        With *dead* false it may still be sending: shards that it left SENDING are marked by the
        fact `unsure`, in the same transaction. Returns whether this call removed it.
        """

    # -- the queue ----------------------------------------------------------------------------

    async def claim(
        self,
        lease: Lease,
        states: frozenset[ShardState],
        *,
        direct: bool,
        orgs: frozenset[str],
        limit: int,
    ) -> Sequence[Shard]:
        """
        Claim up to *limit* shards, lowest numbers first, and return them.

        They are in one of *states*, of one of *orgs*, asked directly or not as *direct* says,
        claimed by nobody, and not put down as rested in the current wave. Two workers never get
        the same shard. There is nothing to claim while the run's fact `work` does not say that it
        is open.

        Raises:
            RunLocked: The worker was buried, or has left.
        """

    async def put_down(self, lease: Lease, number: int, *, rested: bool) -> None:
        """
        Give a claim back; with *rested* nobody claims the shard again in the current wave.

        Harmless where the shard is not this worker's any more.
        """

    async def plan_part(self, lease: Lease, parent: int, plan: ShardPlan) -> Shard:
        """
        Create a PLANNED shard of items that are in flight in the claimed shard *parent*.

        They leave it for the new one, which the worker has claimed at once. *parent* stays as it
        is otherwise.

        Raises:
            RunLocked: *parent* is not claimed by this worker.
            StoreError: One of the items is not in flight in *parent*.
        """

    # -- reading ------------------------------------------------------------------------------

    async def read_open(self, run_id: str) -> Sequence[OpenShard]:
        """Return every shard of the run that is not DONE, by number."""

    async def read_groups(self, run_id: str) -> Sequence[Group]:
        """Return what waits, grouped by headers, as `start_wave` does; nothing changes."""
