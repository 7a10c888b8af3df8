"""
Real processes on one run in a real PostgreSQL server, over real HTTP: some of them are killed, the
others take over, and the server's own books say whether anything was lost or paid twice.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from tests.support import assert_conserved, assert_own_answers, items, runner_on, sent
from tests.workers.child import CONCURRENCY

from batchwright._sync import GROUP
from batchwright.simulator import Simulator, WorldSettings

CHILD = Path(__file__).with_name("child.py")
#: Direct calls of one process whose answers may not be stored yet: under way, and just come.
PER_PROCESS = 2 * CONCURRENCY + GROUP


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """
    What is played.

    Attributes:
        items: Items of the run.
        shard: Most requests in one sub-batch.
        workers: Processes that begin.
        kills: How many of them are killed.
        policy: `batch`, or `sync` for direct calls alone.
        speed: World seconds in a real one.
        seed: Of all chance.
    """

    items: int
    shard: int
    workers: int = 4
    kills: int = 2
    policy: str = "batch"
    speed: float = 300.0
    seed: int = 0


@dataclass(slots=True)
class Child:
    """One worker process, and what it has told so far."""

    process: subprocess.Popen[str]
    told: list[str] = field(default_factory=list)
    settled: int = 0


@dataclass(slots=True)
class Played:
    """What came of it."""

    killed: list[str] = field(default_factory=list)
    told: dict[str, int] = field(default_factory=dict)


async def play(plan: Plan, store: str) -> Played:
    """Load a run into *store*, let several processes work on it, kill some, and look at the end."""
    settings = WorldSettings(duration=(200, 1_500), error_rate=0.02, expire_rate=0.01)
    asked = items(plan.items)
    with Simulator(seed=plan.seed, speed=plan.speed, settings=settings) as sim:
        async with runner_on(sim, store) as runner:
            await runner.load(asked)
        played = await _work_and_kill(plan, sim, store)
        await _check(plan, sim, store, asked)
    return played


async def _work_and_kill(plan: Plan, sim: Simulator, store: str) -> Played:
    chance, played = random.Random(plan.seed), Played()
    with _children(plan, sim, store) as children:
        readers = [asyncio.create_task(_listen(child)) for child in children]
        for turn in range(plan.kills):
            # After so much of the work, each time, one of those that live.
            await _until_settled(children, (turn + 1) / (plan.kills + 2) * plan.items)
            living = [child for child in children if child.process.poll() is None]
            victim = chance.choice(living)
            victim.process.send_signal(signal.SIGKILL)
            played.killed.append(victim.told[-1])
        await asyncio.gather(*readers)
    for child in children:
        for line in child.told:
            played.told[line] = played.told.get(line, 0) + 1
    ends = sorted(child.process.returncode for child in children)
    assert ends == [-signal.SIGKILL] * plan.kills + [0] * (plan.workers - plan.kills), ends
    return played


@contextlib.contextmanager
def _children(plan: Plan, sim: Simulator, store: str) -> Iterator[list[Child]]:
    argv = [sys.executable, str(CHILD), sim.url, sim.api_key, store, plan.policy, str(plan.shard)]
    made = [
        Child(subprocess.Popen(argv, stdout=subprocess.PIPE, text=True))
        for _ in range(plan.workers)
    ]
    try:
        yield made
    finally:
        for child in made:
            child.process.kill()
            child.process.communicate()


async def _listen(child: Child) -> None:
    """Take in what a process tells until it ends."""
    stdout = child.process.stdout
    assert stdout is not None
    while line := await asyncio.to_thread(stdout.readline):
        name, _, count = line.partition(" ")
        child.told.append(name.strip())
        child.settled += int(count or 0)
    await asyncio.to_thread(child.process.wait)


async def _until_settled(children: list[Child], items: float) -> None:
    """Return once about so many items were settled by all together."""
    while sum(child.settled for child in children) < items:
        assert any(child.process.poll() is None for child in children), "all ended too soon"
        await asyncio.sleep(0.02)


async def _check(
    plan: Plan, sim: Simulator, store: str, asked: list[tuple[str, dict[str, object]]]
) -> None:
    """Balance the store's books with the server's."""
    books = sim.world.books()
    async with runner_on(sim, store) as runner:
        status = await runner.status()
        assert (status.progress.waiting, status.progress.in_flight) == (0, 0), status.progress
        result = await runner.resume()
    assert_conserved(result, plan.items)
    assert books.billed_twice == {}, f"paid twice: {books.billed_twice}"
    assert {o.reason for o in result.unresolved} <= {"exhausted"}, result
    lost = [o.id for o in result.outcomes if o.custom_id in books.billed and not o.raw]
    assert lost == [], f"paid answers lost: {lost}"
    answered = [item for item in asked if result[item[0]].status == "succeeded"]
    assert_own_answers(result, answered, plan.seed)
    if plan.policy == "batch":
        wire = sent(sim)
        for outcome in result.outcomes:
            assert wire[outcome.custom_id] == outcome.attempts, outcome.id
    else:
        # What a killed process had asked and not yet stored is asked again, and nothing else is.
        read = [call.params for call in sim.messages if call.params is not None]
        texts = Counter(params["messages"][0]["content"] for params in read)
        assert texts.total() - plan.items <= plan.kills * PER_PROCESS
