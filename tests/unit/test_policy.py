"""When a wave moves to direct calls: tables of snapshots, and deadlines played to their end."""

from __future__ import annotations

from dataclasses import FrozenInstanceError, dataclass, replace
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from batchwright._deadline import Deadline
from batchwright._projection import Ended, project_batch, project_sync
from batchwright._terms import PolicyTerms, terms_of
from batchwright.errors import ConfigurationError
from batchwright.policy import (
    ALARM_WINDOW,
    SMALL_SPAN,
    SMALL_WAVE,
    UNKNOWN_PROJECTION,
    AdaptivePolicy,
    BatchOnly,
    BatchView,
    DispatchPolicy,
    Projection,
    Stay,
    Switch,
    SyncOnly,
    WaveSnapshot,
    looks_wedged,
    resolve_policy,
    say_span,
)

NOW = datetime(2026, 11, 29, 12, tzinfo=UTC)
MINUTE, HOUR = 60.0, 3_600.0
BY_SLA = Projection(low=0.0, likely=None, high=13 * HOUR, source="the SLA")
ADAPTIVE = ("cost", "balanced", "latency")


def around(likely: float, source: str = "12 sub-batches of this wave") -> Projection:
    """Return a projection of half to twice *likely* seconds."""
    return Projection(low=likely / 2, likely=likely, high=likely * 2, source=source)


def live(age: float, shard: int = 1, state: str = "in_progress") -> BatchView:
    """Return a live batch of that age."""
    return BatchView(
        shard=shard, org="a", count=1_000, state=state, age=age, expires_in=24 * HOUR - age
    )


def wave(*ages: float, quiet: float | None = None, **changes) -> WaveSnapshot:
    """Return a wave with live batches of these ages, of which one ended *quiet* seconds ago."""
    base = WaveSnapshot(
        now=NOW,
        started_at=NOW - timedelta(seconds=max(ages, default=0.0)),
        total=54_600,
        waiting=0,
        in_flight=1_000 * len(ages),
        answered=0,
        batches=tuple(live(age, shard) for shard, age in enumerate(ages, 1)),
        last_ended_at=None if quiet is None else NOW - timedelta(seconds=quiet),
        batch_finish=BY_SLA,
        sync_finish=around(43 * MINUTE, "measured in this run"),
    )
    return replace(base, **changes)


#: The wave that this library was written for: 55 sub-batches, eleven hours, none ended.
WEDGED = wave(*(11 * HOUR - 30 * n for n in range(55)))


def verdicts(snapshot: WaveSnapshot) -> str:
    """Return the preferences that would switch, in order, joined by a blank."""
    decided = {name: resolve_policy(name).decide(snapshot) for name in ADAPTIVE}
    return " ".join(name for name, verdict in decided.items() if isinstance(verdict, Switch))


