"""
When to move the remainder of a wave from the batch path to the sync path.

A policy is pure: it is shown a frozen snapshot and says its verdict of the moment. The engine
counts consecutive verdicts and acts at most once per wave. All spans of time are seconds.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import Enum
from typing import ClassVar, Final, Literal, Protocol, TypeAlias, runtime_checkable

from batchwright._terms import Drain, check_number, refuse, terms_of
from batchwright.errors import ConfigurationError

#: How long no sub-batch may have ended before the alarm `WaveLooksWedged` is raised, seconds.
ALARM_WINDOW: Final = 1_800.0
#: A wave of at most so many items is small: direct calls carry it within minutes on any account.
SMALL_WAVE: Final = 100
#: A wave that direct calls are projected to carry within this many seconds is small as well.
SMALL_SPAN: Final = 300.0


@dataclass(frozen=True, slots=True)
class Stay:
    """Leave everything on its path."""

    reason: str


@dataclass(frozen=True, slots=True)
class Switch:
    """Move *share* (0 to 1) of the remainder to the sync path."""

    reason: str
    share: float = 1.0

    def __post_init__(self) -> None:
        if not 0 < self.share <= 1:
            raise ConfigurationError(
                f"the share of a Switch is above 0 and at most 1, not {self.share!r}"
            )


Verdict: TypeAlias = Stay | Switch


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchView:
    """One live batch as a policy sees it; ages in seconds on the server's clock."""

    shard: int
    org: str
    count: int
    state: str
    age: float
    expires_in: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Projection:
    """
    When a path is projected to finish the remainder, in seconds from now.

    Attributes:
        low: The hopeful end of the range; `None` where nothing is known.
        likely: The best guess; `None` where nothing but a bound is known.
        high: The cautious end of the range; `None` where nothing is known.
        source: What it rests on.
        steady: Whether the work ends evenly over that time (half of it at half time), rather than
            all at once.
    """

    low: float | None
    likely: float | None
    high: float | None
    source: str
    steady: bool = False

    def __str__(self) -> str:
        if self.likely is not None:
            return f"{say_span(self.likely)} ({self.source})"
        if self.high is not None:
            return f"at most {say_span(self.high)} ({self.source})"
        return f"unknown ({self.source})"


UNKNOWN_PROJECTION = Projection(low=None, likely=None, high=None, source="nothing known")


@dataclass(frozen=True, slots=True, kw_only=True)
class WaveSnapshot:
    """
    All that a decision may rest on, frozen.

    Attributes:
        now: Server-corrected time.
        started_at: When the wave began; server-corrected too.
        total: Items of the run.
        waiting: Items that wait to be sent.
        in_flight: Items inside live batches.
        answered: Items with an outcome.
        batches: The live batches.
        ended: Sub-batches of this wave that have ended.
        last_ended_at: When the last of them did, by the server's `ended_at`.
        batch_finish: Projected finish of the batch path.
        sync_finish: Projected finish of the sync path.
        premium: Estimated extra cost of a switch, USD; `None` where unknown.
        premium_ratio: Cost of the run with the switch over its cost without; `None` if unknown.
        switched: Whether this wave has switched already.
        share: Share of the remainder that was given to the sync path by it.
        moment: `start` for the question of the route, `tick` afterwards.
        tick: Seconds between two questions.
        facts: Further values, for policies of one's own.
    """

    now: datetime
    started_at: datetime
    total: int
    waiting: int
    in_flight: int
    answered: int
    batches: tuple[BatchView, ...] = ()
    ended: int = 0
    last_ended_at: datetime | None = None
    batch_finish: Projection = UNKNOWN_PROJECTION
    sync_finish: Projection = UNKNOWN_PROJECTION
    premium: float | None = None
    premium_ratio: float | None = None
    switched: bool = False
    share: float = 0.0
    moment: Literal["start", "tick"] = "tick"
    tick: float = 60.0
    facts: Mapping[str, object] = field(default_factory=dict)

    @property
    def remaining(self) -> int:
        """Items of the wave without an outcome."""
        return self.waiting + self.in_flight


@runtime_checkable
class DispatchPolicy(Protocol):
    """
    Decides, from a snapshot alone, whether the remainder should change its path.

    A policy may also have the attributes of `PolicyTerms`: how its verdict is carried out.
    """

    def decide(self, snapshot: WaveSnapshot) -> Verdict:
        """Return the verdict of the moment; pure, quick, and without side effects."""


# -- what a snapshot shows --------------------------------------------------------------------


