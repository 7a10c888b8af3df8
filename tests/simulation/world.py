"""
What outlives every crash: the server, the disk, chance, the plan of faults, and the history.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from tests.simulation.faults import FaultPlan, show
from tests.simulation.history import History
from tests.simulation.life import Life
from tests.simulation.loop import VirtualLoop
from tests.simulation.server import SimServer

#: What may happen at a point of the plan.
ACTS = ("kill", "cancel", "error", "outage", "pause")
#: Beats of the lease's heart that count as points, for each life; the others are all alike.
BEATS = 1
#: What workers do all the time, and changes nothing: no points.
LOOKS = frozenset(
    f"store.{name} before"
    for name in ("read_run", "read_open", "read_workers", "read_lease", "read_groups", "put_note")
)
#: Events of the library that stand in the trace.
TOLD = frozenset(
    {"CreateSettled", "ShardHeld", "DeadlineExceeded", "OrgPaused", "ShardFailed", "WorkerLost"}
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """
    Everything that decides one simulated run.

    Attributes:
        seed: Of all chance.
        crash: Numbers of the points, counted over all lives, at which *act* happens.
        act: `kill`, `cancel` (the main task), `error` (the call fails once), `outage` (from then on
            each call of this life fails), `pause`.
        faults: Kinds that exist in this run.
        level: 1: below the gateway port. 2: below the real SDK.
        store: `memory` or `sqlite`.
        planted: Name of a planted bug.
        successor: `host`: the dead owner can be seen to be dead; `elsewhere`: it cannot.
        switch: `progressive` or `all`: the wave moves to direct calls, drained so; empty: never.
        share: Of the remainder that moves in a switch.
        orgs: Accounts, each a workspace of its own; level 1 only.
        workers: Processes that work on the run together; 0: one that has it to itself.
    """

    seed: int = 0
    crash: tuple[int, ...] = ()
    act: str = "kill"
    faults: frozenset[str] = frozenset()
    level: int = 1
    store: str = "memory"
    planted: str = ""
    successor: str = "host"
    switch: str = ""
    share: float = 1.0
    orgs: int = 1
    workers: int = 0

    def line(self) -> str:
        """Return the command that plays exactly this run again."""
        words = [f"python -m tests.simulation --seed {self.seed}"]
        if self.crash:
            words.append(f"--crash {','.join(map(str, self.crash))}")
        if self.act != "kill":
            words.append(f"--act {self.act}")
        if self.faults:
            words.append(f"--faults {show(self.faults)}")
        for name, usual in (
            ("level", 1),
            ("store", "memory"),
            ("planted", ""),
            ("successor", "host"),
            ("switch", ""),
            ("share", 1.0),
            ("orgs", 1),
            ("workers", 0),
        ):
            value = getattr(self, name)
            if value != usual:
                words.append(f"--{name} {value}")
        return " ".join(words)


@dataclass
class SimWorld:
    """The world of one scenario."""

    scenario: Scenario
    faults: FaultPlan = field(init=False)
    server: SimServer = field(init=False)
    disk: Any = field(init=False, default=None)
    history: History = field(default_factory=History)
    points: int = 0
    names: list[str] = field(default_factory=list)
    struck: list[int] = field(default_factory=list)
    lives: list[Life] = field(default_factory=list)
    loop: VirtualLoop | None = None
    past: float = 0.0
    pause_seconds: float = 120.0
    start_rival: Callable[[], None] = lambda: None
    #: What the library's own events were, by name: coverage of its branches.
    events: dict[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.faults = FaultPlan(self.scenario.seed, self.scenario.faults)
        self.server = SimServer(
            self.scenario.seed, self.time, self.faults, slow=bool(self.scenario.switch)
        )
        self._crash = frozenset(self.scenario.crash)
        self._beats: dict[int, int] = {}
        self._broken = 0

    def time(self) -> float:
        """Return the virtual time, also between two loops."""
        return self.past if self.loop is None else self.loop.time()

    def be_born(self) -> Life:
        """Start another incarnation."""
        life = Life(self, len(self.lives) + 1)
        self.lives.append(life)
        self.history.note(self.time(), life.number, "STARTED")
        return life

    def pass_point(self, life: Life, name: str) -> str | None:
        """Count a point; return what the plan wants to happen at it."""
        if self.scenario.workers and name in LOOKS:
            return "error" if self._broken == life.number else None
        if name == "store.renew before":
            self._beats[life.number] = self._beats.get(life.number, 0) + 1
            if self._beats[life.number] > BEATS:
                return None
        self.points += 1
        self.names.append(name)
        if self.points in self._crash:
            self.struck.append(self.points)
            if self.scenario.act != "outage":
                return self.scenario.act
            self._broken = life.number
            self.history.note(self.time(), life.number, f"OUTAGE from {name}")
        return "error" if self._broken == life.number else None

    def hear(self, event: object) -> None:
        """Take in an event of the library."""
        name = type(event).__name__
        self.events[name] = self.events.get(name, 0) + 1
        if name in TOLD:
            self.history.note(self.time(), 0, f"EVENT {event}")
