"""Known-bad variants of the library; each of them has to be caught."""

from __future__ import annotations

from tests.simulation.planted.bugs import BUGS, plant
from tests.simulation.planted.hunt import Catch, hunt
from tests.simulation.planted.together import NEEDS

__all__ = ["BUGS", "NEEDS", "Catch", "hunt", "plant"]
