"""
Carrying out a switch: which items go to direct calls, and which batches are given up for it.

The decision is durable before anything follows from it, so a killed process is succeeded by one
that goes on with the same switch. An item is only asked directly after its batch has ended and
been read, unless the caller chose to race.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from batchwright._clock import clock
from batchwright._context import RunContext
from batchwright._org import OrgLink
from batchwright._sync import SyncPool
from batchwright._terms import PolicyTerms, terms_of
from batchwright.config import SyncLimits
from batchwright.events import PolicyBroke, SwitchDecided, WaveLooksWedged
from batchwright.policy import (
    ALARM_WINDOW,
    AdaptivePolicy,
    BatchOnly,
    DispatchPolicy,
    Stay,
    Switch,
    SyncOnly,
    Verdict,
    WaveSnapshot,
    looks_wedged,
)
from batchwright.store import Pending, Shard, ShardState

#: Items that one sync shard claims.
CLAIM = 256
#: Sync shards of one org at once: the next one is claimed while the last calls of one are out.
CLAIMS = 2
#: Where several processes ask directly, shards for so many seconds are claimed ahead.
CLAIM_SECONDS = 3.0
#: The pool is fed for so many seconds ahead when batches are given up progressively.
AHEAD_SECONDS = 60.0
#: What only batches have: items with this beta stay on the batch path.
BATCH_ONLY_BETA = "output-300k"
#: Name of the fact that holds the switch.
FACT = "switch"
#: … and of the facts that remember it for the report when its wave is over.
HISTORY = "switch/{wave}"
#: Name under which another process asks for a switch.
WISH = "wish/switch"


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """A switch as it is stored: why, how much, and on which terms."""

    reason: str
    share: float
    decided_at: float
    items: int
    drain: str = "progressive"
    race: bool = False
    cancel_timeout: float = 600.0
    wave: int = 0


class Dispatch:
    """The switch of one wave: asked for, decided, carried out."""

    def __init__(
        self,
        ctx: RunContext,
        policy: DispatchPolicy,
        limits: SyncLimits,
        cancel: Callable[[Shard], None],
    ) -> None:
        """
        Prepare a wave.

        Args:
            ctx: The run.
            policy: Gives the verdicts.
            limits: Bounds of the sync path.
            cancel: Starts the cancel of a live shard for the drain.
        """
        self._ctx = ctx
        self._policy = policy
        self._terms: PolicyTerms = terms_of(policy)
        self._cancel = cancel
        self._limits = limits
        self._agreed = 0
        self._alarmed = False
        self.decision: Decision | None = None
        self._known: Mapping[str, Any] = {}
        #: Items that may still be moved under the share of the switch.
        self.left = 0
        #: Numbers of shards whose items are asked directly, and of batches given up for that.
        self.shards: set[int] = set()
        self.given_up: set[int] = set()
        #: Processes that ask directly, and the answers a second of all of them, where told.
        self.width = 1
        self.measured: float | None = None
        self.pools: Mapping[str, SyncPool] = {
            label: SyncPool(ctx, org, limits) for label, org in ctx.orgs.items()
        }

    # -- deciding -----------------------------------------------------------------------------

    def restore(self, facts: Mapping[str, Any], remaining: int) -> None:
        """Go on with a switch that an earlier process decided and did not finish."""
        stored = facts.get(FACT)
        if isinstance(stored, dict):
            self.decision = Decision(**stored)
            self._known = facts.get(HISTORY.format(wave=self.decision.wave), {})
            self._carry_out(remaining)

    def _carry_out(self, remaining: int) -> None:
        """Let what follows from the decision begin."""
        assert self.decision is not None
        self.left = _moved(self.decision.share, remaining)
        if self.decision.share >= 1.0:
            # Sub-batches that wait for room in a full queue are not sent after all.
            self._ctx.leaves_batches = True
            for org in self._ctx.orgs.values():
                org.gate.open()
        self._ctx.wake()

    def wants_probe(self, snapshot: WaveSnapshot) -> bool:
        """Tell whether it is worth a call to learn what direct calls could do."""
        if self.decision is not None or snapshot.sync_finish.likely is not None:
            return False
        if isinstance(self._policy, BatchOnly | SyncOnly):
            return False
        quiet = looks_wedged(snapshot, ALARM_WINDOW) is not None
        if snapshot.moment == "start" and not quiet:
            return False
        # A policy that never switches by itself needs it for its alarm alone.
        patient = isinstance(self._policy, AdaptivePolicy) and self._policy.preference == "cost"
        return snapshot.remaining > 0 and (quiet or not patient)

    @property
    def may_switch(self) -> bool:
        """Whether the policy may ever move items to direct calls by itself."""
        return may_switch(self._policy)

    async def ask(self, snapshot: WaveSnapshot, *, wished: bool) -> None:
        """Ask the policy, once per tick; act when its verdict has held."""
        verdict = self._verdict(snapshot)
        if self._nobody_makes_batches() and self.is_undecided():
            everything = Switch("no account may make batches")
            if self.decision is None:
                await self._decide(everything, snapshot)
            else:
                await self._grow(everything, snapshot)
            return
        self._alarm(snapshot, verdict)
        if wished:
            await self._ctx.store.put_facts(self._ctx.lease, {WISH: None})
        if wished and self.decision is None:
            await self._decide(Switch("switched by hand"), snapshot)
        elif not isinstance(verdict, Switch):
            self._agreed = 0
        elif self.decision is not None:
            await self._grow(verdict, snapshot)
        else:
            self._agreed += 1
            if snapshot.moment == "start" or self._agreed >= self._terms.confirmations:
                await self._decide(verdict, snapshot)

    def _verdict(self, snapshot: WaveSnapshot) -> Verdict:
        """Ask the policy; one that breaks changes nothing."""
        try:
            return self._policy.decide(snapshot)
        except Exception as error:
            self._ctx.emit(PolicyBroke(run_id=self._ctx.run_id, error=repr(error)))
            return Stay(f"the policy broke: {error!r}")

    def _nobody_makes_batches(self) -> bool:
        open_orgs = [org for org in self._ctx.orgs.values() if org.stop is None]
        return bool(open_orgs) and all(org.no_batches for org in open_orgs)

    async def _decide(self, verdict: Switch, snapshot: WaveSnapshot) -> None:
        remaining = snapshot.waiting + snapshot.in_flight
        decision = Decision(
            reason=verdict.reason,
            share=verdict.share,
            decided_at=snapshot.now.timestamp(),
            items=remaining,
            drain=self._terms.drain,
            race=self._terms.race,
            cancel_timeout=self._terms.cancel_timeout,
            wave=self._ctx.wave,
        )
        self._known = facts_of(snapshot)
        await self._make_durable(decision, remaining)
        self._ctx.emit(
            SwitchDecided(
                run_id=self._ctx.run_id,
                reason=verdict.reason,
                share=verdict.share,
                remaining=remaining,
                facts=facts_of(snapshot),
            )
        )

    async def _grow(self, verdict: Switch, snapshot: WaveSnapshot) -> None:
        """Let the share grow; it never shrinks."""
        assert self.decision is not None
        if verdict.share > self.decision.share:
            remaining = snapshot.waiting + snapshot.in_flight
            await self._make_durable(replace(self.decision, share=verdict.share), remaining)

    async def _make_durable(self, decision: Decision, remaining: int) -> None:
        told = {**self._known, **asdict(decision)}
        facts = {FACT: asdict(decision), HISTORY.format(wave=decision.wave): told}
        await self._ctx.store.put_facts(self._ctx.lease, facts)
        self.decision = decision
        self._carry_out(remaining)

    def _alarm(self, snapshot: WaveSnapshot, verdict: object) -> None:
        """Say once that a wave looks wedged where the policy leaves it as it is."""
        quiet = looks_wedged(snapshot, ALARM_WINDOW)
        if quiet is None or self._alarmed or self.decision or isinstance(verdict, Switch):
            return
        self._alarmed = True
        self._ctx.emit(
            WaveLooksWedged(
                run_id=self._ctx.run_id,
                quiet_for=quiet,
                live=len(snapshot.batches),
                remaining=snapshot.waiting + snapshot.in_flight,
                advice=f"to move the rest to direct calls: batchwright switch --run-id "
                f"{self._ctx.run_id}",
                facts=facts_of(snapshot),
            )
        )

    async def finish(self) -> None:
        """Forget the switch: its wave is over, and the next one decides for itself."""
        if self.decision is not None:
            await self._ctx.store.put_facts(self._ctx.lease, {FACT: None})

    @property
    def races(self) -> bool:
        """Whether items are asked directly while their batch may still answer."""
        return self.decision is not None and self.decision.race

    # -- the sync path ------------------------------------------------------------------------

    def takes(self, headers: str) -> bool:
        """Tell whether items of this header group may go to the sync path now."""
        return self.decision is not None and self.left > 0 and BATCH_ONLY_BETA not in headers

    def org_for(self, orgs: Sequence[OrgLink]) -> OrgLink | None:
        """Return the open org with the fewest claims, or `None` where all have enough."""
        claims = {org.label: 0 for org in orgs}
        for number in self.shards:
            shard = self._ctx.active.get(number)
            if shard is not None and shard.org in claims:
                claims[shard.org] += 1
        free = [org for org in orgs if claims[org.label] < self._most_claims()]
        return min(free, key=lambda org: claims[org.label], default=None)

    def _most_claims(self) -> int:
        """Return how many sync shards of one org are claimed ahead."""
        if self.width == 1:
            return CLAIMS
        # Others come for theirs once in a while, and must find enough until they come again.
        ahead = (self.measured or 0.0) * CLAIM_SECONDS / CLAIM
        return CLAIMS * self.width + math.ceil(ahead)

    def fitting(self, items: Sequence[Pending]) -> list[Pending]:
        """Return those of *items* that are not too large for a direct call, as many as may go."""
        most = self._limits.max_bytes
        return [item for item in items if item.size <= most][: self.left]

    def is_undecided(self) -> bool:
        """Tell whether the policy may still move items that no account makes batches of."""
        return self.may_switch and (self.decision is None or self.decision.share < 1.0)

    def claim(self, shard: Shard) -> None:
        """Note that a shard's items are asked directly."""
        self.shards.add(shard.number)
        self.left -= shard.count

    def came_back(self, shard: Shard, count: int) -> None:
        """Note that items asked directly wait for another try: they stay on their path."""
        if shard.number in self.shards:
            self.left += count

    @property
    def under_way(self) -> int:
        """Items inside sync shards."""
        return sum(
            shard.count for number, shard in self._ctx.active.items() if number in self.shards
        )

    def rate(self) -> float | None:
        """Return the answers per second of all pools, as measured in this wave."""
        if self.measured is not None:
            return self.measured
        rates = [rate for pool in self.pools.values() if (rate := pool.rate) is not None]
        return sum(rates) if rates else None

    # -- the drain ----------------------------------------------------------------------------

    def drain(self, waiting: int) -> None:
        """
        Give up batches for the sync path: all at once, or just ahead of what the pool can take.

        Given up is what was sent last, since what has waited longest is likeliest to end at half
        price. A batch that does not end in time keeps its items until its own deadline; the next
        one is given up in its place.
        """
        if self.decision is None:
            return
        live = sorted(
            (s for s in self._ctx.active.values() if self._may_give_up(s)),
            key=lambda shard: (shard.created_at or clock().now(), shard.number),
            reverse=True,
        )
        ahead = waiting + self.under_way + self._coming()
        budget = self.left - waiting
        for shard in live:
            if budget <= 0 or (self.decision.drain != "all" and ahead >= self._appetite()):
                return
            self.given_up.add(shard.number)
            self._cancel(shard)
            ahead += shard.count
            budget -= shard.count

    def _may_give_up(self, shard: Shard) -> bool:
        fresh = shard.number not in self.given_up and not shard.cancel
        return shard.state is ShardState.LIVE and fresh

    def _coming(self) -> int:
        """Return the items of given-up batches that may still end in time."""
        assert self.decision is not None
        now = clock().now()
        return sum(
            shard.count
            for number, shard in self._ctx.active.items()
            if number in self.given_up and self._is_patient(shard, now.timestamp())
        )

    def _is_patient(self, shard: Shard, now: float) -> bool:
        assert self.decision is not None
        given_up_at = self._ctx.given_up_at.get(shard.number, now)
        return now - given_up_at < self.decision.cancel_timeout

    def _appetite(self) -> float:
        """Return how many items the pools should have before them."""
        width = sum(pool.window.most for pool in self.pools.values()) * self.width
        rate = self.rate()
        return max(2.0 * width, (rate or 0.0) * AHEAD_SECONDS)


def may_switch(policy: DispatchPolicy) -> bool:
    """Tell whether *policy* may ever move items to direct calls by itself."""
    if isinstance(policy, AdaptivePolicy):
        return policy.preference != "cost" or policy.wedge_after is not None
    return not isinstance(policy, BatchOnly)


def _moved(share: float, remaining: int) -> int:
    """Return how many items a share moves; all of it means whatever may still come."""
    return sys.maxsize if share >= 1.0 else math.ceil(share * remaining)


def facts_of(snapshot: WaveSnapshot) -> dict[str, object]:
    """Return what a decision rested on, for log lines and the report."""
    return {
        "batch_finish": asdict(snapshot.batch_finish),
        "sync_finish": asdict(snapshot.sync_finish),
        "premium": snapshot.premium,
        "waiting": snapshot.waiting,
        "in_flight": snapshot.in_flight,
        "live": len(snapshot.batches),
        "ended": snapshot.ended,
    }
