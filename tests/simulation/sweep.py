"""
Sweeps: every single point, every pair, swarms; and what they add up to.
"""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Self

from tests.simulation.checkers import is_vacuous, violations
from tests.simulation.faults import DIRECT, swarm
from tests.simulation.payment import doubles
from tests.simulation.play import Played, play
from tests.simulation.world import ACTS, Scenario

Play = Callable[[Scenario], Played]
#: A run longer than this has gone astray; its points are not swept.
MOST_POINTS = 2_000


@dataclass(slots=True)
class Failure:
    """One scenario that broke a promise."""

    scenario: Scenario
    texts: list[str]

    def __str__(self) -> str:
        return "\n    ".join([self.scenario.line(), *self.texts[:6]])


@dataclass
class Tally:
    """What a sweep came to."""

    runs: int = 0
    crashes: int = 0
    vacuous: int = 0
    seconds: float = 0.0
    fired: Counter[str] = field(default_factory=Counter)
    endings: Counter[str] = field(default_factory=Counter)
    statuses: Counter[str] = field(default_factory=Counter)
    excused: Counter[str] = field(default_factory=Counter)
    events: Counter[str] = field(default_factory=Counter)
    points: Counter[str] = field(default_factory=Counter)
    failures: list[Failure] = field(default_factory=list)

    def add(self, played: Played) -> Failure | None:
        """Check one run and take it in."""
        self.runs += 1
        world = played.world
        self.crashes += len(world.struck)
        self.vacuous += is_vacuous(played)
        self.fired += world.faults.fired
        self.endings.update(e.how for e in played.endings)
        self.events.update(world.events)
        self.points.update(world.names[n - 1] for n in world.struck)
        for row in played.rows:
            self.statuses[row.outcome.reason or row.outcome.status] += 1
        self.excused.update(d.excuse for d in doubles(played) if d.excuse)
        found = violations(played)
        if not found:
            return None
        failure = Failure(played.scenario, found)
        self.failures.append(failure)
        return failure

    def __iadd__(self, other: Tally) -> Self:
        for name in ("runs", "crashes", "vacuous", "seconds"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        for name in ("fired", "endings", "statuses", "excused", "events", "points"):
            getattr(self, name).update(getattr(other, name))
        self.failures += other.failures
        return self

    def report(self) -> str:
        """Return the numbers, for people."""
        rate = self.runs / self.seconds if self.seconds else 0.0
        head = (
            f"{self.runs} runs in {self.seconds:.1f} s ({rate:.0f} a second), "
            f"{self.crashes} planned crashes struck, {self.vacuous} runs vacuous, "
            f"{len(self.failures)} failures"
        )
        lines = [
            head,
            f"endings  {_counts(self.endings)}",
            f"items    {_counts(self.statuses)}",
            f"faults   {_counts(self.fired)}",
            f"excused  {_counts(self.excused) or 'nothing'}",
        ]
        return "\n".join(lines)


def _counts(counter: Counter[str]) -> str:
    return ", ".join(f"{name} {count}" for name, count in counter.most_common())


def run_all(
    scenarios: Iterable[Scenario],
    *,
    play_one: Play = play,
    until: float | None = None,
    stop_after: int | None = None,
) -> Tally:
    """
    Play and check *scenarios*.

    Args:
        scenarios: What to play.
        play_one: How.
        until: Process time in seconds after which no more is begun.
        stop_after: Failures after which no more is begun.
    """
    tally = Tally()
    began = time.perf_counter()
    for scenario in scenarios:
        tally.add(play_one(scenario))
        if stop_after is not None and len(tally.failures) >= stop_after:
            break
        if until is not None and time.perf_counter() - began > until:
            break
    tally.seconds = time.perf_counter() - began
    return tally


def points_of(scenario: Scenario, play_one: Play = play) -> int:
    """Return how many points the run of *scenario* passes."""
    return min(play_one(scenario).world.points, MOST_POINTS)


def singles(
    base: Scenario, acts: Iterable[str] = ("kill",), play_one: Play = play
) -> Iterator[Scenario]:
    """Yield *base* with each single point struck, by each of *acts*."""
    for number in range(1, points_of(base, play_one) + 1):
        for act in acts:
            yield replace(base, crash=(number,), act=act)


def pairs(base: Scenario, play_one: Play = play, step: int = 1) -> Iterator[Scenario]:
    """Yield *base* with each pair of points struck: the second one during the recovery."""
    turn = 0
    for first in range(1, points_of(base, play_one) + 1):
        after = points_of(replace(base, crash=(first,)), play_one)
        for second in range(first + 1, after + 1):
            turn += 1
            if turn % step == 0:
                yield replace(base, crash=(first, second))


def swarm_scenario(seed: int) -> Scenario:
    """Return the run of a swarm's seed: some kinds of faults, some crashes, one kind of store."""
    chance = random.Random(f"scenario {seed}")
    crash = tuple(
        sorted(chance.randrange(1, 220) for _ in range(chance.choice((0, 0, 1, 1, 2, 3))))
    )
    return Scenario(
        seed=seed,
        crash=crash,
        act=chance.choice(ACTS) if chance.random() < 0.5 else "kill",
        faults=swarm(seed),
        store="sqlite" if chance.random() < 0.1 else "memory",
        successor=chance.choice(("host", "elsewhere")),
    )


def crew_scenario(seed: int) -> Scenario:
    """Return a swarm's run by several processes, which now and then switches to direct calls."""
    plain = replace(swarm_scenario(seed), store="memory", workers=2 + seed % 2)
    if seed % 3:
        return plain
    drain = ("progressive", "all")[seed % 2]
    return replace(plain, faults=plain.faults | DIRECT.keys(), switch=drain)


def swarms(seeds: Iterable[int]) -> Iterator[Scenario]:
    """Yield one swarm run for each seed."""
    return (swarm_scenario(seed) for seed in seeds)
