"""The simulated API with settings that make tests fast."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from dataclasses import replace

from batchwright.simulator import Chance, Simulator, WorldSettings
from batchwright.simulator._time import WorldClock
from batchwright.simulator.hooks import Hook

#: World seconds per real second: a batch of ten minutes takes a twentieth of a second.
FAST = 12_000.0


@asynccontextmanager
async def simulate(
    *,
    seed: int = 0,
    speed: float = FAST,
    clock: WorldClock | None = None,
    settings: WorldSettings | None = None,
    hooks: Iterable[Hook] = (),
    faults: Iterable[Chance] = (),
) -> AsyncIterator[Simulator]:
    """Serve a simulated Message Batches API at test speed on the running loop.

    Without settings of your own, batches take up to ten world minutes and received params are
    kept for the test to read.

    Args:
        seed: Decides ids, durations, orders and answers.
        speed: World seconds per real second.
        clock: World time, such as a `ManualClock`; `speed` is not used then.
        settings: The switches of the world.
        hooks: Pairs as for `Simulator.on`.
        faults: Faults that strike a share of the calls.
    """
    settings = settings or replace(WorldSettings(), keep_bodies=True)
    simulator = Simulator(
        seed=seed, speed=speed, clock=clock, settings=settings, hooks=hooks, faults=faults
    )
    async with simulator:
        yield simulator
