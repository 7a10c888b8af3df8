"""
What a policy is shown: where the wave stands, and when either path would finish it.

Everything comes from the store, the live batches and the pools; only where nothing at all is known
of the sync path, one tiny direct call asks the server for its limits and takes the time.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

from batchwright._api import CallFailed
from batchwright._clock import clock
from batchwright._context import RunContext
from batchwright._dispatch import Dispatch
from batchwright._json import dump_json
from batchwright._org import OrgLink
from batchwright._prices import are_loaded, load_prices, premium
from batchwright._projection import ended_by_themselves, project_batch, project_sync
from batchwright._threads import call_aside
from batchwright.config import SyncLimits
from batchwright.events import LiveBatch
from batchwright.policy import BatchView, Projection, WaveSnapshot
from batchwright.store import ItemState, RunInfo, Shard

#: So many of the latest earlier batches of the store tell how long batches take.
HISTORY = 300
#: Fact under which the measured rate of direct calls is remembered, in answers a minute.
RATE_FACT = "sync_rpm"
#: Models are named by the answers so far; before there are any, the probe asks this one.
PROBE_MODEL = "claude-haiku-4-5"


class Forecast:
    """The forecasts of one wave."""

    def __init__(
        self,
        ctx: RunContext,
        dispatch: Dispatch,
        limits: SyncLimits,
        *,
        began_ago: float = 0.0,
    ) -> None:
        self._ctx = ctx
        self._dispatch = dispatch
        self._limits = limits
        self._began = clock().awake() - began_ago
        self._started_at: datetime | None = None
        self._earlier: Sequence[float] = ()
        self._stored_rpm: float | None = None
        self._header_rpm: float | None = None
        self._latency: float | None = None
        self._probed = False

    async def prepare(self) -> None:
        """Read what earlier batches and runs of the store tell, and the table of prices."""
        if not are_loaded():
            await call_aside(load_prices)
        ages: list[float] = []
        store = self._ctx.store
        for run_id in await store.list_runs():
            info = await store.read_run(run_id)
            rate = info.facts.get(RATE_FACT) if info is not None else None
            if isinstance(rate, int | float):
                self._stored_rpm = float(rate)
            shards = await store.read_shards(run_id)
            earlier = [s for s in shards if run_id != self._ctx.run_id or s.wave != self._ctx.wave]
            ages.extend(ended.age for ended in ended_by_themselves(earlier, clock().now()))
        self._earlier = ages[-HISTORY:]

    async def remember(self) -> None:
        """Store the rate of direct calls that this wave measured."""
        rate = self._dispatch.rate()
        if rate is not None:
            await self._ctx.store.put_facts(self._ctx.lease, {RATE_FACT: rate * 60.0})

    async def snapshot(
        self, info: RunInfo, live: Sequence[LiveBatch], *, start: bool
    ) -> WaveSnapshot:
        """Return the frozen view of this moment."""
        now = self._org.now()
        shards = await self._ctx.store.read_shards(self._ctx.run_id)
        wave = self._of_this_wave(shards, now)
        waiting = info.states[ItemState.PENDING]
        views = tuple(view_of(batch, now) for batch in live)
        remaining = waiting + info.states[ItemState.IN_FLIGHT]
        extra = premium(remaining, info.spent, at=now)
        decision = self._dispatch.decision
        return WaveSnapshot(
            now=now,
            started_at=self._began_at(now),
            total=info.items,
            waiting=waiting,
            in_flight=info.states[ItemState.IN_FLIGHT],
            answered=info.items - remaining,
            batches=views,
            ended=sum(shard.ended_at is not None for shard in wave),
            # An end just before a restart is news as well: the wave is not quiet for that.
            last_ended_at=_latest(shards),
            batch_finish=self._project_batch(views, waiting, shards, now),
            sync_finish=self._project_sync(remaining),
            premium=extra.usd,
            premium_ratio=extra.ratio,
            switched=decision is not None,
            share=decision.share if decision is not None else 0.0,
            moment="start" if start else "tick",
            tick=self._ctx.polling.interval,
            facts={"tokens": extra.tokens, "unknown_models": extra.unknown_models},
        )

    def _began_at(self, now: datetime) -> datetime:
        """Return when the wave began, by the same clock as *now*: ours may be hours off."""
        if self._started_at is not None:
            return self._started_at
        started = now - timedelta(seconds=clock().awake() - self._began)
        if self._org.time.known:
            self._started_at = started
        return started

    def _of_this_wave(self, shards: Sequence[Shard], now: datetime) -> list[Shard]:
        """Return what this wave planned, and what it took over and saw end."""
        began, wave = self._began_at(now), self._ctx.wave
        return [s for s in shards if s.wave == wave or (s.ended_at and s.ended_at >= began)]

    @property
    def _org(self) -> OrgLink:
        """The org whose server's clock is used."""
        return next(iter(self._ctx.orgs.values()))

    def _project_batch(
        self, views: tuple[BatchView, ...], waiting: int, shards: Sequence[Shard], now: datetime
    ) -> Projection:
        ended = ended_by_themselves(self._of_this_wave(shards, now), now)
        return project_batch(views, waiting, wave=ended, store=self._earlier)

    def _project_sync(self, remaining: int) -> Projection:
        rate = self._dispatch.rate()
        orgs = sum(org.stop is None for org in self._ctx.orgs.values())
        rpm = self._limits.rpm
        return project_sync(
            remaining,
            measured=None if rate is None else rate * 60.0,
            stored=self._stored_rpm,
            header_rpm=None if self._header_rpm is None else self._header_rpm * orgs,
            configured_rpm=None if rpm is None else float(rpm * orgs),
            latency=self._latency,
            concurrency=self._limits.concurrency * orgs * self._dispatch.width,
        )

    async def probe(self, info: RunInfo) -> bool:
        """
        Ask the server once for its limits by a direct call of one token; tell whether it was news.

        Nothing is asked where something is known already, and a failure is no matter.
        """
        known = self._dispatch.rate() or self._stored_rpm or self._header_rpm or self._limits.rpm
        if self._probed or known:
            return False
        self._probed = True
        org = next((o for o in self._ctx.orgs.values() if o.stop is None), None)
        if org is None:
            return False
        model = next((spent.model for spent in info.spent), PROBE_MODEL)
        body = dump_json(
            {"model": model, "max_tokens": 1, "messages": [{"role": "user", "content": "."}]}
        )
        began = clock().monotonic()
        try:
            reply = await org.gateway.message(body, {}, stream=False)
        except CallFailed:
            return False
        self._latency = clock().monotonic() - began
        self._header_rpm = reply.request_limit
        return True


def view_of(batch: LiveBatch, now: datetime) -> BatchView:
    """Return a live batch as a policy sees it."""
    age = now - (batch.created_at or now)
    left = batch.expires_at - now if batch.expires_at else None
    return BatchView(
        shard=batch.shard,
        org=batch.org,
        count=batch.count,
        state=batch.status,
        age=max(age.total_seconds(), 0.0),
        expires_in=left.total_seconds() if left is not None else None,
    )


def _latest(shards: Sequence[Shard]) -> datetime | None:
    """Return when the latest batch ended by itself; what was canceled is no progress."""
    ends = [s.ended_at for s in shards if s.ended_at is not None and not s.cancel]
    return max(ends, default=None)
