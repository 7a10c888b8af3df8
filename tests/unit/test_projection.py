"""When either path would finish: what the projections say, and what they never say."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from batchwright._projection import (
    ENOUGH,
    SLA,
    Ended,
    ended_by_themselves,
    project_batch,
    project_sync,
    rpm_within,
)
from batchwright.policy import UNKNOWN_PROJECTION, BatchView, Projection
from batchwright.store import Shard, ShardState
from batchwright.types import Tokens

NOW = datetime(2026, 11, 29, 12, tzinfo=UTC)
MINUTE, HOUR = 60.0, 3_600.0


def live(age: float, count: int = 1_000, expires_in: float | None = None) -> BatchView:
    """Return a live batch of that age, due by its SLA unless said otherwise."""
    left = SLA - age if expires_in is None else expires_in
    return BatchView(
        shard=1, org="a", count=count, state="in_progress", age=age, expires_in=left
    )  # fmt: skip


def ended(age: float, ago: float, count: int = 1_000) -> Ended:
    """Return a sub-batch that has ended."""
    return Ended(age=age, ago=ago, count=count)


# -- the batch path ---------------------------------------------------------------------------


def test_nothing_remains():
    """An empty wave is finished now."""
    assert project_batch([]) == Projection(low=0, likely=0, high=0, source="nothing remains")
    assert project_sync(0).likely == 0


def test_only_the_sla_is_known():
    """R18: without history the SLA bounds the range, and nothing pretends to be a guess."""
    projection = project_batch([live(11 * HOUR), live(HOUR)])

    assert projection == Projection(low=0.0, likely=None, high=23 * HOUR, source="the SLA")
    assert str(projection) == "at most 23 h 00 min (the SLA)"


def test_earlier_batches_of_the_store():
    """A young batch is expected to take what earlier ones took."""
    history = [10 * MINUTE * n for n in range(1, 11)]
    projection = project_batch([live(0.0)], store=history)

    assert (projection.low, projection.likely, projection.high) == (600.0, 3_000.0, 6_000.0)
    assert projection.source == "10 earlier batches"


def test_the_longer_a_batch_has_waited_the_longer_it_will():
    """Those that ended sooner say nothing about a batch that has outlived them."""
    history = [10 * MINUTE] * 300 + [5 * HOUR] * 40

    assert project_batch([live(0.0)], store=history).likely == 10 * MINUTE
    assert project_batch([live(HOUR)], store=history).likely == 4 * HOUR
    assert project_batch([live(6 * HOUR)], store=history).source == "the SLA"


def test_few_survivors_are_an_anecdote():
    """Below `ENOUGH` batches that ever got so old, there is no guess."""
    assert project_batch([live(HOUR)], store=[2 * HOUR] * (ENOUGH - 1)).likely is None
    assert project_batch([live(HOUR)], store=[2 * HOUR] * ENOUGH).likely == HOUR


def test_this_wave_weighs_more_than_the_store():
    """R17: today's queue counts before last month's."""
    wave = [ended(3 * HOUR, ago) for ago in (60, 120, 180)]
    projection = project_batch([live(0.0)], wave=wave, store=[HOUR] * 14)

    assert projection.likely == 3 * HOUR
    assert projection.source == "3 sub-batches of this wave and 14 earlier batches"


def test_the_rate_of_this_wave():
    """R17: what age cannot tell, the rate at which sub-batches end does."""
    wave = [ended(HOUR + n * 600, 3_000 - n * 600) for n in range(6)]
    projection = project_batch([live(HOUR + 3_000)] * 10, wave=wave)

    assert projection.likely == pytest.approx(10 * 600)
    assert projection.steady
    assert projection.source == "the rate of this wave, 6 sub-batches ended"
    assert projection.low < projection.likely < projection.high


def test_a_stall_lowers_the_rate():
    """The same sub-batches, an hour later and nothing more ended: later by more than the hour."""
    wave = [ended(HOUR, 3_000 - n * 600) for n in range(6)]
    stalled = [ended(HOUR, e.ago + HOUR) for e in wave]
    before = project_batch([live(2 * HOUR)] * 10, wave=wave).likely

    assert project_batch([live(3 * HOUR)] * 10, wave=stalled).likely > before + HOUR


def test_what_waits_needs_another_round():
    """Items that wait for room in the queue are carried at the wave's rate."""
    wave = [ended(HOUR, 3_000 - n * 600) for n in range(6)]
    fresh = [live(60.0)] * 3

    assert project_batch(fresh, wave=wave, store=[HOUR] * 9).likely == pytest.approx(3_540)
    crowded = project_batch(fresh, 57_000, wave=wave, store=[HOUR] * 9)
    assert crowded.likely == pytest.approx(60 * 600)
    assert crowded.source.startswith("the rate")


