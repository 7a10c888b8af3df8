"""What the rows share: the sizes, the processes, and runs that several rows look at."""

from __future__ import annotations

import contextlib
import json
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

HERE = Path(__file__).parent


@dataclass(frozen=True, slots=True)
class Cost:
    """
    What one contender cost; see `meter`. Seconds and bytes.

    `disk`: of the files that it left. `parts`: CPU by part, of contenders that tell them apart.
    """

    wall: float
    cpu: float
    peak: int
    stall: float
    busy: float
    count: int
    parts: dict[str, float]
    disk: int


def median(numbers: Sequence[float]) -> float:
    """Return the middle one."""
    return statistics.median(numbers)


def ratios(some: Sequence[Cost], others: Sequence[Cost], field_name: str) -> float:
    """Return how many times *some* cost what *others* did, round by round, in the middle."""
    pairs = zip(some, others, strict=True)
    return median([getattr(a, field_name) / getattr(b, field_name) for a, b in pairs])


@contextlib.contextmanager
def serving(script: str) -> Iterator[str]:
    """Serve in another process; yield the address."""
    argv = [sys.executable, str(HERE / script)]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen(argv, text=True, **pipes) as process:
        assert process.stdout is not None
        assert process.stdin is not None
        try:
            yield process.stdout.readline().strip()
        finally:
            process.stdin.close()


def last_line(argv: Sequence[str]) -> str:
    """Run a Python process to its end; return the last line that it prints."""
    done = subprocess.run(
        [sys.executable, *argv], check=True, text=True, stdout=subprocess.PIPE, timeout=7_200
    )
    return done.stdout.splitlines()[-1]


@dataclass
class Setting:
    """
    One call of the benchmarks.

    Attributes:
        items: The middle size; the small one is a tenth of it, the large one ten times.
        bytes: Of one item, about.
        rounds: How often contenders take turns.
        quick: Whether it only has to be seen that everything works.
        folder: Where files go.
    """

    items: int
    bytes: int
    rounds: int
    quick: bool
    folder: Path
    _stack: contextlib.ExitStack = field(default_factory=contextlib.ExitStack)
    _servers: dict[str, str] = field(default_factory=dict)
    _runs: dict[int, Cost] = field(default_factory=dict)

    def server(self, script: str) -> str:
        """Return the address of a server that runs until the end."""
        if script not in self._servers:
            self._servers[script] = self._stack.enter_context(serving(script))
        return self._servers[script]

    def close(self) -> None:
        """End the servers."""
        self._stack.close()

    def contend(
        self,
        name: str,
        *,
        script: str = "serve.py",
        items: int | None = None,
        size: int | None = None,
        width: int = 0,
        flags: Sequence[str] = (),
        folder: Path | None = None,
    ) -> Cost:
        """Let a contender do its work in a process of its own; return what it cost."""
        if folder is None:
            with tempfile.TemporaryDirectory(dir=self.folder) as made:
                return self.contend(
                    name,
                    script=script,
                    items=items,
                    size=size,
                    width=width,
                    flags=flags,
                    folder=Path(made),
                )
        argv = ["-m", f"tests.benchmarks.contenders.{name}", self.server(script)]
        argv += ["--items", str(items or self.items), "--bytes", str(size or self.bytes)]
        argv += ["--width", str(width), "--folder", str(folder), *flags]
        told = json.loads(last_line(argv))
        disk = sum(file.stat().st_size for file in folder.iterdir())
        return Cost(**told, disk=disk)

    def turns(self, names: Sequence[str], **options: object) -> dict[str, list[Cost]]:
        """Let contenders take turns, round after round."""
        costs: dict[str, list[Cost]] = {name: [] for name in names}
        for _ in range(self.rounds):
            for name in names:
                costs[name].append(self.contend(name, **options))  # type: ignore[arg-type]
        return costs

    # -- runs that several rows look at -------------------------------------------------------

    @property
    def sizes(self) -> tuple[int, int, int]:
        """The three sizes."""
        return (self.items // 10, self.items, self.items * 10)

    def run_folder(self, items: int) -> Path:
        """Return where the run of so many items keeps its store."""
        return self.folder / f"run-of-{items}"

    def run_of(self, items: int) -> Cost:
        """Return what a run of so many items costs; some of them are left unresolved."""
        if items not in self._runs:
            folder = self.run_folder(items)
            folder.mkdir()
            flags = ["--heart", "--failing"]
            self._runs[items] = self.contend("ours", items=items, flags=flags, folder=folder)
        return self._runs[items]
