"""
When to move the remainder of a wave from the batch path to the sync path.

A policy is pure: it is shown a frozen snapshot and says its verdict of the moment. The engine
counts consecutive verdicts and acts at most once per wave.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal, Protocol, TypeAlias, runtime_checkable

from batchwright.errors import ConfigurationError


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

    `source` says what it rests on; `likely` is `None` where nothing is known.
    """

    low: float | None
    likely: float | None
    high: float | None
    source: str


UNKNOWN_PROJECTION = Projection(low=None, likely=None, high=None, source="nothing known")


@dataclass(frozen=True, slots=True, kw_only=True)
class WaveSnapshot:
    """
    All that a decision may rest on, frozen.

    Attributes:
        now: Server-corrected time.
        started_at: When the wave began.
        total: Items of the run.
        waiting: Items that wait to be sent.
        in_flight: Items inside live batches.
        answered: Items with an outcome.
        batches: The live batches.
        ended: Sub-batches of this wave that have ended.
        last_ended_at: When the last of them did.
        batch_finish: Projected finish of the batch path.
        sync_finish: Projected finish of the sync path.
        premium: Estimated extra cost of a switch, USD; `None` where unknown.
        switched: Whether this wave has switched already.
        moment: `start` for the question of the route, `tick` afterwards.
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
    switched: bool = False
    moment: Literal["start", "tick"] = "tick"
    facts: Mapping[str, object] = field(default_factory=dict)


@runtime_checkable
class DispatchPolicy(Protocol):
    """Decides, from a snapshot alone, whether the remainder should change its path."""

    def decide(self, snapshot: WaveSnapshot) -> Verdict:
        """Return the verdict of the moment; pure, quick, and without side effects."""


@dataclass(frozen=True, slots=True)
class BatchOnly:
    """The policy `"batch"`: never switch."""

    def decide(self, snapshot: WaveSnapshot) -> Verdict:  # noqa: ARG002 - the port's signature
        """Stay, whatever happens."""
        return Stay("the policy is to use batches only")


@dataclass(frozen=True, slots=True)
class CostFirst:
    """The policy `"cost"`: never switches by itself."""

    def decide(self, snapshot: WaveSnapshot) -> Verdict:  # noqa: ARG002 - the port's signature
        """Stay: batches cost half."""
        return Stay("batches cost half; this policy never switches by itself")


#: Policies by the names that `policy=` takes in this version.
NAMED: Mapping[str, DispatchPolicy] = {"cost": CostFirst(), "batch": BatchOnly()}
#: Names that are reserved for the sync path.
LATER = frozenset({"balanced", "latency", "sync"})


def resolve_policy(policy: str | DispatchPolicy) -> DispatchPolicy:
    """
    Return the policy meant.

    Raises:
        ConfigurationError: No such name, or an object without `decide`.
    """
    if isinstance(policy, str):
        if policy in LATER:
            raise ConfigurationError(
                f"policy={policy!r} needs the sync path, which this version does not have yet; "
                'use policy="cost" (the default) or "batch"'
            )
        if policy not in NAMED:
            known = ", ".join(sorted({*NAMED, *LATER}))
            raise ConfigurationError(
                f"policy={policy!r} is not known; it is one of {known}, or a DispatchPolicy"
            )
        return NAMED[policy]
    if not callable(getattr(policy, "decide", None)):
        raise ConfigurationError(
            f"policy must be a name or have a method decide(snapshot), not {policy!r}"
        )
    return policy