def test_nothing_was_sent_yet():
    """At the start the range is one round of batches, whatever is known of them."""
    assert project_batch([], 54_600).high == SLA
    assert project_batch([], 54_600, store=[HOUR] * 9).likely == HOUR


def test_the_sla_caps_everything():
    """A batch ends by its expiry, however slow the others were."""
    assert project_batch([live(23 * HOUR)], store=[90_000.0] * 9).high == HOUR
    assert project_batch([live(25 * HOUR)]).high == 0.0


def test_a_batch_without_an_expiry():
    """Where the server gave none, the SLA is counted from its creation."""
    view = BatchView(shard=1, org="a", count=1, state="in_progress", age=HOUR, expires_in=None)

    assert project_batch([view]).high == 23 * HOUR


# -- what has ended ---------------------------------------------------------------------------


def shard(number: int, **changes) -> Shard:
    """Return a stored sub-batch that ran for an hour and ended half an hour ago."""
    values = {
        "number": number, "spans": ((0, 9),), "count": 10, "size": 1, "headers": "", "org": "a",
        "wave": 1, "state": ShardState.DONE, "planned_at": NOW,
        "created_at": NOW - timedelta(hours=1.5), "ended_at": NOW - timedelta(hours=0.5),
    }  # fmt: skip
    return Shard(**{**values, **changes})


def test_canceled_batches_do_not_count():
    """A canceled batch, and one that still runs, do not tell how long one takes."""
    shards = [
        shard(1),
        shard(2, cancel="drain"),
        shard(3, counts={"canceled": 4, "succeeded": 6}),
        shard(4, ended_at=None),
        shard(5, counts={"canceled": 0, "expired": 10}),
    ]

    assert ended_by_themselves(shards, NOW) == (ended(HOUR, HOUR / 2, 10),) * 2


def test_clocks_that_disagree():
    """An end before the creation, or after now, is no negative span."""
    odd = shard(1, created_at=NOW, ended_at=NOW)

    assert ended_by_themselves([odd], NOW - timedelta(seconds=3)) == (ended(0.0, 0.0, 10),)


# -- the sync path ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("known", "likely", "source"),
    [
        ({"measured": 1_255, "stored": 9, "header_rpm": 9}, 2_610, "measured in this run"),
        ({"stored": 600, "header_rpm": 9, "configured_rpm": 9}, 5_460, "measured in an earlier"),
        ({"header_rpm": 4_095, "configured_rpm": 9}, 1_000, "rate-limit headers"),
        ({"configured_rpm": 4_095}, 1_200, "configured limits"),
        ({"measured": 0, "stored": None, "header_rpm": 4_095}, 1_000, "rate-limit headers"),
        ({"latency": 6.0, "concurrency": 64}, 7_684, "configured limits"),
        ({"header_rpm": 9_999, "latency": 6.0, "concurrency": 64}, 6_405, "rate-limit headers"),
    ],
)
def test_sources_of_the_sync_projection(known, likely, source):
    """R18: measured, then remembered, then allowed, then configured; the source is named."""
    projection = project_sync(54_600, **known)

    assert projection.likely == pytest.approx(likely, rel=0.002)
    assert projection.source.startswith(source)


def test_nothing_known_of_the_sync_path():
    """Without any rate there is no number at all."""
    assert project_sync(54_600) == UNKNOWN_PROJECTION
    assert project_sync(54_600, latency=5.0) == UNKNOWN_PROJECTION


