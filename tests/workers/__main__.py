"""`python -m tests.workers --items 200000`: the long form, with what was killed."""

from __future__ import annotations

import argparse
import asyncio
import time

from tests.postgres.server import fresh_schema, running
from tests.workers.chaos import Plan, play


def main() -> None:
    """Play the plan that the command line describes."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--items", type=int, default=200_000)
    parser.add_argument("--shard", type=int, default=8_000)
    parser.add_argument("--workers", type=int, default=4)
    parser.add_argument("--kills", type=int, default=2)
    parser.add_argument("--policy", choices=("batch", "sync"), default="batch")
    parser.add_argument("--speed", type=float, default=300.0, help="world seconds in a real one")
    parser.add_argument("--seed", type=int, default=0)
    plan = Plan(**vars(parser.parse_args()))
    began = time.perf_counter()
    with running() as server:
        played = asyncio.run(play(plan, server.url(fresh_schema())))
    took = time.perf_counter() - began
    print(f"{plan.items:,} items by {plan.workers} processes, {plan.kills} killed, {took:.0f} s:")
    print("nothing lost, nothing paid twice, nothing left over")
    print(f"killed right after: {', '.join(played.killed)}")
    print(", ".join(f"{name} {count}" for name, count in sorted(played.told.items())))


if __name__ == "__main__":
    main()