# -- preferences ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("snapshot", "switching"),
    [
        pytest.param(WEDGED, "balanced latency", id="wedged for 11 h"),
        pytest.param(wave(29 * MINUTE), "latency", id="quiet for 29 min"),
        pytest.param(wave(9 * MINUTE), "", id="young, only the SLA known"),
        pytest.param(wave(11 * HOUR, quiet=5 * MINUTE), "", id="one ended lately"),
        pytest.param(wave(11 * HOUR, quiet=12 * MINUTE), "latency", id="quiet for 12 min"),
        pytest.param(wave(11 * HOUR, quiet=31 * MINUTE), "balanced latency", id="quiet again"),
        pytest.param(
            wave(11 * HOUR, sync_finish=UNKNOWN_PROJECTION), "", id="wedged, sync unknown"
        ),
        pytest.param(
            wave(11 * HOUR, batch_finish=UNKNOWN_PROJECTION), "", id="wedged, batches unknown"
        ),
        pytest.param(
            wave(11 * HOUR, sync_finish=around(5 * HOUR)), "latency", id="wedged, sync slow"
        ),
        pytest.param(
            wave(11 * HOUR, sync_finish=around(14 * HOUR)), "", id="wedged, sync slower"
        ),
        pytest.param(
            wave(40 * MINUTE, quiet=MINUTE, batch_finish=around(20 * MINUTE)), "", id="healthy"
        ),
        pytest.param(
            wave(9 * HOUR, quiet=50 * MINUTE, batch_finish=around(3 * HOUR),
                 sync_finish=around(4 * HOUR)),
            "",
            id="R22: slow but sure",
        ),
        pytest.param(
            wave(HOUR, quiet=MINUTE, batch_finish=around(3 * 43 * MINUTE)),
            "balanced latency",
            id="three times as long",
        ),
        pytest.param(
            wave(HOUR, quiet=MINUTE, batch_finish=around(3 * 43 * MINUTE - 1)),
            "latency",
            id="not quite three times",
        ),
        pytest.param(
            wave(HOUR, quiet=MINUTE, batch_finish=around(34 * MINUTE),
                 sync_finish=around(5 * MINUTE)),
            "latency",
            id="many times, but not 30 min",
        ),
        pytest.param(
            wave(HOUR, quiet=MINUTE, batch_finish=around(5 * MINUTE),
                 sync_finish=around(MINUTE)),
            "",
            id="many times, but not 5 min",
        ),
        pytest.param(wave(waiting=54_600), "", id="nothing sent yet"),
        pytest.param(replace(WEDGED, switched=True, share=1.0), "", id="switched"),
        pytest.param(replace(WEDGED, switched=True, share=0.5), "", id="a share switched"),
        pytest.param(replace(WEDGED, in_flight=0), "", id="nothing remains"),
    ],
)  # fmt: skip
def test_preferences(snapshot, switching):
    """R19, R21, R22, R27: each preference switches where its numbers say so, and nowhere else."""
    assert verdicts(snapshot) == switching


def test_cost_switches_when_wedged_if_asked_to():
    """R21: `cost` never switches by itself; with `wedge_after` it does when provably wedged."""
    asked = AdaptivePolicy("cost", wedge_after=45 * MINUTE)

    assert isinstance(AdaptivePolicy("cost").decide(WEDGED), Stay)
    assert isinstance(asked.decide(WEDGED), Switch)
    assert isinstance(asked.decide(wave(44 * MINUTE)), Stay)
    assert isinstance(asked.decide(wave(HOUR, quiet=1, batch_finish=around(99 * HOUR))), Stay)


def test_wedged_only_with_a_margin():
    """Quiet alone is no reason: direct calls must be sooner by the policy's own margin."""
    asked = AdaptivePolicy("cost", wedge_after=HOUR, min_gain=HOUR)
    quiet = wave(2 * HOUR, batch_finish=replace(BY_SLA, high=2 * HOUR))

    assert isinstance(asked.decide(replace(quiet, sync_finish=around(HOUR))), Switch)
    assert isinstance(asked.decide(replace(quiet, sync_finish=around(HOUR + 1))), Stay)


def test_never_for_being_wedged():
    """`wedge_after=None` is not the same as leaving it out."""
    policy = AdaptivePolicy("balanced", wedge_after=None)

    assert isinstance(policy.decide(WEDGED), Stay)
    assert isinstance(policy.decide(replace(WEDGED, batch_finish=around(9 * HOUR))), Switch)


def test_never_for_speed():
    """`speedup=None` leaves the wedge as the only reason."""
    policy = AdaptivePolicy("latency", speedup=None)

    assert isinstance(policy.decide(wave(60, quiet=1, batch_finish=around(9 * HOUR))), Stay)
    assert isinstance(policy.decide(WEDGED), Switch)