def test_the_worse_the_source_the_wider_the_range():
    """A measured rate is trusted more than a remembered one, and that more than a limit."""
    kinds = ("measured", "stored", "configured_rpm")
    highs = [project_sync(1_000, **{kind: 100}).high for kind in kinds]

    assert highs == sorted(set(highs))


def test_rates_within_limits():
    """R18: the tightest of the three limits decides."""
    average = Tokens(input=1_000, output=200, cache_read=50_000)

    assert rpm_within(requests=4_000) == 4_000
    assert rpm_within(requests=4_000, output_tokens=80_000, average=average) == 400
    assert rpm_within(requests=4_000, input_tokens=2_000_000, average=average) == 2_000
    assert rpm_within(output_tokens=80_000) is None
    assert rpm_within(requests=50, output_tokens=80_000, average=Tokens()) == 50


# -- properties -------------------------------------------------------------------------------

SPAN = st.floats(0, 2 * SLA)
LIVE = st.lists(st.builds(live, SPAN, st.integers(1, 8_000)), max_size=6)
WAVE = st.lists(st.builds(ended, SPAN, SPAN, st.integers(1, 8_000)), max_size=9)
STORE = st.lists(SPAN, max_size=20)
WAITING = st.integers(0, 100_000)
RATE = st.none() | st.floats(0, 1e5)


def values(projection: Projection) -> list[float]:
    """Return what is known of low, likely and high, in this order."""
    known = (projection.low, projection.likely, projection.high)
    return [value for value in known if value is not None]


def no_sooner(later: Projection, earlier: Projection) -> bool:
    """Tell whether *later* is nowhere below *earlier*; an unknown end is beyond every number."""
    ends = (later.low, earlier.low), (later.likely, earlier.likely), (later.high, earlier.high)
    far = float("inf")
    return all((far if a is None else a) >= (far if b is None else b) - 1e-6 for a, b in ends)


@given(LIVE, WAITING, WAVE, STORE)
def test_batch_ranges_are_ranges(views, waiting, wave, store):
    """Never negative; the hopeful end is not above the guess, nor that above the cautious end."""
    projection = project_batch(views, waiting, wave=wave, store=store)

    assert values(projection) == sorted(values(projection))
    assert min(values(projection)) >= 0
    assert projection.low is not None
    assert projection.high is not None


@given(LIVE, WAITING, WAVE, STORE, WAITING)
def test_more_waiting_is_never_sooner(views, waiting, wave, store, more):
    """More items to send never finish sooner."""
    fewer = project_batch(views, waiting, wave=wave, store=store)

    assert no_sooner(project_batch(views, waiting + more, wave=wave, store=store), fewer)


@given(LIVE, WAITING, WAVE, STORE, st.builds(live, SPAN))
def test_more_batches_are_never_sooner(views, waiting, wave, store, another):
    """One more live batch never finishes sooner."""
    fewer = project_batch(views, waiting, wave=wave, store=store)

    assert no_sooner(project_batch([*views, another], waiting, wave=wave, store=store), fewer)


@given(SPAN, SPAN, WAVE, STORE)
def test_older_batches_never_end_at_a_lower_age(one, other, wave, store):
    """A batch that has waited longer is never projected to end younger."""
    young, old = sorted((one, other))
    ends = []
    for age in (young, old):
        projection = project_batch([live(age)], wave=wave, store=store)
        likely = projection.likely
        total = Projection(
            low=age + projection.low,
            likely=None if likely is None else age + likely,
            high=age + projection.high,
            source="",
        )
        ends.append(total)

    assert no_sooner(ends[1], ends[0])


@given(st.integers(0, 10**6), st.integers(0, 10**6), RATE, RATE, RATE, RATE)
def test_sync_ranges_are_ranges(remaining, more, measured, stored, header, configured):
    """Ordered, never negative, and more items never finish sooner."""
    rates = {
        "measured": measured,
        "stored": stored,
        "header_rpm": header,
        "configured_rpm": configured,
    }
    fewer, all_ = (project_sync(n, **rates) for n in (remaining, remaining + more))

    assert values(fewer) == sorted(values(fewer))
    assert all(value >= 0 for value in values(fewer))
    assert no_sooner(all_, fewer)
