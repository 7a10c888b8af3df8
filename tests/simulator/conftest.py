"""Fixtures: a world with a clock in the test's hand, and the same world behind HTTP."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import Any

import httpx2
import orjson
import pytest

from batchwright.simulator import Access, ManualClock, Simulator, World, WorldSettings
from batchwright.simulator.batches import Batch

START = 1_790_000_000.25


@pytest.fixture
def clock() -> ManualClock:
    """A clock that moves only when the test says so."""
    return ManualClock(START)


@pytest.fixture
def world(clock: ManualClock) -> World:
    """A world whose batches take exactly 100 seconds and whose cancels take 10."""
    settings = WorldSettings(duration=(100, 100), cancel_seconds=(10, 10), keep_bodies=True)
    return World(clock=clock, settings=settings)


@pytest.fixture
def access() -> Access:
    """A caller that has been let in."""
    return Access(key="k", workspace="acme/main")


@pytest.fixture
def params() -> Callable[..., dict[str, Any]]:
    """Make sound Messages API params around a text."""

    def make(text: str = "hello", **more: Any) -> dict[str, Any]:
        messages = [{"role": "user", "content": text}]
        return {"model": "claude-haiku-4-5", "max_tokens": 64, "messages": messages, **more}

    return make


@pytest.fixture
def item(params: Callable[..., dict[str, Any]]) -> Callable[..., dict[str, Any]]:
    """Make one value of `requests`."""

    def make(custom_id: str = "a", text: str = "hello", **more: Any) -> dict[str, Any]:
        return {"custom_id": custom_id, "params": params(text, **more)}

    return make


@pytest.fixture
def kinds() -> Callable[[World, Access, Batch], dict[str, str]]:
    """Tell custom_id -> result type of an ended batch."""

    def read(world: World, access: Access, batch: Batch) -> dict[str, str]:
        lines = [orjson.loads(line) for line in world.results(access, batch.id)]
        return {line["custom_id"]: line["result"]["type"] for line in lines}

    return read


@pytest.fixture
async def sim(world: World, clock: ManualClock) -> AsyncIterator[Simulator]:
    """The same world behind HTTP."""
    async with Simulator(clock=clock, settings=world.settings) as simulator:
        yield simulator
    assert simulator.failures == []


@pytest.fixture
async def http(sim: Simulator) -> AsyncIterator[httpx2.AsyncClient]:
    """A plain HTTP client with sound headers."""
    headers = {"x-api-key": sim.api_key, "anthropic-version": "2023-06-01"}
    async with httpx2.AsyncClient(base_url=sim.url, headers=headers, trust_env=False) as plain:
        yield plain


@pytest.fixture
def path() -> str:
    """Where batches live."""
    return "/v1/messages/batches"
