"""
Direct calls by the shortest way: bytes through the connections of the SDK's aiohttp transport.

For a small direct call most of the CPU goes into objects that are made and thrown away between the
SDK and the socket. Where the client runs on the SDK's own aiohttp transport, one call in a minute
goes through the SDK, and its request is the pattern for the others: same address, same headers,
same credential, same connection pool.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from batchwright._clock import clock

#: Seconds for which a pattern is used: credentials may be renewed by the SDK.
FRESH = 60.0

#: Headers that belong to one request, or to the connection.
_OWN = frozenset({"content-length", "host", "connection", "transfer-encoding"})
_INTERNAL = "x-stainless-raw-response"


@dataclass(frozen=True, slots=True)
class Answer:
    """What came back: status, headers, and the whole body."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class Express:
    """The short way of one client; `ready` tells whether it may be used now."""

    def __init__(self, http_client: Any) -> None:
        self._transport = _aiohttp_transport(http_client)
        self._url = ""
        self._headers: dict[str, str] = {}
        self._until = float("-inf")

    @property
    def ready(self) -> bool:
        """Whether there is a fresh pattern, and a transport to use it on."""
        return self._transport is not None and clock().monotonic() < self._until

    def learn(self, request: Any) -> None:
        """Take the request of a call that went through the SDK as the pattern."""
        if self._transport is None:
            return
        self._url = str(request.url)
        self._headers = {
            name: value
            for name, value in request.headers.items()
            if name.lower() not in _OWN and name.lower() != _INTERNAL
        }
        self._until = clock().monotonic() + FRESH

    async def post(self, body: bytes, headers: Mapping[str, str], timeout: float) -> Answer:  # noqa: ASYNC109
        """Send *body*; raises what aiohttp raises."""
        import aiohttp  # noqa: PLC0415 - an extra: there is no transport without it

        assert self._transport is not None, "only a ready express is used"
        session = self._transport.get_client()
        sent = {**self._headers, **headers} if headers else self._headers
        limit = aiohttp.ClientTimeout(total=timeout, sock_connect=10.0)
        async with session.post(
            self._url, data=body, headers=sent, timeout=limit, allow_redirects=False
        ) as response:
            return Answer(response.status, response.headers, await response.read())


def _aiohttp_transport(http_client: Any) -> Any:
    """
    Return the SDK's aiohttp transport under *http_client*, or `None` where it is another one.

    Proxies and transports of one's own are left to the SDK.
    """
    transport = getattr(http_client, "_transport", None)
    if not type(transport).__module__.startswith("anthropic._vendor.httpx_aiohttp"):
        return None
    plain = getattr(transport, "proxy", None) is None and not getattr(http_client, "_mounts", None)
    return transport if plain and callable(getattr(transport, "get_client", None)) else None
