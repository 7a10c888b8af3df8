"""
What the parts of a wave share: the run's store and lease, its orgs, its options, its voice.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import anyio

from batchwright._clock import clock
from batchwright._lookout import Lookout
from batchwright._org import OrgLink
from batchwright.config import Polling, RetryBudget, ShardLimits
from batchwright.events import Event, LiveBatch, OrgPaused
from batchwright.store import (
    FINAL,
    CheckpointStore,
    ItemState,
    Lease,
    Member,
    Rest,
    Settled,
    Settlement,
    Shard,
    ShardPlan,
    ShardState,
)
from batchwright.types import Outcome, Status

#: The caller's `validate`, made uniform: `None` accepts, a text refuses; anything raised is a
#: broken validator.
Judge = Callable[[Outcome], Awaitable[str | None]]


#: Seconds for which a proof of ownership is believed: well below the lapse of a lease.
FRESH = 5.0

#: What a person can do about each reason for which items are held.
REMEDIES = {
    "ambiguous": "the batch may exist on the server; look in the Console, then: "
    "batchwright resume --resubmit ambiguous",
    "overdue": "the batch did not end in its time; every resume looks at it once more, or send "
    "its items anew: batchwright resume --resubmit overdue",
    "not_found": "the server does not know this batch (any more), or it belongs to another "
    "credential; with the right key resume reads it, or: batchwright resume --resubmit not_found",
    "foreign": "the batch belongs to another credential; resume with it, or send the items anew "
    "and pay again: batchwright resume --resubmit foreign",
    "archived": "the API keeps results for 29 days, and these are gone; send the items anew and "
    "pay again: batchwright resume --resubmit archived",
}


@dataclass(slots=True, kw_only=True)
class RunContext:
    """One run at work in this process."""

    run_id: str
    store: CheckpointStore
    lease: Lease
    orgs: Mapping[str, OrgLink]
    emit: Callable[[Event], None]
    limits: ShardLimits = field(default_factory=ShardLimits)
    polling: Polling = field(default_factory=Polling)
    retry: RetryBudget = field(default_factory=RetryBudget)
    judge: Judge | None = None
    retry_rejected: bool = False
    #: Final outcomes are handed over here as soon as they are durable, for `stream`.
    deliver: Callable[[Sequence[Outcome]], Awaitable[None]] | None = None
    #: What an outcome must be to be handed over: it is never another one later, but for UNRESOLVED.
    tells: frozenset[ItemState] = FINAL
    #: Takes in what has come while the wave is under way; returns how many items wait by headers.
    join: Callable[[], Awaitable[Mapping[str, int]]] | None = None
    #: Told how many items of a shard wait for another try.
    on_retry: Callable[[Shard, int], None] | None = None
    #: Where several processes work on the run: reads what is open of it, whoever carries it.
    read_open: Callable[[], Awaitable[Sequence[Shard]]] | None = None
    #: … sends parts of a refused shard as shards of their own, while its items are in flight.
    send_parts: Callable[[Shard, Sequence[Sequence[int]]], Awaitable[None]] | None = None
    #: … tells whether another process should read an ended batch, since this one is busy reading.
    hands_over: Callable[[Shard], bool] | None = None
    #: Largest body this server takes, learned from a 413; never above the limit set.
    max_bytes: int = 0
    wave: int = 0
    #: Where the states of an org's batches are read.
    lookouts: Mapping[str, Lookout] = field(init=False)
    #: Set once all of the remainder goes to direct calls: what is not sent yet is not sent.
    leaves_batches: bool = False
    #: Whether the policy may move items to direct calls by itself.
    may_switch: bool = False
    #: Set by whatever changes something the conductor should look at.
    changed: anyio.Event = field(default_factory=anyio.Event)
    #: Status of live batches as last seen, for displays.
    seen: dict[int, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.max_bytes = self.max_bytes or self.limits.max_bytes
        self.lookouts = {
            label: Lookout(org, self.polling.interval) for label, org in self.orgs.items()
        }

    #: Whether whoever owned the run before this process certainly sends no more.
    predecessor_dead: bool = True
    #: Shards under way in this process, the latest of each.
    active: dict[int, Shard] = field(default_factory=dict)
    #: Numbers of shards whose create got no answer and that are being looked up.
    doubtful: set[int] = field(default_factory=set)
    #: When batches were given up for the sync path, seconds since the epoch.
    given_up_at: dict[int, float] = field(default_factory=dict)

    #: When the lease was last proved to be ours, on the clock that counts sleep.
    proved_at: float = field(default_factory=lambda: clock().awake())

    async def prove_owner(self) -> None:
        """
        Renew the lease.

        Raises:
            RunLocked: Somebody took the run over.
        """
        # The time before the call counts: the store may have answered long ago when we wake up.
        now = clock().awake()
        self.lease = await self.store.renew(self.lease, clock().now())
        self.proved_at = now

    async def stay_owner(self) -> None:
        """
        Make sure, just before something irrevocable, that the run is still ours.

        A process that was stopped or a machine that slept may have been succeeded meanwhile.

        Raises:
            RunLocked: Somebody took the run over.
        """
        if clock().awake() - self.proved_at > FRESH:
            await self.prove_owner()

    def org_of(self, shard: Shard) -> OrgLink | None:
        """Return the org that can read *shard*: of its label, or now labelled otherwise."""
        named = self.orgs.get(shard.org)
        if named is not None and not is_foreign(shard, named):
            return named
        workspace = shard.facts.get("workspace")
        if workspace is None:
            return named
        return next((o for o in self.orgs.values() if o.workspace == workspace), named)

    async def rivals(self, shard: Shard) -> int:
        """Return how many other shards of ours a batch of this count might belong to."""
        return sum(
            other.number != shard.number
            and other.org == shard.org
            and other.count == shard.count
            and other.state is ShardState.SENDING
            for other in await self.under_way()
        )

    async def under_way(self) -> Sequence[Shard]:
        """Return the shards that are under way, in whichever process."""
        return list(self.active.values()) if self.read_open is None else await self.read_open()

    async def queued(self, org: OrgLink) -> int:
        """Return the requests inside live batches of *org*."""
        if self.read_open is None:
            return org.queued
        live = [s for s in await self.read_open() if s.state is ShardState.LIVE]
        return sum(shard.count for shard in live if shard.org == org.label)

    async def known_batches(self, asking: Shard | None) -> tuple[frozenset[str], frozenset[str]]:
        """
        Return the ids of batches that belong to a shard of any run in this store but *asking*.

        Those that were only taken over on trial are returned apart, as the second set.
        """
        known: set[str] = set()
        claimed: set[str] = set()
        for run_id in await self.store.list_runs():
            for shard in await self.store.read_shards(run_id):
                other = asking is None or (run_id, shard.number) != (self.run_id, asking.number)
                if shard.batch_id is not None and other:
                    (claimed if shard.facts.get("adopted") else known).add(shard.batch_id)
        return frozenset(known), frozenset(claimed)

    def live(self) -> tuple[LiveBatch, ...]:
        """Return the batches under way here that are alive, as displays tell them."""
        return tuple(
            LiveBatch(
                shard=shard.number,
                org=shard.org,
                batch_id=shard.batch_id,
                count=shard.count,
                status=self.seen.get(shard.number, "in_progress"),
                created_at=shard.created_at,
                expires_at=shard.expires_at,
            )
            for shard in self.active.values()
            if shard.batch_id is not None and shard.state is ShardState.LIVE
        )

    def wake(self) -> None:
        """Let the conductor look again."""
        self.changed.set()

    def halt(self, org: OrgLink, reason: str, message: str, kind: str | None = None) -> None:
        """Stop an org for this wave, once, and say so; *kind* is the API's error type."""
        if org.halt(reason, message, kind):
            self.emit(OrgPaused(run_id=self.run_id, org=org.label, reason=message))
        self.wake()

    def forbid_batches(self, org: OrgLink, message: str, kind: str | None = None) -> None:
        """Note that an account may not make batches: that stops it, unless it may ask directly."""
        if not self.may_switch:
            self.halt(org, "account", message, kind)
            return
        if not org.no_batches:
            org.no_batches = True
            org.gate.open()
            self.emit(OrgPaused(run_id=self.run_id, org=org.label, reason=f"no batches: {message}"))
        self.wake()

    async def plan(self, plan: ShardPlan) -> Shard:
        """Create a PLANNED shard."""
        return await self.store.plan_shard(self.lease, plan)

    async def move(
        self,
        shard: Shard,
        to: ShardState,
        *expect: ShardState,
        rest: Rest | None = None,
        **facts: Any,
    ) -> Shard:
        """Move *shard*, and do so to the end even when the task is cancelled meanwhile."""
        with anyio.CancelScope(shield=True):
            return await self.store.move_shard(
                self.lease,
                shard.number,
                expect=frozenset(expect or (shard.state,)),
                to=to,
                rest=rest,
                **facts,
            )
        raise AssertionError("a scope that nobody cancels swallows nothing")

    async def settle(
        self,
        shard: Shard | None,
        settlements: Sequence[Settlement],
        members: Mapping[int, Member],
    ) -> Sequence[Settled]:
        """Make settlements durable, and hand over the final ones."""
        number = None if shard is None else shard.number
        with anyio.CancelScope(shield=True):
            settled = await self.store.settle(self.lease, number, settlements)
        applied = [
            s.state for s, what in zip(settlements, settled, strict=True) if what == "applied"
        ]
        again = applied.count(ItemState.PENDING)
        if again and shard is not None and self.on_retry is not None:
            self.on_retry(shard, again)
        if self.deliver is not None:
            await self.deliver(
                [
                    outcome_of(members[said.seq], said)
                    for said, what in zip(settlements, settled, strict=True)
                    if what == "applied" and said.state in self.tells
                ]
            )
        return settled