def test_flapping_never_holds_for_three_ticks():
    """R19: a batch projection that jumps about the threshold never gets its confirmations."""
    policy = resolve_policy("balanced")
    held = longest = 0
    for minute in range(240):
        likely = 4 * HOUR if minute % 3 else HOUR
        verdict = policy.decide(wave(HOUR, quiet=MINUTE, batch_finish=around(likely)))
        held = held + 1 if isinstance(verdict, Switch) else 0
        longest = max(longest, held)

    assert 0 < longest < terms_of(policy).confirmations


def test_counts_inside_batches_do_not_matter():
    """R4: how many items were answered is no sign of trouble, nor of health."""
    assert verdicts(replace(WEDGED, answered=54_000)) == "balanced latency"
    assert verdicts(wave(9 * MINUTE, answered=0)) == ""


def test_reasons_name_both_projections_and_their_sources():
    """R23: the log line can be understood by itself."""
    assert resolve_policy("balanced").decide(WEDGED).reason == (
        "no sub-batch has ended for 11 h 00 min: batches at most 13 h 00 min (the SLA), "
        "direct calls 43 min (measured in this run)"
    )
    unknown = resolve_policy("balanced").decide(wave(HOUR, sync_finish=UNKNOWN_PROJECTION))
    assert "unknown" in unknown.reason


# -- the start --------------------------------------------------------------------------------


def at_start(items: int, **changes) -> WaveSnapshot:
    """Return the question of the route for so many items."""
    return wave(waiting=items, total=items, moment="start", **changes)


@pytest.mark.parametrize(
    ("snapshot", "switches"),
    [
        pytest.param(at_start(SMALL_WAVE, sync_finish=UNKNOWN_PROJECTION), True, id="few items"),
        pytest.param(at_start(SMALL_WAVE + 1, sync_finish=UNKNOWN_PROJECTION), False, id="more"),
        pytest.param(at_start(5_000, sync_finish=around(SMALL_SPAN)), True, id="quick"),
        pytest.param(at_start(5_000, sync_finish=around(SMALL_SPAN + 1)), False, id="not quick"),
        pytest.param(
            at_start(5, batch_finish=around(4 * MINUTE), sync_finish=around(3)), False,
            id="batches are quick too",
        ),
        pytest.param(
            at_start(5, batch_finish=around(40 * MINUTE), sync_finish=around(3)), True,
            id="batches are not quick",
        ),
        pytest.param(at_start(5, in_flight=1_000), False, id="batches live already"),
    ],
)  # fmt: skip
def test_latency_sends_small_waves_directly(snapshot, switches):
    """R24: only `latency` chooses direct calls at the start, and only for a small wave."""
    assert verdicts(snapshot) == ("latency" if switches else "")


def test_forced_routes():
    """R24: `batch` never switches; `sync` does at the start, and once."""
    assert isinstance(BatchOnly().decide(WEDGED), Stay)
    assert SyncOnly().decide(at_start(54_600)) == Switch("the policy is to use direct calls only")
    assert isinstance(SyncOnly().decide(WEDGED), Switch)
    assert isinstance(SyncOnly().decide(replace(WEDGED, switched=True, share=1.0)), Stay)
    assert isinstance(SyncOnly().decide(at_start(0)), Stay)
    assert terms_of(SyncOnly()).confirmations == 1


# -- quiet ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("snapshot", "quiet"),
    [
        pytest.param(WEDGED, 11 * HOUR, id="since the oldest was made"),
        pytest.param(wave(5 * HOUR, 4 * HOUR, quiet=2 * HOUR), 2 * HOUR, id="since one ended"),
        pytest.param(wave(HOUR, quiet=9 * HOUR), HOUR, id="since the oldest of a later round"),
        pytest.param(wave(ALARM_WINDOW), ALARM_WINDOW, id="at the window"),
        pytest.param(wave(ALARM_WINDOW - 1), None, id="below the window"),
        pytest.param(wave(9 * HOUR, quiet=60.0), None, id="one ended lately"),
        pytest.param(wave(quiet=9 * HOUR), None, id="none alive"),
        pytest.param(
            wave(batches=(live(9 * HOUR, state="canceling"), live(60.0))), None,
            id="the old one is being canceled",
        ),
        pytest.param(wave(batches=(live(9 * HOUR, state="ended"),)), None, id="it has ended"),
    ],
)  # fmt: skip
def test_looks_wedged(snapshot, quiet):
    """A wave is quiet while sub-batches live and none ends, whatever their counts."""
    assert looks_wedged(snapshot, ALARM_WINDOW) == quiet


