"""
What a large run costs the process that carries it: `python -m tests.benchmarks`.

The items come from a generator, the store is a SQLite file, the simulated API is another process.
Printed, not asserted: a machine that is busy with other things shows it here. As on the command
line the garbage collector leaves alone what was imported; `--no-freeze` shows what it costs
otherwise (a full collection goes through all of the SDK's classes).
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import gc
import resource
import subprocess
import sys
import tempfile
import threading
import time
import traceback
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import anthropic

from batchwright import BatchRunner, Polling, ShardLimits
from batchwright.events import Event, ItemsMerged

from .questions import items

#: Seconds between two beats of the heart that feels the loop's stalls.
BEAT = 0.005


class Heart:
    """Beats on the loop; a beat that comes late was held up by somebody's work."""

    def __init__(self, *, watch: bool) -> None:
        self.gaps: list[float] = []
        self.stacks: list[str] = []
        self._at = time.monotonic()
        self._thread = threading.get_ident()
        self._stop = threading.Event()
        self._watcher = threading.Thread(target=self._watch, daemon=True) if watch else None

    async def beat(self) -> None:
        """Beat until cancelled."""
        if self._watcher is not None:
            self._watcher.start()
        while True:
            self._at = time.monotonic()
            await asyncio.sleep(BEAT)
            self.gaps.append(time.monotonic() - self._at - BEAT)

    def _watch(self) -> None:
        """Note where the loop stands when a beat is overdue (`--where`)."""
        while not self._stop.wait(0.01):
            if time.monotonic() - self._at > 0.05:
                frame = sys._current_frames()[self._thread]
                self.stacks.append("".join(traceback.format_stack(frame)[-4:]))

    def worst(self, count: int = 5) -> str:
        """Return the longest stalls, milliseconds."""
        return ", ".join(f"{gap * 1e3:.0f}" for gap in sorted(self.gaps)[: -count - 1 : -1])


@contextlib.contextmanager
def simulator() -> Iterator[str]:
    """Serve the simulated API in another process; yield its address."""
    serve = Path(__file__).with_name("serve.py")
    with subprocess.Popen(
        [sys.executable, str(serve)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdin is not None
        try:
            yield process.stdout.readline().strip()
        finally:
            process.stdin.close()


@contextlib.asynccontextmanager
async def heartbeat(*, watch: bool) -> AsyncIterator[Heart]:
    """Feel the loop within the block."""
    heart = Heart(watch=watch)
    task = asyncio.create_task(heart.beat())
    yield heart
    task.cancel()


class Stages:
    """When each stage of the run was first seen, for the report."""

    def __init__(self) -> None:
        self.began = time.monotonic()
        self.seen: dict[str, float] = {}
        self.tasks = 0

    def __call__(self, event: Event) -> None:
        self.tasks = max(self.tasks, len(asyncio.all_tasks()))
        if isinstance(event, ItemsMerged):
            self.seen["last merge"] = time.monotonic() - self.began
        self.seen.setdefault(type(event).__name__, time.monotonic() - self.began)


async def measure(args: argparse.Namespace, url: str, store: Path) -> None:
    """Run the items and print what it cost."""
    stages = Stages()
    if not args.no_freeze:
        gc.freeze()
    async with (
        anthropic.AsyncAnthropic(base_url=url, api_key="sk-benchmark") as client,
        heartbeat(watch=args.where) as heart,
    ):
        runner = BatchRunner(
            client=client,
            store=store,
            polling=Polling(interval=0.5),
            limits=ShardLimits(max_requests=args.shard),
            on_event=stages,
        )
        began, cpu = time.monotonic(), time.process_time()
        result = await runner.run(items(args.items, args.bytes), collect=False)
        ran = time.monotonic() - began
        stalls = heart.worst()
        # It blocks, as it says.
        result.to_jsonl(store.with_suffix(".jsonl"))
        wrote = time.monotonic() - began - ran
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    shown = {name: f"{stages.seen[name]:.1f}" for name in ("ShardPlanned", "last merge")}
    print(f"items          {args.items:,} of {args.bytes:,} bytes, {args.shard:,} in a sub-batch")
    print(f"result         {result.counts}")
    stages_told = f"read in {shown['ShardPlanned']}, merged {shown['last merge']}"
    print(f"wall           {ran:.1f} s ({stages_told})")
    print(f"output file    {wrote:.1f} s")
    print(f"CPU            {time.process_time() - cpu:.1f} s")
    print(f"peak RSS       {peak:.0f} MB (must be under 300)")
    print(f"longest stalls {stalls} ms (must be under 100)")
    print(f"most tasks     {stages.tasks}")
    for stack in heart.stacks[: 40 if args.where else 0]:
        print("-" * 40, stack, sep="\n")


def main() -> None:
    """Read the arguments, measure, print."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks", description=__doc__)
    parser.add_argument("--items", type=int, default=100_000)
    parser.add_argument("--bytes", type=int, default=1_000, help="of one item, about")
    parser.add_argument("--shard", type=int, default=8_000, help="most items in a sub-batch")
    parser.add_argument("--where", action="store_true", help="show what holds the loop up")
    parser.add_argument("--no-freeze", action="store_true", help="let the collector see everything")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, simulator() as url:
        asyncio.run(measure(args, url, Path(folder, "run.db")))


if __name__ == "__main__":
    main()
