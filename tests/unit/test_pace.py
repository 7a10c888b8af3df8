"""How long to wait."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from batchwright import ConfigurationError, Org, Polling, RetryBudget, ShardLimits, SyncLimits
from batchwright._batches import deadline_of, read_batch, read_time
from batchwright._pace import (
    MEMORY,
    AverageUse,
    RequestBudget,
    ServerClock,
    backoff,
    parse_retry_after,
    poll_gap,
    retry_wait,
)
from batchwright.types import Tokens

NOW = datetime(2026, 11, 29, 12, tzinfo=UTC)


def test_the_gap_grows_from_the_hint_to_the_interval():
    """R3: about every 60 s, from the server's own hint of 10 s, with jitter upwards only."""
    gaps = [poll_gap(n, 10.0, Polling(), 0.0) for n in range(9)]

    assert gaps[0] == 10.0
    assert gaps == sorted(gaps)
    assert gaps[-1] == 60.0
    assert poll_gap(50, 10.0, Polling(), 0.999) < 66.1
    assert poll_gap(10**6, 10.0, Polling(), 0.0) == 60.0


def test_the_hint_is_never_undercut_but_by_an_interval_set_below_it():
    """A simulator's interval is taken at its word."""
    assert poll_gap(0, 45.0, Polling(), 0.0) == 45.0
    assert poll_gap(0, 10.0, Polling(interval=0.05), 0.0) == 0.05
    assert poll_gap(0, None, Polling(), 0.0) == 10.0


def test_waits_grow_are_capped_and_jittered():
    """R14: backoff doubles up to its cap; a hint of the server counts beyond it."""
    budget = RetryBudget(backoff=1.0, max_backoff=60.0)

    assert [backoff(n, budget, 1.0) for n in (1, 2, 3, 10, 10**5)] == [1.0, 2.0, 4.0, 60.0, 60.0]
    assert backoff(3, budget, 0.0) == 2.0
    assert retry_wait(1, 120.0, budget, 0.0) == 120.0
    assert retry_wait(7, 3.0, budget, 1.0) == 60.0
    assert retry_wait(1, None, budget, 1.0) == 1.0


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        ("7", 7.0),
        ("0", 0.0),
        ("-3", 0.0),
        ("Sun, 29 Nov 2026 12:00:30 GMT", 30.0),
        ("Sun, 29 Nov 2026 11:00:00 GMT", 0.0),
        ("nan", None),
        ("inf", None),
        ("soon", None),
        ("", None),
        (None, None),
    ],
)
def test_retry_after(value, seconds):
    """A number or an HTTP date; anything else is no hint."""
    assert parse_retry_after(value, NOW) == seconds


def test_the_server_clock_corrects_ours():
    """Deadlines are measured on the server's time, whatever our own clock says or is set to."""
    clock = ServerClock()
    assert clock.at(0.0, NOW) == NOW

    clock.learn(NOW, 100.0)
    wrong = NOW + timedelta(hours=3)
    assert abs(clock.at(3_700.0, wrong) - (NOW + timedelta(hours=1))) < timedelta(seconds=1)
    clock.learn(None, 9_999.0)
    assert clock.at(100.0, wrong) < NOW + timedelta(seconds=1)


def test_the_request_budget_spreads_calls():
    """Continuous refill: a burst, then the rate."""
    budget = RequestBudget(rpm=60.0, burst=3.0)

    assert [budget.take(0.0) for _ in range(5)] == [0.0, 0.0, 0.0, 1.0, 2.0]
    assert budget.take(10.0) == 0.0


def test_absurd_numbers_do_not_overflow():
    """A grace of 1e12 seconds is long, and no error."""
    assert deadline_of(None, NOW, 1e12) > NOW + timedelta(days=3_000)
    assert deadline_of(NOW, NOW, 1_800.0) == NOW + timedelta(minutes=30)
    assert Polling(grace=1e12).grace == 1e12


@pytest.mark.parametrize(
    "make",
    [
        lambda: Polling(interval=0),
        lambda: Polling(interval=float("nan")),
        lambda: Polling(interval=float("inf")),
        lambda: Polling(grace=-1),
        lambda: ShardLimits(max_requests=0),
        lambda: ShardLimits(max_requests=100_001),
        lambda: ShardLimits(max_bytes=256_000_001),
        lambda: ShardLimits(max_live=0),
        lambda: ShardLimits(concurrency=0),
        lambda: RetryBudget(call_attempts=0),
        lambda: RetryBudget(backoff=-1),
        lambda: SyncLimits(concurrency=0),
        lambda: SyncLimits(rpm=0),
        lambda: SyncLimits(max_bytes=32_000_001),
        lambda: Org("", None),
        lambda: Org("a", None, max_queued=0),
        lambda: Org("a", None, rpm=0),
    ],
)
def test_options_check_themselves(make):
    """Each wrong value is told with what it takes."""
    with pytest.raises(ConfigurationError):
        make()


def test_times_are_read_in_both_forms():
    """The API writes Z and +00:00."""
    assert read_time("2026-11-29T12:00:00.000000Z") == NOW
    assert read_time("2026-11-29T12:00:00+00:00") == NOW
    assert read_time("2026-11-29T12:00:00") == NOW
    assert read_time("later") is None
    assert read_time(3) is None


@pytest.mark.parametrize(
    ("change", "ended"),
    [
        ({}, False),
        ({"processing_status": "canceling"}, False),
        ({"processing_status": "ended"}, True),
        ({"processing_status": "paused_review"}, False),
        ({"processing_status": "all_done", "results_url": "x"}, True),
        ({"processing_status": "all_done", "ended_at": "2026-11-29T12:00:00Z"}, True),
        # Counts alone never say that a batch has ended.
        ({"request_counts": {"processing": 0, "succeeded": 3}}, False),
    ],
)
def test_only_the_status_says_that_a_batch_has_ended(change, ended):
    """R6: counts are no signal; unknown states are waited out."""
    batch = read_batch({"id": "b", "processing_status": "in_progress", **change})

    assert batch.ended is ended


@pytest.mark.parametrize("data", [{}, {"id": "b"}, {"id": "", "processing_status": "ended"}])
def test_what_is_no_batch(data):
    """Missing fields are no batch, and no crash."""
    assert read_batch(data) is None


def test_counts_of_an_odd_shape():
    """The sum counts what is a number."""
    data = {
        "id": "b",
        "processing_status": "ended",
        "request_counts": {"succeeded": 3, "errored": None, "more": 9},
    }

    assert read_batch(data).total == 3
    assert read_batch({**data, "request_counts": None}).total == 0


def test_average_use_follows_the_answers():
    """The mean of the first answers, then one that forgets; cache reads are not counted."""
    use = AverageUse()
    assert use.average is None
    use.add(None)
    assert use.average is None
    use.add(Tokens(input=10, output=100, cache_write=20, cache_read=9_999))
    use.add(Tokens(input=50, output=300))
    assert use.average == Tokens(input=40, output=200)
    for _ in range(10 * MEMORY):
        use.add(Tokens(input=1, output=7))
    assert use.average == Tokens(input=2, output=8)