# -- values -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "wedge_after", "speedup", "min_gain"),
    [
        ("cost", None, None, 1_800.0),
        ("balanced", 1_800.0, 3.0, 1_800.0),
        ("latency", 600.0, 1.5, 300.0),
    ],
)
def test_defaults_of_the_preferences(name, wedge_after, speedup, min_gain):
    """The names stand for the numbers of the design; every one can be turned."""
    policy = resolve_policy(name)

    assert policy == AdaptivePolicy(name)
    assert (policy.wedge_after, policy.speedup, policy.min_gain) == (wedge_after, speedup, min_gain)
    assert terms_of(policy) == PolicyTerms(
        confirmations=3, drain="progressive", race=False, cancel_timeout=600.0
    )
    assert replace(policy, confirmations=5) == AdaptivePolicy(name, confirmations=5)


def test_policies_are_frozen():
    """A policy does not change once it is made, and can be a key."""
    policy = AdaptivePolicy("cost")

    with pytest.raises(FrozenInstanceError):
        policy.min_gain = 1.0
    assert len({policy, AdaptivePolicy("cost"), Deadline(60.0), Deadline(60.0)}) == 2


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"preference": "cheap"}, 'preference must be "cost", "balanced" or "latency"'),
        ({"wedge_after": 0}, "wedge_after must be a number above 0 (seconds) or None, not 0"),
        ({"wedge_after": "1h"}, "wedge_after must be a number above 0 (seconds) or None"),
        ({"speedup": 0.5}, "speedup must be a number of at least 1 (times) or None, not 0.5"),
        ({"min_gain": -1}, "min_gain must be a number of at least 0 (seconds), not -1"),
        ({"min_gain": None}, "min_gain must be a number of at least 0 (seconds), not None"),
        ({"confirmations": 0}, "confirmations must be a whole number of at least 1, not 0"),
        ({"confirmations": True}, "confirmations must be a whole number of at least 1"),
        ({"drain": "slow"}, 'drain must be "progressive" or "all"'),
        ({"race": 1}, "race must be True or False, not 1"),
        ({"cancel_timeout": float("inf")}, "cancel_timeout must be a number above 0 (seconds)"),
    ],
)
def test_values_are_checked(options, message):
    """A wrong value is refused by the option's name and what it takes."""
    with pytest.raises(ConfigurationError) as caught:
        AdaptivePolicy(**{"preference": "balanced", **options})
    assert str(caught.value).startswith(message)


@pytest.mark.parametrize(
    ("by", "safety", "message"),
    [
        (datetime(2026, 11, 30), 1.3, "by must say its time zone"),
        (0, 1.3, "by must be a number above 0 (seconds, or an aware datetime)"),
        ("tomorrow", 1.3, "by must be a number above 0 (seconds, or an aware datetime)"),
        (60, 0.9, "safety must be a number of at least 1 (times)"),
    ],
)
def test_deadlines_are_checked(by, safety, message):
    """A naive time, a time gone by and a safety that is none are refused."""
    with pytest.raises(ConfigurationError) as caught:
        Deadline(by, safety=safety)
    assert str(caught.value).startswith(message)


def test_resolve_policy():
    """All five names, and any object with a sound `decide`."""

    class Own:
        confirmations = 7

        def decide(self, snapshot):
            return Stay("always")

    own = Own()

    assert {name: type(resolve_policy(name)) for name in (*ADAPTIVE, "batch", "sync")} == {
        **dict.fromkeys(ADAPTIVE, AdaptivePolicy),
        "batch": BatchOnly,
        "sync": SyncOnly,
    }
    assert resolve_policy(own) is own
    assert isinstance(own, DispatchPolicy)
    assert terms_of(own) == PolicyTerms(confirmations=7)
    for wrong in ("fast", Own, object()):
        with pytest.raises(ConfigurationError):
            resolve_policy(wrong)


