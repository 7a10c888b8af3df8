"""`python -m tests.kills --kills 200`: the long form, with a line of what was hit."""

from __future__ import annotations

import argparse
import asyncio
import tempfile
from pathlib import Path

from tests.kills.kill import Tally, one_run
from tests.postgres.books import check_tables
from tests.postgres.server import Server, fresh_schema, running


def main() -> None:
    """Run until enough processes were killed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--postgres", action="store_true", help="in a database, not in files")
    wanted = parser.parse_args()
    tally, seed = Tally(), wanted.seed
    with running() if wanted.postgres else tempfile.TemporaryDirectory() as place:
        while tally.kills < wanted.kills:
            asyncio.run(_run(place, seed, tally))
            seed += 1
    print(f"{tally.kills} kills in {tally.runs} runs, nothing lost, nothing paid twice")
    for event, times in sorted(tally.at.items(), key=lambda pair: -pair[1]):
        print(f"  {times:4} right after {event}")


async def _run(place: Server | str, seed: int, tally: Tally) -> None:
    if isinstance(place, str):
        await one_run(Path(place) / f"{seed}.db", seed, tally)
        return
    schema = fresh_schema()
    await one_run(place.url(schema), seed, tally, lambda: check_tables(place, schema))


if __name__ == "__main__":
    main()
