"""
Playing one scenario: life after life on one world, until the run is complete or all is said.

First a phase with faults and crashes, then a calm one in which the library has to come to an end.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextvars import Context
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any
from unittest import mock

from tests.simulation.disk import Door, MemoryDisk, SQLiteDisk
from tests.simulation.gateway import SimGateway
from tests.simulation.life import Life
from tests.simulation.loop import BASE, DAY, STEPS, SimDeadlock, SimHorizon, VirtualLoop
from tests.simulation.switching import switch_options
from tests.simulation.world import Scenario, SimWorld

import batchwright
from batchwright import (
    BatchRunner,
    Item,
    Org,
    Polling,
    RetryBudget,
    RunResult,
    ShardLimits,
    _lease,
    _threads,
)
from batchwright._clock import use_clock
from batchwright.errors import BatchwrightError, RunLocked
from batchwright.report import RunReport, build_report, read_standing
from batchwright.store import Owner, Row

RUN = "job"
#: Lives with faults; then the calm begins.
WILD_LIVES = 7
#: Lives of the calm: the first may have to wait for an owner, or find an org parked.
CALM_LIVES = 4
#: Virtual seconds that no life may take, whatever happens to it.
LIFE_MOST = 4.5 * DAY
POLLING = Polling(interval=60.0, grace=600.0)
RETRY = RetryBudget()


@dataclass(slots=True)
class Ending:
    """How one life ended: `returned`, `killed`, `stopped`, `locked`, `store`, `odd`."""

    life: int
    how: str
    began: float
    ended: float
    calm: bool = False
    result: RunResult | None = None
    error: BaseException | None = None
    leftovers: Sequence[str] = ()
    complaints: Sequence[str] = ()


@dataclass(slots=True)
class Played:
    """One scenario after its end: all that the checkers look at."""

    world: SimWorld
    items: list[Item]
    endings: list[Ending] = field(default_factory=list)
    rows: list[Row] = field(default_factory=list)
    calm_from: float = 0.0
    #: Reports as another process would write them: where the wild lives left the run, and at last.
    reports: list[RunReport] = field(default_factory=list)

    @property
    def scenario(self) -> Scenario:
        """What was played."""
        return self.world.scenario

    @property
    def last(self) -> RunResult | None:
        """The result of the last life that returned one."""
        results = [e.result for e in self.endings if e.result is not None]
        return results[-1] if results else None


def items_of(seed: int) -> list[Item]:
    """Return the job of a seed: 6 to 11 small items."""
    count = 6 + seed % 6
    return [
        Item(
            f"item-{number}",
            {
                "model": "claude-haiku-4-5",
                "max_tokens": 16,
                "messages": [{"role": "user", "content": f"question {number} of {seed}"}],
            },
        )
        for number in range(count)
    ]


@dataclass(frozen=True, slots=True)
class SimClients:
    """Stands in for the clients of a runner: their gateways lead into the simulation."""

    made: dict[str, tuple[Org, SimGateway]]

    def gateways(self) -> dict[str, tuple[Org, SimGateway]]:
        """Return each org with its gateway."""
        return self.made

    async def aclose(self) -> None:
        """Nothing was opened."""


#: Makes the runner of one life; a level is one of these.
MakeRunner = Callable[[Life, Any], BatchRunner]


def options_of(world: SimWorld) -> dict[str, Any]:
    """Return the runner's options in this world."""
    seed = world.scenario.seed
    return {
        **switch_options(world.scenario),
        "limits": ShardLimits(max_requests=3 + seed % 3, concurrency=2 + seed % 3),
        "polling": POLLING,
        "retry": RETRY,
        "on_event": world.hear,
    }


def runner_below_gateway(life: Life, store: Any) -> BatchRunner:
    """Return a level-1 runner."""
    runner = BatchRunner(store=store, **options_of(life.world))
    labels = ["sim", *(f"sim-{n}" for n in range(2, life.world.scenario.orgs + 1))]
    if life.number % 2 == 0:
        # Their order means nothing, and may be another one after a restart.
        labels.reverse()
    made = {label: (Org(label, None), SimGateway(life, label)) for label in labels}
    runner._clients = SimClients(made)
    return runner


# -- the machine -------------------------------------------------------------------------------


class _Machine:
    """Which processes live, as the library's own look at its operating system shows them."""

    def __init__(self, world: SimWorld) -> None:
        self._world = world
        self.born: Life | None = None

    def myself(self) -> Owner:
        """Stand in for `_lease.myself`."""
        number = self._born().number
        same = self._world.scenario.successor == "host"
        token = batchwright._clock.clock().new_id()
        host = "sim" if same else f"sim-{number}"
        return Owner(host=host, boot="b", pid=number, started=str(number), instance=token)

    def _born(self) -> Life:
        """Return the process that asks; several may have been born together."""
        now = batchwright._clock.clock()
        asking = next((life for life in self._world.lives if life.clock is now), self.born)
        assert asking is not None
        return asking

    def is_dead(self, owner: Owner, here: Owner) -> bool:
        """Stand in for `_lease._is_dead`."""
        if owner.host != here.host or owner.boot != here.boot:
            return False
        return not any(life.number == owner.pid and life.alive for life in self._world.lives)