def test_unsound_terms_are_refused():
    """A third-party policy with terms that cannot be carried out is refused up front."""

    class Own:
        drain = "never"

        def decide(self, snapshot):
            return Stay("always")

    with pytest.raises(ConfigurationError, match="drain"):
        resolve_policy(Own())


@pytest.mark.parametrize("share", [0, -0.1, 1.01, float("nan")])
def test_shares(share):
    """A switch moves something, and at most everything."""
    with pytest.raises(ConfigurationError):
        Switch("why", share)


def test_spans_are_said_as_people_say_them():
    """Seconds, minutes, hours."""
    assert [say_span(s) for s in (0, 89, 90, 43 * 60, 89 * 60, 3 * HOUR + 300, 13 * HOUR)] == [
        "0 s", "89 s", "2 min", "43 min", "89 min", "3 h 05 min", "13 h 00 min",
    ]  # fmt: skip


# -- deadlines: snapshots ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("deadline", "snapshot", "share"),
    [
        pytest.param(Deadline(30 * HOUR), WEDGED, None, id="the SLA is in time"),
        pytest.param(Deadline(20 * HOUR), WEDGED, None, id="time enough to wait"),
        pytest.param(Deadline(12 * HOUR), WEDGED, 1.0, id="the last moment"),
        pytest.param(Deadline(12.2 * HOUR, safety=1.0), WEDGED, None, id="a braver one waits"),
        pytest.param(Deadline(NOW + timedelta(hours=1)), WEDGED, 1.0, id="by the clock"),
        pytest.param(Deadline(11 * HOUR), WEDGED, 1.0, id="too late for everything"),
        pytest.param(
            Deadline(11.1 * HOUR), replace(WEDGED, batch_finish=around(20 * MINUTE)), None,
            id="too late, batches are sooner",
        ),
        pytest.param(
            Deadline(20 * HOUR), replace(WEDGED, sync_finish=UNKNOWN_PROJECTION), 1.0,
            id="sync unknown, half of the time gone",
        ),
        pytest.param(
            Deadline(23 * HOUR), replace(WEDGED, sync_finish=UNKNOWN_PROJECTION), None,
            id="sync unknown, half of the time left",
        ),
        pytest.param(
            Deadline(16 * HOUR),
            replace(
                WEDGED,
                batch_finish=Projection(
                    low=4 * HOUR, likely=5 * HOUR, high=10 * HOUR, source="a rate", steady=True
                ),
                sync_finish=around(4 * HOUR),
            ),
            0.65,
            id="half is carried by then, the safety on it",
        ),
        pytest.param(Deadline(HOUR), at_start(54_600), 1.0, id="direct from the start"),
        pytest.param(
            Deadline(HOUR), at_start(54_600, sync_finish=around(3 * HOUR)), None,
            id="too short for direct calls alone",
        ),
        pytest.param(
            Deadline(12 * HOUR), replace(WEDGED, switched=True, share=1.0), None, id="switched"
        ),
        pytest.param(
            Deadline(12 * HOUR), replace(WEDGED, switched=True, share=0.5), 1.0,
            id="the share does not do",
        ),
        pytest.param(
            Deadline(12 * HOUR),
            replace(WEDGED, switched=True, share=0.5, batch_finish=around(50 * MINUTE)), None,
            id="the share does",
        ),
        pytest.param(Deadline(1.0), replace(WEDGED, in_flight=0), None, id="nothing remains"),
    ],
)  # fmt: skip
def test_deadline_snapshots(deadline, snapshot, share):
    """It waits as long as it may, then moves as little as does."""
    verdict = deadline.decide(snapshot)

    assert (verdict.share if isinstance(verdict, Switch) else None) == pytest.approx(share)


