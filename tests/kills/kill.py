"""
Real processes, real SIGKILL, real databases, real sockets: kill a run at random moments, again and
again, then finish it and read the server's own books.
"""

from __future__ import annotations

import asyncio
import random
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from tests.support import assert_conserved, assert_own_answers, items, runner_on, sent

from batchwright import ShardLimits
from batchwright.simulator import Simulator, WorldSettings

CHILD = Path(__file__).parents[1] / "runs" / "child.py"
ITEMS = 300
SHARD = 40
#: Kills of one run before it may finish.
KILLS_PER_RUN = 4
#: World seconds per real second. A machine that stalls for a second must not put a create outside
#: its time limit of fifteen minutes. A batch takes some tenths of a real second.
SPEED = 600
#: Longest real time from the start of a wave to the kill, seconds.
WITHIN = 0.5


@dataclass
class Tally:
    """What happened over all runs."""

    kills: int = 0
    runs: int = 0
    #: Last event that a killed process told, and how often it was that.
    at: dict[str, int] = field(default_factory=dict)


def kill_once(sim: Simulator, store: str | Path, chance: random.Random, tally: Tally) -> bool:
    """Start a process, kill it at a random moment of its wave; `False` if it was done before."""
    argv = [sys.executable, str(CHILD), sim.url, sim.api_key, str(store), str(ITEMS), str(SHARD)]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        for line in child.stdout:
            if line.strip() == "RunStarted":
                break
        time.sleep(chance.random() * WITHIN)
        child.send_signal(signal.SIGKILL)
        told = child.stdout.read().split()
    last = told[-1] if told else "RunStarted"
    if child.returncode != -signal.SIGKILL or last.endswith(">"):
        # It had told its result: a kill on the way out of the interpreter proves nothing.
        return False
    tally.kills += 1
    tally.at[last] = tally.at.get(last, 0) + 1
    return True


def check_integrity(store: Path) -> None:
    """The file a killed process left behind is sound."""
    with sqlite3.connect(store) as db:
        assert db.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    db.close()


async def one_run(
    store: str | Path, seed: int, tally: Tally, check: Callable[[], None] | None = None
) -> None:
    """
    Kill a run several times, finish it, and balance its books with the server's.

    *check* looks at what each killed process left behind; without one *store* is a SQLite file.
    """
    chance = random.Random(seed)
    settings = WorldSettings(duration=(40, 300), error_rate=0.03, expire_rate=0.02)
    asked = items(ITEMS)
    with Simulator(seed=seed, speed=SPEED, settings=settings) as sim:
        for _ in range(KILLS_PER_RUN):
            if not await asyncio.to_thread(kill_once, sim, store, chance, tally):
                break
            await asyncio.to_thread(check or (lambda: check_integrity(Path(store))))
        async with runner_on(sim, store, limits=ShardLimits(max_requests=SHARD)) as runner:
            result = await runner.run(asked)
        books = sim.world.books()
        wire = sent(sim)
    tally.runs += 1
    assert_conserved(result, ITEMS)
    assert books.billed_twice == {}, f"seed {seed}: paid twice: {books.billed_twice}"
    lost = [o.id for o in result.outcomes if o.custom_id in books.billed and not o.raw]
    assert lost == [], f"seed {seed}: paid answers lost: {lost}"
    assert {o.reason for o in result.unresolved} <= {"exhausted"}, f"seed {seed}: {result}"
    answered = [item for item in asked if result[item[0]].status == "succeeded"]
    assert_own_answers(result, answered, seed)
    for outcome in result.outcomes:
        assert wire[outcome.custom_id] == outcome.attempts, f"seed {seed}: {outcome.id}"
