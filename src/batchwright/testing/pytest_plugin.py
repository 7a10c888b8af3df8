"""pytest fixture `batchwright_simulator`: a fast simulated API for one test.

Loaded by pytest through an entry point in every project that has batchwright installed, so it
must import without pytest-asyncio and without the simulator's own requirements.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from batchwright.simulator import Simulator


@pytest.fixture
def batchwright_simulator() -> Iterator[Simulator]:
    """Serve a simulated Message Batches API for one test, at high speed.

    It runs on a thread of its own, so blocking and asynchronous tests can use it alike,
    whatever asyncio plugin is installed.
    """
    # Imported late: collecting tests must not need uvicorn.
    from batchwright.simulator import Simulator, WorldSettings  # noqa: PLC0415
    from batchwright.testing.server import FAST  # noqa: PLC0415

    with Simulator(speed=FAST, settings=WorldSettings(keep_bodies=True)) as simulator:
        yield simulator
