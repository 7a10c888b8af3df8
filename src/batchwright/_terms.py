"""
How the verdict of a policy is carried out, and how the values of policies are checked.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, NoReturn, TypeAlias, get_args

from batchwright.errors import ConfigurationError

Drain: TypeAlias = Literal["progressive", "all"]


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyTerms:
    """
    How a verdict is carried out.

    Attributes:
        confirmations: Consecutive ticks on which the verdict must hold before it acts.
        drain: `progressive` gives sub-batches up one after another, just ahead of the sync pool;
            `all` cancels them at once.
        race: Whether items may go by direct call while their batch has not ended: faster where
            cancels hang, and some answers are paid for twice.
        cancel_timeout: Seconds a canceled batch has to end; after them it keeps its items.
    """

    confirmations: int = 3
    drain: Drain = "progressive"
    race: bool = False
    cancel_timeout: float = 600.0

    def __post_init__(self) -> None:
        count: object = self.confirmations
        if not isinstance(count, int) or isinstance(count, bool) or count < 1:
            refuse("confirmations", "a whole number of at least 1", count)
        if self.drain not in get_args(Drain):
            refuse("drain", '"progressive" or "all"', self.drain)
        race: object = self.race
        if not isinstance(race, bool):
            refuse("race", "True or False", race)
        check_number("cancel_timeout", self.cancel_timeout, unit="seconds")


def terms_of(policy: object) -> PolicyTerms:
    """
    Return how the verdicts of a `DispatchPolicy` are carried out.

    What it does not say is the default: the protocol asks for `decide` only.

    Raises:
        ConfigurationError: One of its attributes has no sensible value.
    """
    default = PolicyTerms()
    return PolicyTerms(
        confirmations=getattr(policy, "confirmations", default.confirmations),
        drain=getattr(policy, "drain", default.drain),
        race=getattr(policy, "race", default.race),
        cancel_timeout=getattr(policy, "cancel_timeout", default.cancel_timeout),
    )


def refuse(name: str, takes: str, value: object) -> NoReturn:
    """Raise the `ConfigurationError` that names the option and what it takes."""
    raise ConfigurationError(f"{name} must be {takes}, not {value!r}")


def check_number(
    name: str,
    value: object,
    *,
    unit: str,
    least: float | None = None,
    above: float = 0.0,
    none: bool = False,
) -> None:
    """Refuse *value* unless it is a finite number, above *above* or of at least *least*."""
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if number and math.isfinite(value):  # type: ignore[arg-type]
        fits = value > above if least is None else value >= least  # type: ignore[operator]
        if fits:
            return
    bound = f"above {above:g}" if least is None else f"of at least {least:g}"
    refuse(name, f"a number {bound} ({unit}){' or None' if none else ''}", value)
