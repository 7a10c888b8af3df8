"""The simulator on a thread of its own, for callers without an event loop.

This is the one place of the simulator that starts a thread: a blocking `with` has no loop to
serve on, and a measurement must not share its loop with the server that it measures.
"""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import Future
from typing import TYPE_CHECKING

from batchwright.simulator._listener import Listener

if TYPE_CHECKING:
    from batchwright.simulator.http import Application

_TIMEOUT = 30.0


class ThreadedListener:
    """A `Listener` on its own thread and loop.

    Args:
        app: What answers.
        host: Address to listen on.
        port: Port, or 0 for a free one.
    """

    def __init__(self, app: Application, host: str, port: int) -> None:
        self._listener = Listener(app, host, port)
        self._opened: Future[asyncio.AbstractEventLoop] = Future()
        self._stop = asyncio.Event()
        self._thread = threading.Thread(  # noqa: TID251
            target=self._run, name="batchwright-simulator", daemon=True
        )

    @property
    def address(self) -> tuple[str, int]:
        """Host and port that clients reach it at."""
        return self._listener.address

    def open(self) -> None:
        """Begin to listen; what fails there is raised here."""
        self._thread.start()
        self._opened.result(_TIMEOUT)

    def close(self) -> None:
        """Stop listening and end the thread."""
        self._opened.result().call_soon_threadsafe(self._stop.set)
        self._thread.join(_TIMEOUT)
        assert not self._thread.is_alive(), "the server thread did not end"

    def _run(self) -> None:
        asyncio.run(self._serve())

    async def _serve(self) -> None:
        try:
            await self._listener.open()
        except Exception as error:
            self._opened.set_exception(error)
            return
        self._opened.set_result(asyncio.get_running_loop())
        await self._stop.wait()
        await self._listener.close()
