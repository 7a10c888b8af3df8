"""Listening on a port with uvicorn's HTTP protocol, without uvicorn's server around it.

`uvicorn.Server` installs signal handlers, ticks ten times a second and needs two tenths of a
second to start and stop. A test bed that is opened for each test wants none of this, so the
protocol is given straight to the loop.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from batchwright.simulator._time import real_sleep

if TYPE_CHECKING:
    from batchwright.simulator.http import Application


class Listener:
    """A listening socket and its connections, on the running loop.

    Args:
        app: What answers.
        host: Address to listen on.
        port: Port, or 0 for a free one.
    """

    def __init__(self, app: Application, host: str, port: int) -> None:
        self._app, self._host, self._port = app, host, port
        self._connections: set[Any] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._server: asyncio.Server | None = None
        #: Host and port that clients reach it at.
        self.address: tuple[str, int] = (host, port)

    async def open(self) -> None:
        """Begin to listen.

        Raises:
            OSError: The port is taken.
            RuntimeError: The simulator's own requirements are not installed.
        """
        make = self._protocol_factory()
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(make, self._host, self._port, backlog=2048)
        self.address = self._server.sockets[0].getsockname()[:2]

    def _protocol_factory(self) -> Callable[[], asyncio.Protocol]:
        # Imported late: a world without a server needs neither of them.
        try:
            import uvicorn  # noqa: PLC0415
            from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol  # noqa: PLC0415
            from uvicorn.server import ServerState  # noqa: PLC0415
        except ModuleNotFoundError as error:
            raise RuntimeError(
                f"the simulator needs {error.name}: pip install 'batchwright[cli]'"
            ) from error
        config = uvicorn.Config(
            self._app,
            http=HttpToolsProtocol,
            ws="none",
            lifespan="off",
            log_config=None,
            server_header=False,
            date_header=False,
            timeout_keep_alive=600,
        )
        config.load()
        state = ServerState()
        self._connections, self._tasks = state.connections, state.tasks

        def make() -> asyncio.Protocol:
            protocol = HttpToolsProtocol(config=config, server_state=state, app_state={})
            # Otherwise uvicorn prints a line for each request into any configured root logger.
            protocol.access_log = False
            return protocol

        return make

    async def close(self) -> None:
        """Break all connections, end what still runs, and free the port."""
        assert self._server is not None, "opened before"
        self._server.close()
        seen: set[Any] = set()
        # A connection accepted a moment ago reports itself only after a turn or two of the
        # loop, and an aborted one is told so a turn later.
        for _ in range(3):
            seen |= self._connections
            for connection in list(self._connections):
                connection.transport.abort()
            await real_sleep(0)
        await asyncio.wait_for(self._end_tasks(), timeout=10)
        await self._server.wait_closed()
        for connection in seen:
            connection._unset_keepalive_if_required()  # its timer would outlive the test

    async def _end_tasks(self) -> None:
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
