"""The guards of `tests/conftest.py` hold: no test reaches the real API, not even by mistake."""

from __future__ import annotations

import os
import socket

import anthropic
import pytest

from batchwright import BatchRunner, Polling


def test_no_settings_of_the_sdk():
    """A key or a base URL of the machine's user is not seen by tests."""
    assert [name for name in os.environ if name.startswith("ANTHROPIC_")] == []


def test_addresses_elsewhere_are_refused():
    """A connection that leaves this machine is refused before a packet is sent."""
    with socket.socket() as plain, pytest.raises(PermissionError, match=r"192\.0\.2\.1"):
        plain.connect(("192.0.2.1", 443))
    with pytest.raises(PermissionError, match=r"api\.anthropic\.com"):
        socket.getaddrinfo("api.anthropic.com", 443)


async def test_the_sdk_is_refused():
    """With a key in hand the SDK still does not get out."""
    async with anthropic.AsyncAnthropic(api_key="not-a-real-key", max_retries=0) as client:
        with pytest.raises(anthropic.APIConnectionError):
            await client.models.list()


async def test_fixtures_meet(client, sim, make_items):
    """The fixtures serve a run: items, a client and a simulated API."""
    runner = BatchRunner(client=client, store="memory://", polling=Polling(interval=0.02))
    result = await runner.run(make_items(3))
    assert list(result.messages) == ["doc-0", "doc-1", "doc-2"]
    assert len(sim.creates) == 1