def is_foreign(shard: Shard, org: OrgLink) -> bool:
    """Tell whether *shard* was sent into another workspace than the one *org* sees."""
    workspace = shard.facts.get("workspace")
    return None not in {workspace, org.workspace} and workspace != org.workspace


_STATUS: Mapping[ItemState, Status] = {
    ItemState.SUCCEEDED: "succeeded",
    ItemState.QUARANTINED: "quarantined",
    ItemState.REJECTED: "rejected",
}


#: What settlements are called where they are counted for the report.
RESULT_OF: Mapping[ItemState, str] = {
    ItemState.SUCCEEDED: "succeeded",
    ItemState.QUARANTINED: "quarantined",
    ItemState.REJECTED: "rejected",
    ItemState.UNRESOLVED: "unresolved",
    ItemState.PENDING: "again",
}


def outcome_of(member: Member, said: Settlement) -> Outcome:
    """Return what *said* makes of an item, as its caller will be told."""
    return Outcome(
        id=member.id,
        custom_id=member.custom_id,
        status=_STATUS.get(said.state, "unresolved"),
        reason=said.reason,
        error=said.error,
        attempts=member.attempts + said.charge,
        via=said.via,
        org=said.org,
        batch_id=said.batch_id,
        metadata=member.metadata,
        raw=said.raw,
    )
