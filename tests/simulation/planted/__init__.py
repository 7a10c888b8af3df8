"""Known-bad variants of the library; each of them has to be caught."""

from __future__ import annotations

from tests.simulation.planted.bugs import BUGS, plant
from tests.simulation.planted.hunt import Catch, hunt

__all__ = ["BUGS", "Catch", "hunt", "plant"]
