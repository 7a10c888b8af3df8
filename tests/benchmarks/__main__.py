"""
What batchwright costs beside a floor and beside the plain SDK: `python -m tests.benchmarks`.

Each row is measured in one run on one machine; contenders take turns, each in a process of its own,
against servers in other processes. Ratios are the middle ones of the rounds. Nothing is asserted: a
machine that is busy with other things shows it, in wall time first.
"""

from __future__ import annotations

import argparse
import os
import platform
import shlex
import sys
import tempfile
import time
from pathlib import Path

from tests.benchmarks.rows import (
    batch,
    direct,
    disk,
    growth,
    memory,
    parts,
    polling,
    resume,
    stall,
    startup,
)
from tests.benchmarks.setting import Setting
from tests.benchmarks.table import Line, markdown

ROWS = {
    "a": batch,
    "b": direct,
    "c": resume,
    "d": memory,
    "e": stall,
    "f": polling,
    "g": startup,
    "growth": growth,
    "disk": disk,
    "parts": parts,
}


def main() -> None:
    """Read the arguments, measure, print."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.benchmarks",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--rows", default=",".join(ROWS), help="names of rows, with commas")
    parser.add_argument("--items", type=int, default=100_000, help="the middle size")
    parser.add_argument("--bytes", type=int, default=2_000, help="of one item, about")
    parser.add_argument("--rounds", type=int, default=3, help="turns of the contenders")
    parser.add_argument(
        "--quick", action="store_true", help="see that it works: a fiftieth of the items, one round"
    )
    args = parser.parse_args()
    names = args.rows.split(",")
    if unknown := set(names) - set(ROWS):
        parser.error(f"no such rows: {', '.join(sorted(unknown))}; there are {', '.join(ROWS)}")
    items, rounds = (args.items // 50, 1) if args.quick else (args.items, args.rounds)
    with tempfile.TemporaryDirectory(prefix="batchwright-benchmarks-") as folder:
        setting = Setting(items, args.bytes, rounds, args.quick, Path(folder))
        try:
            lines = list(_measured(setting, names))
        finally:
            setting.close()
    print(_where())
    print()
    print(markdown(lines))


def _measured(setting: Setting, names: list[str]) -> list[Line]:
    lines: list[Line] = []
    for name in names:
        print(f"row {name} …", file=sys.stderr, flush=True)
        lines += ROWS[name].measure(setting)
    return [line.without_target() for line in lines] if setting.quick else lines


def _where() -> str:
    """Say when, by which command and on what this was measured."""
    command = shlex.join(["python", "-m", "tests.benchmarks", *sys.argv[1:]])
    load = os.getloadavg()[2]
    return (
        f"`{command}` on {time.strftime('%Y-%m-%d')}: Python {platform.python_version()}, "
        f"{platform.system()}, {os.cpu_count()} cores, load {load:.1f} over 15 minutes"
    )


if __name__ == "__main__":
    main()
