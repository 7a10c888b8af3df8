"""Loops of uvloop."""

from __future__ import annotations

import asyncio

import pytest
import uvloop
from tests.support import FAST, items

from batchwright import BatchRunner, RunResult
from batchwright.simulator import Simulator


@pytest.fixture(params=["sqlite", "postgres"])
def store(request, tmp_path):
    """A store that works on a thread of its own."""
    if request.param == "sqlite":
        return tmp_path / "u.db"
    return request.getfixturevalue("postgres_url")


def test_a_run_on_a_uvloop_loop(store, monkeypatch):
    """It does not matter which event loop it is, and one runner serves one loop after another."""
    asked = items(30)
    with Simulator(speed=6_000.0) as sim:
        monkeypatch.setenv("ANTHROPIC_BASE_URL", sim.url)
        monkeypatch.setenv("ANTHROPIC_API_KEY", sim.api_key)
        runner = BatchRunner(store=store, polling=FAST)

        async def go() -> RunResult:
            return await runner.run(asked)

        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as loops:
            assert loops.run(go()).complete
        assert asyncio.run(go()).complete
        assert len(sim.creates) == 1
