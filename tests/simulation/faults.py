"""
The catalogue of faults, and which of them one run has.

Swarm: each run draws which kinds exist in it at all, and each kind then strikes by its own stream
of chance, so that a new draw in one does not move the others.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

#: Kind -> how often it strikes where it could, by the operation it belongs to.
CATALOGUE: dict[str, dict[str, float]] = {
    "create": {
        "refuse_429": 0.25,
        "refuse_529": 0.2,
        "refuse_hours": 0.06,
        "lost_create": 0.25,
        "lost_before": 0.2,
        "late_create": 0.15,
        "hang_create": 0.12,
        "error_500_after": 0.2,
        "error_500_before": 0.15,
        "garbled_create": 0.15,
        "edge_429": 0.12,
        "refused_connect": 0.25,
        "slow_commit": 0.3,
    },
    "retrieve": {
        "get_404": 0.15,
        "get_500": 0.15,
        "get_429": 0.1,
        "get_lost": 0.1,
        "get_garbled": 0.1,
        "stale_get": 0.15,
    },
    "list": {"list_500": 0.3, "list_lost": 0.2, "list_misses_newest": 0.3},
    "results": {
        "cut_results": 0.3,
        "cut_mid_line": 0.3,
        "results_doubled": 0.3,
        "results_unknown_id": 0.3,
        "results_short": 0.2,
        "results_empty": 0.15,
        "results_500": 0.25,
        "results_404": 0.15,
    },
    "cancel": {"cancel_500": 0.5, "cancel_lost": 0.8},
    "store": {"store_busy": 0.01, "store_slow": 0.06},
}

#: Kinds of direct calls: drawn apart, since only runs with a switch have such calls.
DIRECT: dict[str, float] = {
    "direct_429": 0.12,
    "direct_529": 0.08,
    "direct_500": 0.1,
    "direct_garbled": 0.05,
    "direct_lost": 0.1,
    "direct_lost_before": 0.1,
}

#: Kinds of whole accounts: drawn apart, since they are of interest where there are several.
ACCOUNT: dict[str, dict[str, float]] = {
    "create": {"account_create": 0.08},
    "retrieve": {"account_get": 0.05},
}

#: Kinds that hold for a whole run: the world is built with them.
LASTING = (
    "bad_item",
    "too_large",
    "small_pages",
    "foreign_batches",
    "never_ends",
    "stuck_batch",
    "late_expiry",
    "at_once",
    "mixed_lines",
    "bad_lines",
    "skewed_clock",
    "wall_jumps",
    "laptop_sleep",
    "canceled_elsewhere",
    "user_cancel",
    "rival",
)

_RATES = {
    name: {**ACCOUNT.get(name, {}), **rates}
    for name, rates in {**CATALOGUE, "message": DIRECT}.items()
}
_APART = (*DIRECT, *(kind for kinds in ACCOUNT.values() for kind in kinds))

KINDS: tuple[str, ...] = (*(k for kinds in CATALOGUE.values() for k in kinds), *LASTING)


def swarm(seed: int, share: float = 0.22) -> frozenset[str]:
    """Return the kinds that exist in the run of *seed*."""
    chance = random.Random(f"swarm {seed}")
    return frozenset(kind for kind in KINDS if chance.random() < share)


@dataclass
class FaultPlan:
    """Which faults a run has, when they strike, and how often they did."""

    seed: int
    kinds: frozenset[str]
    on: bool = True
    fired: Counter[str] = field(default_factory=Counter)
    _streams: dict[str, random.Random] = field(default_factory=dict)

    def stream(self, name: str) -> random.Random:
        """Return the stream of chance of one component."""
        found = self._streams.get(name)
        if found is None:
            found = self._streams[name] = random.Random(f"{self.seed} {name}")
        return found

    def draw(self, operation: str) -> str | None:
        """Return the fault that strikes this operation now, if one does."""
        if not self.on:
            return None
        for kind, rate in _RATES.get(operation, {}).items():
            if kind in self.kinds and self.stream(kind).random() < rate:
                self.fired[kind] += 1
                return kind
        return None

    def has(self, kind: str) -> bool:
        """Tell whether a lasting kind holds now."""
        return self.on and kind in self.kinds

    def strike(self, kind: str) -> None:
        """Count a lasting kind as having really happened."""
        self.fired[kind] += 1


def parse(text: str) -> frozenset[str]:
    """
    Read the kinds that a command line names.

    Raises:
        ValueError: One of them is not in the catalogue.
    """
    names = frozenset(name for name in text.split(",") if name)
    if unknown := names - {*KINDS, *_APART}:
        raise ValueError(f"unknown faults: {', '.join(sorted(unknown))}")
    return names


def show(kinds: Iterable[str]) -> str:
    """Write kinds as a command line takes them."""
    return ",".join(kind for kind in (*KINDS, *_APART) if kind in set(kinds))