async def _inline(self: Any, work: Callable[[], Any]) -> Any:
    return work()


@contextlib.contextmanager
def machine_of(world: SimWorld) -> Iterator[_Machine]:
    """Put a simulated machine below the library."""
    machine = _Machine(world)
    logger = logging.getLogger("batchwright")
    with (
        mock.patch.object(logger, "level", logging.CRITICAL + 1),
        mock.patch.object(logger, "_cache", {}),
        mock.patch.object(_lease, "myself", machine.myself),
        mock.patch.object(_lease, "_is_dead", machine.is_dead),
        mock.patch.object(_threads.Worker, "call", _inline),
        mock.patch.object(_threads.Worker, "__init__", return_value=None),
        mock.patch.object(_threads.Worker, "stop"),
    ):
        yield machine


# -- lives -------------------------------------------------------------------------------------


class Player:
    """Plays one scenario."""

    #: How a process sees the disk.
    door: type[Door] = Door

    def __init__(self, scenario: Scenario, make_runner: MakeRunner = runner_below_gateway) -> None:
        self.world = SimWorld(scenario)
        self.world.disk = SQLiteDisk() if scenario.store == "sqlite" else MemoryDisk()
        self.world.start_rival = self._start_rival
        self._make = make_runner
        self._played = Played(self.world, items_of(scenario.seed))
        self._machine: _Machine | None = None
        self._calm = False
        self._rivals: list[asyncio.Task[Ending]] = []

    def play(self) -> Played:
        """Return what became of it."""
        with machine_of(self.world) as self._machine:
            try:
                self._on_loop(self.world.disk.start)
                self._wild()
                self._on_loop(self._report)
                self._become_calm()
                self._quiet()
                self._on_loop(self._report)
                self._on_loop(self._read_rows)
            finally:
                self._on_loop(self.world.disk.stop)
        return self._played

    def _wild(self) -> None:
        for _ in range(WILD_LIVES):
            ending = self._one_life()
            if ending.how == "returned" and self._is_finished(ending):
                return
            if ending.how in {"deadlock", "endless", "odd"}:
                return

    def _become_calm(self) -> None:
        self._calm = True
        self.world.faults.on = False
        self.world.server.calm()
        self._played.calm_from = self.world.time()
        self.world.history.note(self.world.time(), 0, "CALM")

    def _quiet(self) -> None:
        """Let it come to an end; a last call on a finished run must then change nothing."""
        if self._played.endings[-1].how in {"deadlock", "endless", "odd"}:
            return
        for _ in range(CALM_LIVES):
            ending = self._one_life()
            if ending.how == "returned" and self._is_finished(ending):
                return

    def _is_finished(self, ending: Ending) -> bool:
        assert ending.result is not None
        open_reasons = {"interrupted", "account", "missing", "unreadable"}
        return not any(o.reason in open_reasons for o in ending.result.unresolved)

    def _one_life(self) -> Ending:
        """Live once, and let the restart take a while."""
        world = self.world
        life = world.be_born()
        loop = VirtualLoop(
            world.scenario.seed * 1_000 + life.number,
            start=world.past,
            steps=STEPS * max(world.scenario.workers, 1),
            horizon=world.past + LIFE_MOST * (0.5 if world.server.quick else 1.0),
        )
        world.loop = loop
        began = loop.time()
        try:
            endings = loop.run_until_complete(self._main(life))
        except (SimDeadlock, SimHorizon) as error:
            how = "deadlock" if isinstance(error, SimDeadlock) else "endless"
            endings = [Ending(life.number, how, began, loop.time(), error=error)]
        leftovers = loop.drop_all()
        world.past = loop.time()
        world.loop = None
        self._close(loop)
        for ending in endings:
            ending.calm = self._calm
            if ending.how not in {"deadlock", "endless"}:
                ending.leftovers = [*ending.leftovers, *leftovers]
            ending.complaints = tuple(loop.complaints)
        self._played.endings += endings
        delay = world.faults.stream("restart").choice((0.0, 1.0, 30.0, 400.0))
        if world.scenario.successor != "host":
            delay += 20.0
        world.past += delay
        return self._told(endings)

    def _told(self, endings: list[Ending]) -> Ending:
        """Return the ending that counts of those of one loop."""
        return endings[0] if endings[0].how == "returned" else endings[-1]

    def _close(self, loop: VirtualLoop) -> None:
        if not asyncio.all_tasks(loop):
            loop.run_until_complete(loop.shutdown_asyncgens())
        loop.close()

    async def _main(self, life: Life) -> list[Ending]:
        """Run one process, whatever is done to it, and the rivals that it gets."""
        self._rivals = []
        task = self._spawn(life)
        self._join()
        timers = self._plan_mishaps(life) if not self._calm else []
        endings = [await task]
        while self._rivals:
            endings.append(await self._rivals.pop(0))
        for timer in timers:
            timer.cancel()
        if any(e.how == "killed" for e in endings):
            await self.world.disk.crash()
        left = asyncio.all_tasks() - {asyncio.current_task()}
        endings[0].leftovers = sorted(t.get_name() for t in left if t is not None)
        return endings

    def _join(self) -> None:
        """Let others begin together with the first; where a run is one's own there are none."""

    def _spawn(self, life: Life, wait: float = 0.0) -> asyncio.Task[Ending]:
        async def wait_and_live() -> Ending:
            if wait:
                await asyncio.sleep(wait)
            return await self._live(life)

        # A context of its own, as another process has: its clock is not the other's.
        return asyncio.get_running_loop().create_task(
            wait_and_live(), context=Context(), name=f"life {life.number}"
        )

    async def _live(self, life: Life) -> Ending:
        world = self.world
        began = world.time()
        assert self._machine is not None
        with use_clock(life.clock):
            self._machine.born = life
            store = self.door(life, world.disk)
            runner = self._make(life, store)
            work = asyncio.ensure_future(self._work(life, runner))
            life.task = work
            ending = await self._outcome(work, life, began)
        life.alive = False
        world.history.note(world.time(), life.number, f"ENDED {ending.how}")
        return ending

    async def _work(self, life: Life, runner: BatchRunner) -> RunResult | None:
        assert self._machine is not None
        self._machine.born = life
        return await runner.run(self._played.items, run_id=RUN)

    async def _outcome(
        self, work: asyncio.Future[RunResult | None], life: Life, began: float
    ) -> Ending:
        await asyncio.wait([work])
        ending = Ending(life.number, "odd", began, self.world.time())
        if work.cancelled():
            ending.how = "stopped"
            return ending
        error = work.exception()
        ending.error = error
        if not life.alive:
            ending.how = "killed"
        elif error is None:
            ending.how, ending.result = "returned", work.result()
        elif isinstance(error, RunLocked):
            ending.how = "locked"
        elif isinstance(error, BatchwrightError):
            ending.how = "store"
        return ending

    # -- mishaps of the machine and its user ---------------------------------------------------

    def _start_rival(self) -> None:
        """Start a second process on the same store, some seconds from now."""
        self._rivals.append(self._spawn(self.world.be_born(), 20.0))

    def _plan_mishaps(self, life: Life) -> list[asyncio.TimerHandle]:
        faults, loop = self.world.faults, asyncio.get_running_loop()
        chance = faults.stream("mishaps")
        mishaps: dict[str, Callable[[], None]] = {
            "wall_jumps": lambda: self._jump_wall(life, chance.choice((-3_600.0, 3_600.0))),
            "laptop_sleep": lambda: loop.shift(28_800.0),  # type: ignore[attr-defined]
            "user_cancel": lambda: life.stop("any moment"),
            "rival": self._start_rival,
        }
        timers = []
        for kind, strike in mishaps.items():
            if faults.has(kind) and chance.random() < 0.6:
                timers.append(loop.call_later(chance.uniform(0.0, 250.0), self._hit, kind, strike))
        return timers

    def _hit(self, kind: str, strike: Callable[[], None]) -> None:
        self.world.faults.strike(kind)
        self.world.history.note(self.world.time(), 0, f"FAULT {kind}")
        strike()

    def _jump_wall(self, life: Life, seconds: float) -> None:
        life.clock.skew += seconds

    # -- afterwards ----------------------------------------------------------------------------

    async def _report(self) -> None:
        store = self.world.disk.store
        if await store.read_run(RUN) is None:
            return
        standing = await read_standing(store, RUN)
        now = BASE + timedelta(seconds=self.world.past)
        asked = BatchRunner(store=store, retry=RETRY)._options.asked({}, ())
        self._played.reports.append(build_report(standing, now=now, asked=asked))

    async def _read_rows(self) -> None:
        self._played.rows = list(await self.world.disk.store.read_rows(RUN, -1, 1_000))

    def _on_loop(self, work: Callable[[], Awaitable[None]]) -> None:
        loop = VirtualLoop(start=self.world.past)
        try:
            loop.run_until_complete(work())  # type: ignore[arg-type]
        finally:
            loop.close()


def play(scenario: Scenario) -> Played:
    """Play *scenario*."""
    return Player(scenario, runner_below_gateway).play()
