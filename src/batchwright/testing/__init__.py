"""Help for testing code that uses batches: a simulated API with a script."""

from __future__ import annotations

from batchwright.simulator import Simulator
from batchwright.testing.server import simulate

__all__ = ["Simulator", "simulate"]
