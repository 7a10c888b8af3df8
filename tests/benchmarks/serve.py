"""The simulated API for a benchmark, in a process of its own; ends when its stdin does."""

from __future__ import annotations

import sys

from batchwright.simulator import Simulator, WorldSettings

if __name__ == "__main__":
    with Simulator(speed=600, settings=WorldSettings(duration=(300, 1_200))) as sim:
        print(sim.url, flush=True)
        sys.stdin.read()