def test_too_late_is_said():
    """What cannot be done any more is not promised."""
    assert "too late" in Deadline(11 * HOUR).decide(WEDGED).reason


# -- deadlines: played to their end -----------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Played:
    """How a wave ended: after how many seconds, at which multiple of the batch price."""

    took: float
    price: float


def play(
    policy: DispatchPolicy,
    ends: list[float],
    *,
    per_minute: float,
    store: tuple[float, ...] = (),
    queue: int | None = None,
    tick: float = 60.0,
) -> Played:
    """
    Play a wave of sub-batches of 1,000 items that end at the ages *ends*.

    Direct calls carry *per_minute* items, three ticks after a switch, from the last sub-batch on.
    With *queue* only so many sub-batches are alive at once, each ending at its age.
    """
    left = dict.fromkeys(range(len(ends)), 1_000.0)
    born: dict[int, float] = {}
    ended: dict[int, float] = {}
    share = by_sync = quota = now = 0.0
    pool_at = float("inf")
    while left and now < 100 * HOUR:
        for n in [n for n in left if n in born and born[n] + ends[n] <= now]:
            ended[n] = now
            del left[n]
        if now >= pool_at:
            budget = min(per_minute * tick / 60.0, quota)
            for n in sorted(left, reverse=True):
                taken = min(budget, left[n])
                budget, quota, by_sync = budget - taken, quota - taken, by_sync + taken
                left[n] -= taken
                if left[n] <= 0:
                    del left[n]
        verdict = policy.decide(_look(now, left, born, ended, ends, share, per_minute, store, tick))
        if isinstance(verdict, Switch) and verdict.share > share:
            share = verdict.share
            quota = share * sum(left.values())
            pool_at = min(pool_at, now + 3 * tick if now else now)
        if pool_at > 0:  # else the whole wave goes directly from the start
            for n in sorted(set(left) - set(born)):
                if queue is None or len(set(born) & set(left)) < queue:
                    born[n] = now
        now += tick
    total = 1_000.0 * len(ends)
    return Played(took=now - tick, price=(total + by_sync) / total)


def _look(now, left, born, ended, ends, share, per_minute, store, tick) -> WaveSnapshot:
    """Return what the policy is shown."""
    views = tuple(replace(live(now - born[n], n), count=round(left[n])) for n in left if n in born)
    waiting = round(sum(left[n] for n in left if n not in born))
    in_flight = sum(view.count for view in views)
    past = [Ended(age=at - born[n], ago=now - at, count=1_000) for n, at in ended.items()]
    return WaveSnapshot(
        now=NOW + timedelta(seconds=now),
        started_at=NOW,
        total=1_000 * len(ends),
        waiting=waiting,
        in_flight=in_flight,
        answered=0,
        batches=views,
        batch_finish=project_batch(views, waiting, wave=past, store=store),
        sync_finish=project_sync(waiting + in_flight, measured=per_minute),
        switched=share > 0,
        share=share,
        moment="tick" if now else "start",
        tick=tick,
        ended=len(ended),
        last_ended_at=NOW + timedelta(seconds=max(ended.values())) if ended else None,
    )


NEVER = 1e9
STAGGERED = [n * 12 * MINUTE for n in range(1, 41)]


