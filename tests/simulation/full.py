"""
The long sweep, and the search without an end; both over several processes.
"""

from __future__ import annotations

import itertools
import multiprocessing
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import Any

from tests.simulation.faults import KINDS
from tests.simulation.levels import play_at
from tests.simulation.sweep import Tally, crew_scenario, pairs, run_all, singles, swarm_scenario
from tests.simulation.world import ACTS, Scenario

#: Scenarios that one process plays at a time.
PORTION = 20


def _portion(scenarios: list[Scenario]) -> Tally:
    return run_all(scenarios, play_one=play_at)


def _portions(scenarios: Iterable[Scenario]) -> Iterator[list[Scenario]]:
    turn = iter(scenarios)
    while portion := list(itertools.islice(turn, PORTION)):
        yield portion


def sweep(name: str, scenarios: Iterable[Scenario], jobs: int, until: float | None = None) -> Tally:
    """Play *scenarios* on several processes; print failures as they come, and the sum."""
    total = Tally()
    began = time.perf_counter()
    with multiprocessing.get_context("fork").Pool(jobs) as pool:
        for tally in pool.imap(_portion, _bounded(_portions(scenarios), began, until)):
            for failure in tally.failures:
                print(failure, flush=True)
            total += tally
            if until is not None and time.perf_counter() - began > until:
                break
    total.seconds = time.perf_counter() - began
    print(f"-- {name}\n{total.report()}", flush=True)
    return total


def _bounded(
    portions: Iterator[list[Scenario]], began: float, until: float | None
) -> Iterator[list[Scenario]]:
    for portion in portions:
        if until is not None and time.perf_counter() - began > until:
            return
        yield portion


def full(jobs: int) -> int:
    """Play the numbers that the promise rests on; return 0 where all of it holds."""
    parts: dict[str, Callable[[], Iterable[Scenario]]] = {
        "singles of 20 seeds, killed": lambda: _singles(range(20), ("kill",)),
        "singles of 4 seeds, all other acts": lambda: _singles(range(4), ACTS[1:]),
        "singles of 2 seeds on SQLite": lambda: _singles(range(2), ("kill",), store="sqlite"),
        "singles of 2 seeds, succeeded elsewhere": lambda: _singles(
            range(2), ("kill",), successor="elsewhere"
        ),
        "pairs of seed 0": lambda: pairs(Scenario(seed=0)),
        "switches of 4 seeds, all at once": lambda: _singles(
            range(4), ("kill", "pause"), switch="all"
        ),
        "switches of 4 seeds, progressive": lambda: _singles(
            range(4), ("kill", "pause"), switch="progressive"
        ),
        "singles of 2 seeds over two orgs": lambda: _singles(range(2), ("kill",), orgs=2),
        "swarm over two orgs": lambda: (
            replace(swarm_scenario(seed), orgs=2) for seed in range(300)
        ),
        "two workers, singles of 4 seeds": lambda: _singles(range(4), ("kill", "pause"), workers=2),
        "two workers, succeeded elsewhere": lambda: _singles(
            range(2), ACTS, workers=2, successor="elsewhere"
        ),
        "two workers, pairs of seed 0": lambda: pairs(Scenario(seed=0, workers=2), step=4),
        "two workers, switches of 4 seeds": lambda: _singles(
            range(4), ("kill", "pause"), workers=2, switch="progressive"
        ),
        "swarm of workers": lambda: map(crew_scenario, range(1_000)),
        "swarm": lambda: map(swarm_scenario, range(2_000)),
        "level 2": lambda: level_two(300),
    }
    total = Tally()
    for name, make in parts.items():
        total += sweep(name, make(), jobs)
    print(f"== all\n{total.report()}")
    silent = [kind for kind in KINDS if not total.fired[kind]]
    if silent:
        print(f"VACUOUS: these kinds of faults never fired: {', '.join(silent)}")
    return 1 if total.failures or silent else 0


def _singles(seeds: Iterable[int], acts: Iterable[str], **more: Any) -> Iterator[Scenario]:
    for seed in seeds:
        yield from singles(replace(Scenario(seed=seed), **more), acts)


def level_two(count: int) -> Iterator[Scenario]:
    """Yield swarm runs below the real SDK."""
    return (replace(swarm_scenario(seed), level=2, store="memory") for seed in range(count))


def search(base: Scenario, minutes: float | None, seeds: range | None, jobs: int) -> int:
    """Search seeds for a broken promise; return 0 where none is found."""
    wanted: Iterable[int] = seeds if seeds is not None else itertools.count(base.seed)
    chosen = (_like(base, seed) for seed in wanted)
    until = None if minutes is None else minutes * 60.0
    total = sweep("search", chosen, jobs, until)
    sys.stdout.flush()
    return 1 if total.failures else 0


def _like(base: Scenario, seed: int) -> Scenario:
    """Return the swarm run of a seed, with what the command line fixed."""
    scenario = replace(swarm_scenario(seed), level=base.level, planted=base.planted)
    if base.workers:
        scenario = replace(crew_scenario(seed), workers=base.workers, planted=base.planted)
    return replace(scenario, faults=base.faults) if base.faults else scenario