def looks_wedged(snapshot: WaveSnapshot, window: float) -> float | None:
    """
    Return for how many seconds the wave has been quiet, `None` where that is below *window*.

    Quiet means that no sub-batch has ended while some were alive all that time. What goes on
    inside a batch is not looked at: counts stay at zero until it ends.
    """
    ages = [b.age for b in snapshot.batches if b.state not in {"canceling", "ended"}]
    quiet = max(ages, default=0.0)
    if snapshot.last_ended_at is not None:
        quiet = min(quiet, (snapshot.now - snapshot.last_ended_at).total_seconds())
    return quiet if ages and quiet >= window else None


def say_span(seconds: float) -> str:
    """Return *seconds* as people say it: `45 s`, `12 min`, `3 h 05 min`."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 90 else f"{minutes // 60} h {minutes % 60:02d} min"


def compare(snapshot: WaveSnapshot) -> str:
    """Return both projections as they stand in a reason."""
    return f"batches {snapshot.batch_finish}, direct calls {snapshot.sync_finish}"


def settled_by(snapshot: WaveSnapshot) -> Stay | None:
    """Return the answer where there is nothing to decide any more."""
    if not snapshot.remaining:
        return Stay("nothing remains")
    if snapshot.switched and snapshot.share in {0.0, 1.0}:
        return Stay("this wave has switched already")
    return None


# -- the policies -----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class BatchOnly:
    """The policy `"batch"`: never switch."""

    def decide(self, snapshot: WaveSnapshot) -> Verdict:  # noqa: ARG002 - the port's signature
        """Stay, whatever happens."""
        return Stay("the policy is to use batches only")


@dataclass(frozen=True, slots=True)
class SyncOnly:
    """The policy `"sync"`: everything by direct call, from the start."""

    #: A forced route waits for nothing.
    confirmations: ClassVar[int] = 1

    def decide(self, snapshot: WaveSnapshot) -> Verdict:
        """Switch, once."""
        return settled_by(snapshot) or Switch("the policy is to use direct calls only")


Preference: TypeAlias = Literal["cost", "balanced", "latency"]


class _NotGiven(Enum):
    """The default of options for which `None` has a meaning of its own."""

    NOT_GIVEN = "not given"


NOT_GIVEN: Final = _NotGiven.NOT_GIVEN


@dataclass(frozen=True, slots=True, kw_only=True)
class _Numbers:
    wedge_after: float | None
    speedup: float | None
    min_gain: float


_DEFAULTS: Final[Mapping[str, _Numbers]] = {
    "cost": _Numbers(wedge_after=None, speedup=None, min_gain=1_800.0),
    "balanced": _Numbers(wedge_after=1_800.0, speedup=3.0, min_gain=1_800.0),
    "latency": _Numbers(wedge_after=600.0, speedup=1.5, min_gain=300.0),
}


@dataclass(frozen=True, slots=True, init=False)
class AdaptivePolicy:
    """
    The policies `"cost"`, `"balanced"` and `"latency"`, with every number turnable.

    It switches when the batch path is projected to take *speedup* times as long as direct calls
    and *min_gain* longer, or when the wave is wedged: no sub-batch has ended for *wedge_after*
    while some are older, and direct calls are still projected to be sooner by that margin. Where
    only the SLA is known of the batches it is no guess, just a bound: it counts once the wave is
    wedged, not before.

    Attributes:
        preference: Whose defaults hold for what is not given.
        wedge_after: Seconds without an ended sub-batch; `None`: never for being wedged.
        speedup: How many times sooner direct calls must be; `None`: never for speed alone.
        min_gain: Seconds by which they must be sooner.
        confirmations: See `PolicyTerms`, as for the others below.
    """

    preference: Preference
    wedge_after: float | None
    speedup: float | None
    min_gain: float
    confirmations: int
    drain: Drain
    race: bool
    cancel_timeout: float

    def __init__(
        self,
        preference: Preference,
        *,
        wedge_after: float | _NotGiven | None = NOT_GIVEN,
        speedup: float | _NotGiven | None = NOT_GIVEN,
        min_gain: float | _NotGiven = NOT_GIVEN,
        confirmations: int = 3,
        drain: Drain = "progressive",
        race: bool = False,
        cancel_timeout: float = 600.0,
    ) -> None:
        if preference not in _DEFAULTS:
            refuse("preference", '"cost", "balanced" or "latency"', preference)
        default = _DEFAULTS[preference]
        values = {
            "preference": preference,
            "wedge_after": default.wedge_after if wedge_after is NOT_GIVEN else wedge_after,
            "speedup": default.speedup if speedup is NOT_GIVEN else speedup,
            "min_gain": default.min_gain if min_gain is NOT_GIVEN else min_gain,
            "confirmations": confirmations,
            "drain": drain,
            "race": race,
            "cancel_timeout": cancel_timeout,
        }
        for name, value in values.items():
            object.__setattr__(self, name, value)
        self._check()

    def _check(self) -> None:
        if self.wedge_after is not None:
            check_number("wedge_after", self.wedge_after, unit="seconds", none=True)
        if self.speedup is not None:
            check_number("speedup", self.speedup, least=1.0, unit="times", none=True)
        check_number("min_gain", self.min_gain, least=0.0, unit="seconds")
        terms_of(self)

    def decide(self, snapshot: WaveSnapshot) -> Verdict:
        """Return the verdict of the moment."""
        settled = settled_by(snapshot)
        if settled is not None or snapshot.switched:
            return settled or Stay("this wave has switched already")
        if snapshot.moment == "start":
            return self._route(snapshot)
        if self.wedge_after is not None:
            quiet = looks_wedged(snapshot, self.wedge_after)
            if quiet is not None:
                return self._when_quiet(snapshot, quiet)
        return self._when_moving(snapshot)

    def _route(self, snapshot: WaveSnapshot) -> Verdict:
        sync = snapshot.sync_finish.likely
        if self.preference != "latency" or snapshot.in_flight:
            return Stay("a wave starts on the batch path under this policy")
        if snapshot.remaining > SMALL_WAVE and (sync is None or sync > SMALL_SPAN):
            return Stay("not a small wave: it starts on the batch path")
        if None not in (sync, snapshot.batch_finish.likely) and not self._sooner(snapshot):
            return Stay(f"a small wave, but its batches are quick too: {compare(snapshot)}")
        return Switch(f"a small wave of {snapshot.remaining} items goes by direct calls at once")

    def _when_quiet(self, snapshot: WaveSnapshot, quiet: float) -> Verdict:
        head = f"no sub-batch has ended for {say_span(quiet)}"
        if snapshot.sync_finish.likely is None:
            return Stay(f"{head}, but how long direct calls would take is unknown")
        if self._sooner(snapshot):
            return Switch(f"{head}: {compare(snapshot)}")
        return Stay(f"{head}, but direct calls are not sooner by enough: {compare(snapshot)}")

    def _when_moving(self, snapshot: WaveSnapshot) -> Verdict:
        if self.speedup is None:
            return Stay("batches cost half; this policy does not switch for speed")
        if snapshot.sync_finish.likely is None:
            return Stay("how long direct calls would take is unknown")
        if snapshot.batch_finish.likely is None:
            return Stay(f"nothing tells yet how long the batches take: {compare(snapshot)}")
        if self._sooner(snapshot):
            return Switch(f"direct calls are sooner: {compare(snapshot)}")
        return Stay(f"direct calls are not sooner by enough: {compare(snapshot)}")

    def _sooner(self, snapshot: WaveSnapshot) -> bool:
        """Tell whether direct calls are projected to be sooner by the policy's margin."""
        batch, sync = snapshot.batch_finish.likely, snapshot.sync_finish.likely
        batch = snapshot.batch_finish.high if batch is None else batch
        if batch is None or sync is None:
            return False
        factor = 1.0 if self.speedup is None else self.speedup
        return batch > sync and batch >= factor * sync and batch - sync >= self.min_gain


# -- names ------------------------------------------------------------------------------------

#: Policies by the names that `policy=` takes.
NAMED: Final[Mapping[str, DispatchPolicy]] = {
    "cost": AdaptivePolicy("cost"),
    "balanced": AdaptivePolicy("balanced"),
    "latency": AdaptivePolicy("latency"),
    "batch": BatchOnly(),
    "sync": SyncOnly(),
}


def resolve_policy(policy: str | DispatchPolicy) -> DispatchPolicy:
    """
    Return the policy meant.

    Raises:
        ConfigurationError: No such name, an object without `decide`, or one whose terms make no
            sense.
    """
    if isinstance(policy, str):
        if policy not in NAMED:
            known = ", ".join(sorted(NAMED))
            raise ConfigurationError(
                f"policy={policy!r} is not known; it is one of {known}, or a DispatchPolicy"
            )
        return NAMED[policy]
    if isinstance(policy, type) or not callable(getattr(policy, "decide", None)):
        raise ConfigurationError(
            f"policy must be a name or have a method decide(snapshot), not {policy!r}"
        )
    terms_of(policy)
    return policy