@pytest.mark.parametrize(
    ("ends", "options", "by", "price"),
    [
        pytest.param(
            [40 * MINUTE + 30 * n for n in range(40)], {"per_minute": 1_000}, 6 * HOUR, (1.0, 1.0),
            id="fast: nothing is bought",
        ),
        pytest.param(
            [5 * HOUR] * 40, {"per_minute": 1_000}, 6 * HOUR, (1.0, 1.0),
            id="all at once, just before the last moment",
        ),
        pytest.param(
            STAGGERED, {"per_minute": 1_000}, 9 * HOUR, (1.0, 1.0), id="slow, still in time"
        ),
        pytest.param(
            STAGGERED, {"per_minute": 130}, 5 * HOUR, (1.375, 1.9), id="slow: a share is bought"
        ),
        pytest.param(
            STAGGERED, {"per_minute": 1_000}, 5 * HOUR, (1.375, 1.5), id="slow, direct calls quick"
        ),
        pytest.param(
            [40 * MINUTE] * 20 + [NEVER] * 20, {"per_minute": 500}, 10 * HOUR, (1.5, 1.5),
            id="half of it wedged",
        ),
        pytest.param([NEVER] * 40, {"per_minute": 1_000}, 6 * HOUR, (2.0, 2.0), id="wedged"),
        pytest.param(
            [NEVER] * 40, {"per_minute": 1_000, "store": (HOUR,) * 50}, 6 * HOUR, (2.0, 2.0),
            id="wedged, though it never was before",
        ),
        pytest.param(
            [HOUR + 60 * n for n in range(40)], {"per_minute": 40}, 5 * HOUR, (1.0, 1.2),
            id="sync limited: batches do most of it",
        ),
        pytest.param(
            [HOUR] * 40, {"per_minute": 1_000, "queue": 4}, 12 * HOUR, (1.0, 1.0),
            id="a short queue, in time",
        ),
        pytest.param(
            [HOUR] * 40, {"per_minute": 1_000, "queue": 4}, 6 * HOUR, (1.4, 1.6),
            id="a short queue, a share is bought",
        ),
        pytest.param(
            [HOUR] * 40, {"per_minute": 1_000}, 50 * MINUTE, (2.0, 2.0), id="direct at once"
        ),
    ],
)  # fmt: skip
def test_deadlines_are_met_at_little_more_than_the_best_price(ends, options, by, price):
    """In time whenever that is possible; the first price is the best possible, the other paid."""
    best, most = price
    played = play(Deadline(by), ends, **options)

    assert played.took <= by
    assert best - 0.01 <= played.price <= most


def test_an_impossible_deadline_does_what_can_be_done():
    """Neither path can make it: both are used, and the wave ends as soon as it can."""
    played = play(Deadline(HOUR), [NEVER] * 40, per_minute=200)

    assert HOUR < played.took < 3.6 * HOUR


# -- properties -------------------------------------------------------------------------------

SPANS = st.floats(0, 1e6) | st.none()


@st.composite
def snapshots(draw):
    """Draw any wave, sensible or not."""
    ages = draw(st.lists(st.floats(-10, 1e5), max_size=5))
    finishes = [
        Projection(low=0.0, likely=draw(SPANS), high=draw(SPANS), source="drawn", steady=steady)
        for steady in (draw(st.booleans()), True)
    ]
    return wave(
        *ages,
        quiet=draw(SPANS),
        waiting=draw(st.integers(0, 1_000)),
        moment=draw(st.sampled_from(["start", "tick"])),
        batch_finish=finishes[0],
        sync_finish=finishes[1],
        switched=draw(st.booleans()),
        share=draw(st.sampled_from([0.0, 0.3, 1.0])),
    )


@given(snapshots(), st.floats(1, 1e6), st.floats(1, 3))
def test_every_wave_gets_a_sound_verdict(snapshot, by, safety):
    """No wave makes a policy raise; after a whole switch, and when all is done, all stay."""
    for policy in (*map(resolve_policy, (*ADAPTIVE, "sync")), Deadline(by, safety=safety)):
        verdict = policy.decide(snapshot)
        assert verdict.reason
        if not snapshot.remaining or (snapshot.switched and snapshot.share == 1.0):
            assert isinstance(verdict, Stay)


@given(snapshots())
def test_the_more_hurried_preference_switches_whenever_the_calmer_does(snapshot):
    """`latency` switches wherever `balanced` does, and `balanced` wherever `cost` does."""
    assert verdicts(snapshot) in {"", "latency", "balanced latency"}
