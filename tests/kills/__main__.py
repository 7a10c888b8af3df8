"""`python -m tests.kills --kills 200`: the long form, with a line of what was hit."""

from __future__ import annotations

import argparse
import asyncio
import tempfile
from pathlib import Path

from tests.kills.kill import Tally, one_run


def main() -> None:
    """Run until enough processes were killed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    wanted = parser.parse_args()
    tally, seed = Tally(), wanted.seed
    with tempfile.TemporaryDirectory() as folder:
        while tally.kills < wanted.kills:
            asyncio.run(one_run(Path(folder), seed, tally))
            seed += 1
    print(f"{tally.kills} kills in {tally.runs} runs, nothing lost, nothing paid twice")
    for event, times in sorted(tally.at.items(), key=lambda pair: -pair[1]):
        print(f"  {times:4} right after {event}")


if __name__ == "__main__":
    main()
