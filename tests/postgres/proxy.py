"""
A wire between a store and its server that can be slow, and can be cut anywhere.
"""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Callable, Iterator
from typing import Literal

#: What is done with some bytes: handed on; handed on and then cut; not handed on but cut.
Verdict = Literal["pass", "cut after", "cut before"]
#: Looks at bytes; the second argument tells whether they go to the server.
Rule = Callable[[bytes, bool], Verdict]


class Proxy:
    """Hands connections on to a port of this machine."""

    def __init__(self, port: int) -> None:
        self._target = port
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._listener.getsockname()[1])
        #: Seconds that each piece of an answer is late.
        self.delay = 0.0
        #: Whether new connections are turned away.
        self.closed = False
        self.rule: Rule | None = None
        #: Whether the rule holds on after it has cut once.
        self.lasting = False
        #: Connections made, and connections cut.
        self.made = self.cuts = 0
        self._pairs: list[tuple[socket.socket, socket.socket]] = []
        self._ended = threading.Event()
        self._start(self._accept)

    def _start(self, work: Callable[..., None], *args: object) -> None:
        threading.Thread(target=work, args=args, daemon=True).start()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            if self.closed:
                client.close()
                continue
            self.made += 1
            server = socket.create_connection(("127.0.0.1", self._target))
            for end in (client, server):
                end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._pairs.append((client, server))
            self._start(self._pump, client, server, True)
            self._start(self._pump, server, client, False)

    def _pump(self, source: socket.socket, sink: socket.socket, to_server: bool) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(1 << 16):
                if self.delay and not to_server:
                    self._ended.wait(self.delay)
                verdict = self.rule(data, to_server) if self.rule else "pass"
                if verdict != "cut before":
                    sink.sendall(data)
                if verdict != "pass":
                    self.rule = self.rule if self.lasting else None
                    self.cuts += 1
                    break
        _close(source, sink)

    def cut(self) -> None:
        """Cut every connection."""
        pairs, self._pairs = self._pairs, []
        for pair in pairs:
            _close(*pair)

    def close(self) -> None:
        """Cut everything and listen no more."""
        self._ended.set()
        _close(self._listener)
        self.cut()


def _close(*ends: socket.socket) -> None:
    for end in ends:
        with contextlib.suppress(OSError):
            end.shutdown(socket.SHUT_RDWR)
        end.close()


@contextlib.contextmanager
def proxy_to(port: int) -> Iterator[Proxy]:
    """Run a proxy for the time of the block."""
    proxy = Proxy(port)
    try:
        yield proxy
    finally:
        proxy.close()
