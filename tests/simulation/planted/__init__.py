"""Known-bad variants of the library; each of them has to be caught."""

from __future__ import annotations

from tests.simulation.planted.bugs import BUGS, plant

__all__ = ["BUGS", "plant"]
