"""A simulator beside the tests."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

from batchwright.simulator import Simulator, WorldSettings

from .support import Inside, Shell, clean_env

#: World seconds per second: batches of some minutes take some tens of milliseconds.
SPEED = 6_000.0


@pytest.fixture
def bare(tmp_path: Path) -> Shell:
    """A shell without key and server."""
    return Shell(tmp_path, clean_env())


@pytest.fixture
def sim() -> Iterator[Simulator]:
    """A simulated API on a thread of its own."""
    with Simulator(speed=SPEED, settings=WorldSettings(keep_bodies=True)) as simulator:
        yield simulator


@pytest.fixture
def shell(bare: Shell, sim: Simulator) -> Shell:
    """A shell that talks to the simulator."""
    return bare.at(sim)


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Inside]:
    """A shell in this process without key and server; logging is given back as it was."""
    monkeypatch.chdir(tmp_path)
    log = logging.getLogger("batchwright")
    before = (log.propagate, list(log.handlers), log.level)
    yield Inside(tmp_path, clean_env())
    log.propagate, log.handlers[:] = before[0], before[1]
    log.setLevel(before[2])


@pytest.fixture
def inside(here: Inside, sim: Simulator) -> Shell:
    """A shell in this process that talks to the simulator."""
    return here.at(sim)
