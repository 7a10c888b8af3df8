"""Below HTTP: broken connections and bodies that no ASGI server would send.

ASGI has no word for "drop the connection". uvicorn's `receive` is a bound method of the object
that holds the connection's transport; this file is the only one that uses this.
"""

from __future__ import annotations

import socket
import struct
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from batchwright.simulator._time import real_sleep

Receive = Callable[[], Awaitable[Mapping[str, Any]]]
Send = Callable[[dict[str, Any]], Awaitable[None]]


class Wire:
    """The connection below one request."""

    def __init__(self, receive: Receive) -> None:
        self._receive = receive
        self._cycle: Any = getattr(receive, "__self__", None)

    @property
    def lost(self) -> bool:
        """Whether the client has gone."""
        return bool(self._cycle.disconnected or self._cycle.transport.is_closing())

    async def wait_until_lost(self) -> None:
        """Wait until the client goes away; the body must have been read before."""
        while (await self._receive())["type"] != "http.disconnect":
            pass

    async def close(self, *, reset: bool) -> None:
        """End the connection here: what was written goes out, then FIN or RST."""
        transport = self._silence()
        if not reset:
            transport.close()
            return
        while transport.get_write_buffer_size() and not transport.is_closing():
            await real_sleep(0.001)
        if transport.is_closing():
            return
        connection = transport.get_extra_info("socket")
        # Lingering for zero seconds is how TCP is told to reset instead of to finish.
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        transport.abort()

    def write_head(self, status: int, headers: Mapping[str, str]) -> None:
        """Write a head without framing: the body ends where the connection ends."""
        lines = [f"HTTP/1.1 {status} "]
        lines += [f"{name}: {value}" for name, value in headers.items()]
        lines += ["connection: close", "", ""]
        self._silence().write("\r\n".join(lines).encode("latin-1"))

    async def write(self, data: bytes) -> None:
        """Write raw bytes behind such a head."""
        transport = self._silence()
        transport.write(data)
        while transport.get_write_buffer_size() > 1 << 16 and not transport.is_closing():
            await real_sleep(0.001)

    def _silence(self) -> Any:
        # uvicorn would otherwise log that the application has not completed its answer.
        self._cycle.response_started = True
        self._cycle.response_complete = True
        return self._cycle.transport
