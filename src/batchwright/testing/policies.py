"""
What a `DispatchPolicy` must do to be one: run it against your own.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Final, TypeAlias

from batchwright._clock import thread_clock
from batchwright._terms import terms_of
from batchwright.policy import (
    UNKNOWN_PROJECTION,
    BatchView,
    DispatchPolicy,
    Projection,
    Stay,
    Switch,
    Verdict,
    WaveSnapshot,
)

#: Longest time for one verdict, seconds: the event loop waits for it.
QUICK: Final = 0.05

_NOW: Final = datetime(2026, 11, 29, 12, tzinfo=UTC)
_HOUR: Final = 3_600.0


def _wave(*ages: float, **changes: object) -> WaveSnapshot:
    """Return the snapshot of a wave with live batches of these ages, changed as said."""
    base = WaveSnapshot(
        now=_NOW,
        started_at=_NOW - timedelta(seconds=max(ages, default=0.0)),
        total=8_000 * len(ages),
        waiting=0,
        in_flight=8_000 * len(ages),
        answered=0,
        batches=tuple(_batch(number, age) for number, age in enumerate(ages, 1)),
        batch_finish=Projection(low=0.0, likely=None, high=13 * _HOUR, source="the SLA"),
        sync_finish=Projection(low=2e3, likely=2.6e3, high=4e3, source="measured in this run"),
    )
    return replace(base, **changes)  # type: ignore[arg-type]


def _batch(number: int, age: float) -> BatchView:
    left = 24 * _HOUR - age
    return BatchView(
        shard=number, org="main", count=8_000, state="in_progress", age=age, expires_in=left
    )


_LIVE: Final = _wave(*[11 * _HOUR] * 7)

#: Waves that every policy must be able to look at, by name.
SNAPSHOTS: Final[dict[str, WaveSnapshot]] = {
    "start": _wave(waiting=54_600, total=54_600, moment="start", sync_finish=UNKNOWN_PROJECTION),
    "small start": _wave(waiting=12, total=12, moment="start"),
    "empty": _wave(),
    "wedged": _LIVE,
    "wedged, sync unknown": replace(_LIVE, sync_finish=UNKNOWN_PROJECTION),
    "nothing known": replace(
        _LIVE, batch_finish=UNKNOWN_PROJECTION, sync_finish=UNKNOWN_PROJECTION
    ),
    "no expiry known": replace(
        _LIVE, batches=tuple(replace(batch, expires_in=None) for batch in _LIVE.batches)
    ),
    "moving": _wave(
        60.0, 1_200.0, answered=40_000, total=56_000, ended=5, last_ended_at=_NOW, premium=41.5
    ),
    "overdue": _wave(25 * _HOUR, 24 * _HOUR),
    "young by a skewed clock": _wave(-3.0),
    "switched": replace(_LIVE, switched=True, share=1.0),
    "a share switched": replace(_LIVE, switched=True, share=0.25),
    "done": _wave(total=9, answered=9, ended=1, last_ended_at=_NOW),
}

PolicyCheck: TypeAlias = Callable[[DispatchPolicy], None]


def check_returns_a_verdict(policy: DispatchPolicy) -> None:
    """Every snapshot gets a `Stay` or a `Switch` with a reason; nothing raises."""
    for name, snapshot in _fresh():
        verdict = _decide(policy, name, snapshot)
        assert verdict.reason.strip(), f"the verdict on {name!r} says no reason"
        if isinstance(verdict, Switch):
            assert 0 < verdict.share <= 1, f"the share on {name!r} is {verdict.share!r}"


def check_is_pure(policy: DispatchPolicy) -> None:
    """The same snapshot gets the same verdict, whatever was asked in between."""
    first = {name: _decide(policy, name, snapshot) for name, snapshot in _fresh()}
    for name, snapshot in reversed(_fresh()):
        again = _decide(policy, name, snapshot)
        assert again == first[name], f"asked again, {name!r} gets {again!r}, not {first[name]!r}"


def check_keeps_its_state(policy: DispatchPolicy) -> None:
    """Deciding changes no attribute of the policy and nothing of the snapshot."""
    for name, snapshot in _fresh():
        before = _state(policy), repr(snapshot)
        _decide(policy, name, snapshot)
        assert _state(policy) == before[0], f"deciding on {name!r} changed the policy"
        assert repr(snapshot) == before[1], f"deciding on {name!r} changed the snapshot"


def check_is_quick(policy: DispatchPolicy) -> None:
    """A verdict takes at most `QUICK` seconds."""
    for name, snapshot in _fresh():
        # The best of a few: a machine may be busy, a policy is slow every time.
        took = min(_seconds(policy, name, snapshot) for _ in range(3))
        assert took <= QUICK, f"the verdict on {name!r} took {took:.3f} s, more than {QUICK} s"


def check_leaves_what_is_done(policy: DispatchPolicy) -> None:
    """Where nothing remains, and after a whole switch, it may say anything but a share below 1."""
    for name in ("empty", "done", "switched"):
        verdict = _decide(policy, name, SNAPSHOTS[name])
        share = verdict.share if isinstance(verdict, Switch) else 1.0
        assert share == 1.0, f"a switch cannot shrink, but {name!r} gets a share of {share!r}"


def check_has_sound_terms(policy: DispatchPolicy) -> None:
    """Its confirmations, drain, race and cancel_timeout, where it has them, can be carried out."""
    terms_of(policy)


#: Every check of `DispatchPolicy`: the docstring is the promise, a failed assertion names it.
POLICY_CHECKS: Final[tuple[PolicyCheck, ...]] = (
    check_returns_a_verdict,
    check_is_pure,
    check_keeps_its_state,
    check_is_quick,
    check_leaves_what_is_done,
    check_has_sound_terms,
)


def check_dispatch_policy(policy: DispatchPolicy) -> None:
    """
    Run every check against *policy*.

    Raises:
        AssertionError: A promise of the port is broken; the message names it.
        ConfigurationError: Its terms make no sense.
    """
    for check in POLICY_CHECKS:
        check(policy)


def _fresh() -> list[tuple[str, WaveSnapshot]]:
    """Return the snapshots so that nothing a policy writes into one is met again."""
    return [(name, replace(snapshot, facts={})) for name, snapshot in SNAPSHOTS.items()]


def _decide(policy: DispatchPolicy, name: str, snapshot: WaveSnapshot) -> Verdict:
    try:
        verdict: object = policy.decide(snapshot)
    except Exception as error:
        raise AssertionError(f"deciding on {name!r} raised {error!r}") from error
    if inspect.iscoroutine(verdict):
        verdict.close()
        raise AssertionError("decide is a plain method: a verdict is not awaited")
    assert isinstance(verdict, Stay | Switch), (
        f"the verdict on {name!r} is {verdict!r}, neither a Stay nor a Switch"
    )
    return verdict


def _seconds(policy: DispatchPolicy, name: str, snapshot: WaveSnapshot) -> float:
    begun = thread_clock()
    _decide(policy, name, snapshot)
    return thread_clock() - begun


def _state(policy: DispatchPolicy) -> dict[str, str]:
    """Return the values of all attributes, those in slots too, as text."""
    slots = (getattr(kind, "__slots__", ()) for kind in type(policy).__mro__)
    names = {name for some in slots for name in ([some] if isinstance(some, str) else some)}
    names |= set(getattr(policy, "__dict__", {}))
    return {name: repr(getattr(policy, name, None)) for name in sorted(names)}
