"""
Play one simulated run again and show it, or search for one that breaks a promise.

    python -m tests.simulation --seed 12 --crash 17,41 --faults lost_create,cut_results
    python -m tests.simulation --minutes 20
    python -m tests.simulation --full
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence

from tests.simulation import faults
from tests.simulation.checkers import is_vacuous, violations
from tests.simulation.full import full, search
from tests.simulation.levels import play_at
from tests.simulation.payment import doubles
from tests.simulation.shrink import shrink
from tests.simulation.world import ACTS, Scenario


def main(arguments: Sequence[str] | None = None) -> int:
    """Return 0 when no promise was broken, 1 otherwise."""
    options = _parser().parse_args(arguments)
    if options.full:
        return full(options.jobs)
    if options.minutes is not None or options.seeds is not None:
        return search(_scenario(options), options.minutes, options.seeds, options.jobs)
    scenario = _scenario(options)
    if options.shrink:
        scenario = shrink(scenario, play_at)
    return _show(scenario, quiet=options.quiet)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.simulation", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    add = parser.add_argument
    add("--seed", type=int, default=0, help="of all chance")
    add("--crash", type=_numbers, default=(), help="numbers of the points to strike: 17,41")
    add("--act", choices=ACTS, default="kill", help="what happens there")
    add("--faults", type=faults.parse, default=None, help=f"kinds: {','.join(faults.KINDS)}")
    add("--level", type=int, choices=(1, 2), default=1, help="2: below the real SDK")
    add("--store", choices=("memory", "sqlite"), default="memory")
    add("--successor", choices=("host", "elsewhere"), default="host")
    add("--switch", choices=("", "progressive", "all"), default="", help="to direct calls")
    add("--share", type=float, default=1.0, help="of the remainder that moves in a switch")
    add("--orgs", type=int, default=1, help="accounts, at level 1")
    add("--workers", type=int, default=0, help="processes that work on the run together")
    add("--planted", default="", help="name of a planted bug")
    add("--quiet", action="store_true", help="only the verdict, no trace")
    add("--shrink", action="store_true", help="make a failing run as small as it can be, first")
    add("--minutes", type=float, help="search for so long, with swarms from --seed on")
    add("--seeds", type=_span, help="search these seeds: 0-500; with --faults: only those kinds")
    add("--full", action="store_true", help="the long sweep: singles, pairs, swarm")
    add("--jobs", type=int, default=2, help="processes of a search or a full sweep")
    return parser


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(sorted(int(number) for number in text.split(",") if number))


def _span(text: str) -> range:
    first, _, last = text.partition("-")
    return range(int(first), int(last or first) + 1)


def _scenario(options: argparse.Namespace) -> Scenario:
    return Scenario(
        seed=options.seed,
        crash=options.crash,
        act=options.act,
        faults=options.faults or frozenset(),
        level=options.level,
        store=options.store,
        planted=options.planted,
        successor=options.successor,
        switch=options.switch,
        workers=options.workers,
        share=options.share,
        orgs=options.orgs,
    )


def _show(scenario: Scenario, *, quiet: bool) -> int:
    began = time.perf_counter()
    played = play_at(scenario)
    if not quiet:
        print(played.world.history.text())
    print(f"\n{scenario.line()}")
    print(f"trace {played.world.history.digest()}, {played.world.points} points, ", end="")
    print(f"{time.perf_counter() - began:.2f} s")
    for number in played.world.struck:
        print(f"struck {number}: {played.world.names[number - 1]}")
    print("lives:", ", ".join(f"{e.life} {e.how}" for e in played.endings))
    for row in played.rows:
        outcome = row.outcome
        print(f"  {outcome.custom_id} {outcome.status} {outcome.reason or ''} {outcome.batch_id}")
    for double in doubles(played):
        print(f"billed twice: {double.custom_id} {double.first} {double.second}: {double.excuse}")
    if is_vacuous(played):
        print("VACUOUS: a planned crash never came")
    found = violations(played)
    for text in found:
        print(f"VIOLATION {text}")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
