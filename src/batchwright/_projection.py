"""
When either path would finish the remainder: pure, simple on purpose, every span in seconds.

The batch path. A live batch is compared with batches that once were as old as it is now: those
that had ended by that age say nothing about it, the others say how long it may still take. So a
batch that has waited long is projected to wait longer. Where fewer than `ENOUGH` batches ever got
that old, only the SLA bounds it, and there is no best guess. Once enough sub-batches of the wave
have ended, the rate at which they end carries what is still to be sent, and what age cannot tell.

The sync path. What remains over a rate: measured, remembered, or allowed, in this order.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import accumulate
from typing import Final

from batchwright.policy import UNKNOWN_PROJECTION, BatchView, Projection
from batchwright.store import Shard
from batchwright.types import Tokens

#: Within how many seconds the API promises to end a batch.
SLA: Final = 86_400.0
#: Fewer batches than this are an anecdote.
ENOUGH: Final = 5
#: Today's queue says more than last month's: a sub-batch of this wave counts so many times.
WAVE_WEIGHT: Final = 5
#: Which share of comparable batches had ended at the likely and at the cautious end of the range.
LIKELY: Final = 0.5
CAUTIOUS: Final = 0.95
#: Low, likely and high as multiples of what a rate says, by where the rate comes from. A limit is
#: what is allowed, not what is reached, so it only ever flatters.
MEASURED: Final = (0.8, 1.0, 1.25)
STORED: Final = (0.67, 1.0, 2.0)
HEADERS: Final = (1.0, 1.25, 2.0)
CONFIGURED: Final = (1.0, 1.5, 3.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """
    A sub-batch of this wave that has ended by itself.

    Attributes:
        age: Seconds from its creation to its end.
        ago: Seconds since its end.
        count: Its items.
    """

    age: float
    ago: float
    count: int


def ended_by_themselves(shards: Iterable[Shard], now: datetime) -> tuple[Ended, ...]:
    """
    Return those of *shards* whose batch has ended by itself, as of *now* on the server's clock.

    A batch that was canceled, by whomever, does not tell how long it would have taken. One that
    expired took until its SLA.
    """
    return tuple(
        Ended(
            age=max((shard.ended_at - shard.created_at).total_seconds(), 0.0),
            ago=max((now - shard.ended_at).total_seconds(), 0.0),
            count=shard.count,
        )
        for shard in shards
        if shard.ended_at is not None and shard.created_at is not None and not _canceled(shard)
    )


def _canceled(shard: Shard) -> bool:
    return bool(shard.cancel) or bool((shard.counts or {}).get("canceled"))


# -- the batch path ---------------------------------------------------------------------------


def project_batch(
    live: Sequence[BatchView],
    waiting: int = 0,
    *,
    wave: Sequence[Ended] = (),
    store: Sequence[float] = (),
    sla: float = SLA,
) -> Projection:
    """
    Return when the batch path would finish the live batches and what still waits to be sent.

    The wave is as late as its slowest batch. Sub-batches of one wave share a queue and move
    together, so their ranges are not multiplied as those of independent ones would be.

    Args:
        live: The live batches with the ages they have reached.
        waiting: Items that are not inside a live batch yet.
        wave: The sub-batches of this wave that ended by themselves.
        store: Ages at which earlier batches of the store ended; the most recent few hundred.
        sla: Seconds within which the API promises to end a batch.
    """
    if not live and waiting <= 0:
        return Projection(low=0.0, likely=0.0, high=0.0, source="nothing remains")
    history = _History.of(wave, store)
    rate = _Rate.of(wave)
    in_flight = sum(batch.count for batch in live)
    parts = [_one(batch.age, _bound(batch, sla), history, rate, in_flight) for batch in live]
    if waiting > 0:
        # It is sent now at best; at worst when the last of the live ones has made room.
        room = max((_bound(batch, sla) for batch in live), default=0.0)
        late = max((part.high or 0.0 for part in parts), default=0.0)
        parts.append(_round(history, late, room + sla, sla))
        if rate is not None:
            parts.append(rate.over(in_flight + waiting, room + sla))
    return _slowest(parts)


@dataclass(frozen=True, slots=True)
class _History:
    """Ages at end, ascending, each with its weight; how they are called."""

    ages: tuple[tuple[float, int], ...]
    name: str

    @classmethod
    def of(cls, wave: Sequence[Ended], store: Sequence[float]) -> _History:
        weighed = [(ended.age, WAVE_WEIGHT) for ended in wave] + [(age, 1) for age in store]
        names = []
        if wave:
            names.append(f"{len(wave)} sub-batch{'es' if len(wave) > 1 else ''} of this wave")
        if store:
            names.append(f"{len(store)} earlier batch{'es' if len(store) > 1 else ''}")
        return cls(tuple(sorted(weighed)), " and ".join(names))

    def beyond(self, age: float) -> tuple[tuple[float, int], ...]:
        """Return those that were still alive at *age*."""
        return self.ages[bisect_right(self.ages, (age, WAVE_WEIGHT)) :]


@dataclass(frozen=True, slots=True)
class _Rate:
    """How fast items of ended sub-batches come, per second, from *ended* of them."""

    per_second: float
    ended: int

    @classmethod
    def of(cls, wave: Sequence[Ended]) -> _Rate | None:
        """Count from the first end on, up to now: a stall lowers the rate by and by."""
        if len(wave) < ENOUGH:
            return None
        first = max(wave, key=lambda ended: ended.ago)
        items = sum(ended.count for ended in wave) - first.count
        return cls(items / first.ago, len(wave)) if first.ago > 0 and items > 0 else None

    def over(self, items: int, bound: float) -> Projection:
        """Return when *items* will have come; the fewer have ended, the wider the range."""
        spread = 1.0 + 2.0 / math.sqrt(self.ended)
        likely = items / self.per_second
        return _capped(
            Projection(
                low=likely / spread,
                likely=likely,
                high=likely * spread,
                source=f"the rate of this wave, {self.ended} sub-batches ended",
                steady=True,
            ),
            bound,
        )


def _bound(batch: BatchView, sla: float) -> float:
    """Return the seconds until *batch* must have ended."""
    left = sla - batch.age if batch.expires_in is None else batch.expires_in
    return max(left, 0.0)


def _one(
    age: float, bound: float, history: _History, rate: _Rate | None, in_flight: int
) -> Projection:
    """Return when a batch of *age* ends, among those that once were as old."""
    survivors = history.beyond(age)
    if len(survivors) >= ENOUGH:
        return _residual(survivors, age, bound, history.name)
    if rate is None:
        return Projection(low=0.0, likely=None, high=bound, source="the SLA")
    # Hardly any batch ever got this old: how fast the others end is the better witness. The few
    # that did still count, so that no batch is projected to end at a lower age for being older.
    paced = rate.over(in_flight, bound)
    few = [_residual(survivors, age, bound, history.name)] if survivors else []
    return _slowest([paced, *few])


def _residual(
    survivors: Sequence[tuple[float, int]], age: float, bound: float, source: str
) -> Projection:
    projection = Projection(
        low=survivors[0][0] - age,
        likely=_quantile(survivors, LIKELY) - age,
        high=_quantile(survivors, CAUTIOUS) - age,
        source=source,
    )
    return _capped(projection, bound)


def _round(history: _History, late: float, bound: float, sla: float) -> Projection:
    """Return when what waits has been through one more round of batches."""
    fresh = _one(0.0, sla, history, None, 0)
    assert fresh.high is not None, "a batch is bounded by its SLA"
    return _capped(
        Projection(low=fresh.low, likely=fresh.likely, high=fresh.high + late, source=fresh.source),
        bound,
    )


def _quantile(ages: Sequence[tuple[float, int]], share: float) -> float:
    """Return the smallest age by which at least *share* of the weight had ended."""
    wanted = share * sum(weight for _, weight in ages)
    reached = accumulate(weight for _, weight in ages)
    return next(age for (age, _), so_far in zip(ages, reached, strict=True) if so_far >= wanted)


def _capped(projection: Projection, bound: float) -> Projection:
    low, likely, high = (
        None if value is None else min(value, bound)
        for value in (projection.low, projection.likely, projection.high)
    )
    return Projection(
        low=low, likely=likely, high=high, source=projection.source, steady=projection.steady
    )


def _slowest(parts: Sequence[Projection]) -> Projection:
    """Return what all of *parts* together take, named after the one that takes longest."""
    likelies = [part.likely for part in parts]
    # What has no best guess may be the slowest: then the whole has none.
    known = [likely for likely in likelies if likely is not None]
    likely = max(known) if len(known) == len(likelies) else None
    last = max(parts, key=lambda part: (part.likely is None, part.likely or part.high or 0.0))
    return Projection(
        low=max(part.low or 0.0 for part in parts),
        likely=likely,
        high=max(part.high or 0.0 for part in parts),
        source=last.source,
        steady=last.steady,
    )


# -- the sync path ----------------------------------------------------------------------------


def project_sync(
    remaining: int,
    *,
    measured: float | None = None,
    stored: float | None = None,
    header_rpm: float | None = None,
    configured_rpm: float | None = None,
    latency: float | None = None,
    concurrency: int | None = None,
) -> Projection:
    """
    Return when direct calls would finish *remaining* items, by the best rate that is known.

    All rates are requests a minute over all orgs. A rate of zero or less is as good as unknown.

    Args:
        remaining: Items without an outcome.
        measured: Reached by the pool in this run, or by a pilot that ran it at full width.
        stored: Reached in an earlier run of the store.
        header_rpm: Allowed by the rate-limit headers of a probe; `rpm_within` counts tokens in.
        configured_rpm: Allowed by `SyncLimits.rpm`.
        latency: Seconds of one call.
        concurrency: Calls at once; with *latency* it bounds what a limit allows, and is itself a
            limit where no other is known.
    """
    if remaining <= 0:
        return Projection(low=0.0, likely=0.0, high=0.0, source="nothing remains")
    width = concurrency * 60.0 / latency if concurrency and latency and latency > 0 else None
    for rate, factors, source in (
        (measured, MEASURED, "measured in this run"),
        (stored, STORED, "measured in an earlier run"),
        (_least(header_rpm, width), HEADERS, "rate-limit headers"),
        (_least(configured_rpm, width), CONFIGURED, "configured limits"),
        (width, CONFIGURED, "configured limits"),
    ):
        if rate is not None and rate > 0:
            return _at_rate(remaining, rate, latency or 0.0, factors, source)
    return UNKNOWN_PROJECTION


def rpm_within(
    *,
    requests: float | None = None,
    input_tokens: float | None = None,
    output_tokens: float | None = None,
    average: Tokens | None = None,
) -> float | None:
    """
    Return how many requests a minute fit within limits per minute, `None` where none is known.

    Args:
        requests: Allowed requests a minute.
        input_tokens: Allowed input tokens a minute; tokens read from the cache do not count.
        output_tokens: Allowed output tokens a minute.
        average: Tokens of one answer; without it token limits say nothing.
    """
    allowed = [requests]
    if average is not None:
        allowed.append(_per(input_tokens, average.input + average.cache_write))
        allowed.append(_per(output_tokens, average.output))
    known = [rpm for rpm in allowed if rpm is not None]
    return min(known, default=None)


def _per(tokens: float | None, each: int) -> float | None:
    return None if tokens is None or each <= 0 else tokens / each


def _least(rate: float | None, width: float | None) -> float | None:
    """Return *rate*, but no more than the pool is wide."""
    return rate if rate is None or width is None else min(rate, width)


def _at_rate(
    remaining: int, rpm: float, latency: float, factors: tuple[float, float, float], source: str
) -> Projection:
    low, likely, high = (latency + factor * remaining * 60.0 / rpm for factor in factors)
    return Projection(low=low, likely=likely, high=high, source=source, steady=True)
