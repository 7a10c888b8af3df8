"""What every test has: no key, no network but loopback, and a fast simulated API on request."""

from __future__ import annotations

import ipaddress
import os
import socket
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import anthropic
import hypothesis
import pytest
from tests.postgres.server import Server, fresh_schema, running

from batchwright import Item
from batchwright.simulator import Simulator
from batchwright.testing import simulate

# How long an example takes says nothing on a machine that others use, too.
hypothesis.settings.register_profile("steady", deadline=None)
hypothesis.settings.load_profile("steady")


@pytest.fixture(autouse=True)
def _no_credentials(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hide every setting of the SDK and of ours, so that no test depends on the machine."""
    for name in [name for name in os.environ if name.startswith(("ANTHROPIC_", "BATCHWRIGHT_"))]:
        monkeypatch.delenv(name)


@pytest.fixture(autouse=True, scope="session")
def _loopback_only() -> Iterator[None]:
    """Refuse every connection and every look-up that would leave this machine."""
    plain = {name: getattr(socket.socket, name) for name in ("connect", "connect_ex")}
    look_up = socket.getaddrinfo

    def guarded(call: Callable[..., Any]) -> Callable[..., Any]:
        def connect(self: socket.socket, address: Any) -> Any:
            if self.family in (socket.AF_INET, socket.AF_INET6):
                _refuse_unless_local(address[0])
            return call(self, address)

        return connect

    def getaddrinfo(host: Any, *args: Any, **kwargs: Any) -> Any:
        _refuse_unless_local(host)
        return look_up(host, *args, **kwargs)

    with pytest.MonkeyPatch.context() as patch:
        for name, call in plain.items():
            patch.setattr(socket.socket, name, guarded(call))
        patch.setattr(socket, "getaddrinfo", getaddrinfo)
        yield


def _refuse_unless_local(host: Any) -> None:
    name = host.decode() if isinstance(host, bytes) else host
    if name in (None, "", "localhost"):
        return
    try:
        local = ipaddress.ip_address(str(name).partition("%")[0]).is_loopback
    except ValueError:
        local = False
    if not local:
        raise PermissionError(f"tests reach only this machine, not {host!r}")


@pytest.fixture(scope="session")
def postgres() -> Iterator[Server]:
    """A real PostgreSQL server, started for the first test that asks for it."""
    with running() as server:
        yield server


@pytest.fixture
def postgres_url(postgres: Server) -> str:
    """The URL of a new, empty store on it."""
    return postgres.url(fresh_schema())


@pytest.fixture
async def sim() -> AsyncIterator[Simulator]:
    """A fast simulated API on the test's own loop."""
    async with simulate() as simulator:
        yield simulator
    assert simulator.failures == []


@pytest.fixture
async def client(sim: Simulator) -> AsyncIterator[anthropic.AsyncAnthropic]:
    """The real SDK, talking to `sim`, its own retries off."""
    async with anthropic.AsyncAnthropic(**sim.client_options(), max_retries=0) as sdk:
        yield sdk


@pytest.fixture
def make_items() -> Callable[..., list[Item]]:
    """Build *count* sound items with ids `doc-0`, `doc-1`, … and a prompt of their own."""

    def make(count: int, *, stem: str = "doc", text: str = "question", **more: Any) -> list[Item]:
        return [
            Item(
                f"{stem}-{number}",
                {
                    "model": "claude-haiku-5-5",
                    "max_tokens": 64,
                    "messages": [{"role": "user", "content": f"{text} {number}"}],
                    **more,
                },
            )
            for number in range(count)
        ]

    return make
