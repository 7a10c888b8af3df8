"""What `batchwright.testing` offers to other people's tests."""

from __future__ import annotations

import anthropic

from batchwright.testing import Simulator, simulate
from batchwright.testing.pytest_plugin import batchwright_simulator

__all__ = ["batchwright_simulator"]


async def test_simulate_is_fast(item):
    """A batch ends within a moment of real time, and its params can be read."""
    async with (
        simulate() as sim,
        anthropic.AsyncAnthropic(**sim.client_options(), max_retries=0) as sdk,
    ):
        batch = await sdk.messages.batches.create(requests=[item("a", "q")])
        while batch.processing_status != "ended":
            batch = await sdk.messages.batches.retrieve(batch.id)
        assert batch.request_counts.succeeded == 1
        assert sim.creates[0].params[0]["max_tokens"] == 64


def test_fixture(batchwright_simulator):
    """The pytest fixture serves a simulator without any asyncio plugin."""
    assert isinstance(batchwright_simulator, Simulator)
    with anthropic.Anthropic(**batchwright_simulator.client_options()) as sdk:
        assert sdk.messages.batches.list().data == []
