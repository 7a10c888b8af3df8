"""What one contender costs, measured within its own process; the last line it prints is JSON."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import gc
import json
import resource
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

#: Seconds between two beats of the heart that feels the loop's stalls.
BEAT = 0.005


#: CPU seconds by part of the work, where a contender tells them apart.
parts: Counter[str] = Counter()


@contextlib.contextmanager
def part(name: str) -> Iterator[None]:
    """Count the CPU of the process within the block for the part *name*."""
    began = time.process_time()
    try:
        yield
    finally:
        parts[name] += time.process_time() - began


@dataclass(frozen=True, slots=True)
class Asked:
    """
    What a contender is to do.

    Attributes:
        url: Where the API is.
        items: How many.
        bytes: Of one item, about.
        width: Direct calls under way at once.
        folder: Where it may leave its files.
        heart: Whether the loop's stalls are felt (which costs a little).
        failing: Whether some items fail at their first try.
    """

    url: str
    items: int
    bytes: int
    width: int
    folder: Path
    heart: bool
    failing: bool


def asked() -> Asked:
    """Read what is asked from the command line."""
    parser = argparse.ArgumentParser()
    parser.add_argument("url")
    parser.add_argument("--items", type=int, required=True)
    parser.add_argument("--bytes", type=int, required=True)
    parser.add_argument("--width", type=int, default=0)
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--heart", action="store_true")
    parser.add_argument("--failing", action="store_true")
    return Asked(**vars(parser.parse_args()))


class Heart:
    """Beats on the loop; a beat that comes late was held up by somebody's work."""

    def __init__(self) -> None:
        self.longest = 0.0
        #: CPU seconds of the loop's own thread within the longest gap.
        self.busy = 0.0

    async def beat(self) -> None:
        """Beat until cancelled."""
        while True:
            at, cpu = time.monotonic(), time.thread_time()
            await asyncio.sleep(BEAT)
            gap = time.monotonic() - at - BEAT
            if gap > self.longest:
                self.longest, self.busy = gap, time.thread_time() - cpu


@contextlib.asynccontextmanager
async def _beating(heart: Heart, *, wanted: bool) -> AsyncIterator[None]:
    task = asyncio.create_task(heart.beat()) if wanted else None
    yield
    if task is not None:
        task.cancel()


def contend(carry: Callable[[Asked], Awaitable[int]]) -> None:
    """Do what the command line asks, and print what it cost."""
    wanted = asked()
    heart = Heart()

    async def run() -> int:
        async with _beating(heart, wanted=wanted.heart):
            return await carry(wanted)

    # As the command line does: what was imported is out of the collector's sight.
    gc.freeze()
    wall, cpu = time.perf_counter(), time.process_time()
    count = asyncio.run(run())
    print(
        json.dumps(
            {
                "wall": time.perf_counter() - wall,
                "cpu": time.process_time() - cpu,
                "peak": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
                "stall": heart.longest,
                "busy": heart.busy,
                "count": count,
                "parts": parts,
            }
        )
    )
