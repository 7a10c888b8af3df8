"""One HTTP request and its answer, as seen from the simulator."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Iterator, Mapping, MutableMapping
from typing import Any
from urllib.parse import parse_qsl

from batchwright.simulator._seeded import api_id
from batchwright.simulator._time import Budget, real_sleep
from batchwright.simulator.access import api_key_of
from batchwright.simulator.problems import ApiProblem
from batchwright.simulator.replies import Reply
from batchwright.simulator.traffic import (
    CreateRecord,
    MessageRecord,
    RequestRecord,
    public_headers,
)
from batchwright.simulator.wire import Wire

_BATCH = r"/v1/messages/batches/(?P<id>[^/]+)"
_ROUTES: tuple[tuple[str, str, re.Pattern[str]], ...] = tuple(
    (name, method, re.compile(rf"(?P<prefix>.*){pattern}/?"))
    for name, method, pattern in (
        ("create", "POST", "/v1/messages/batches"),
        ("list", "GET", "/v1/messages/batches"),
        ("retrieve", "GET", _BATCH),
        ("delete", "DELETE", _BATCH),
        ("cancel", "POST", f"{_BATCH}/cancel"),
        ("results", "GET", f"{_BATCH}/results"),
        ("message", "POST", "/v1/messages"),
        ("count_tokens", "POST", "/v1/messages/count_tokens"),
        ("models", "GET", r"/v1/models(?:/(?P<id>[^/]+))?"),
    )
)


class ClientGone(Exception):
    """The connection is over, or the script has ended it: nothing more is to be sent."""


class Exchange:
    """A request as received, and the way to answer it.

    Args:
        scope: ASGI scope.
        receive: ASGI receive.
        send: ASGI send.
        number: Of the request, from 1.
        seed: Of the world; names the request id.
    """

    def __init__(
        self,
        scope: MutableMapping[str, Any],
        receive: Callable[[], Awaitable[Mapping[str, Any]]],
        send: Callable[[dict[str, Any]], Awaitable[None]],
        number: int,
        seed: int,
    ) -> None:
        self._receive, self._send = receive, send
        self.number = number
        self.wire: Wire = Wire(receive)
        self.method: str = scope["method"]
        self.path: str = scope["path"]
        self.query_string: str = scope["query_string"].decode("latin-1")
        self.query: dict[str, str] = dict(parse_qsl(self.query_string))
        self.headers: dict[str, str] = _joined(scope["headers"])
        self.public_headers: dict[str, str] = public_headers(self.headers)
        self.api_key: str | None = api_key_of(self.headers)
        self.request_id: str = api_id("req", seed, number)
        self.route: str
        self.batch_id: str | None
        self.route, self.batch_id, prefix = _route(self.method, self.path)
        self.base_url: str = f"{scope['scheme']}://{self.headers.get('host', 'localhost')}{prefix}"
        self.body_size: int = 0

    def record(self, now: float) -> RequestRecord:
        """Return the log's first entry on this request."""
        kinds: dict[str, type[RequestRecord]] = {"create": CreateRecord, "message": MessageRecord}
        return kinds.get(self.route, RequestRecord)(
            number=self.number,
            route=self.route,
            method=self.method,
            path=self.path,
            query=self.query_string,
            headers=self.public_headers,
            at=now,
            batch_id=self.batch_id,
        )

    async def read_body(self, most: int) -> bytearray:
        """Read the body to its end; of a body above `most` bytes only the size is kept.

        Raises:
            ClientGone: The client went away in the middle.
        """
        body = bytearray()
        while True:
            event = await self._receive()
            if event["type"] == "http.disconnect":
                raise ClientGone
            part = event.get("body", b"")
            self.body_size += len(part)
            if self.body_size <= most:
                body += part
            else:
                body.clear()
            if not event.get("more_body"):
                return body

    def problem(self, problem: ApiProblem) -> Reply:
        """Return the answer to a request that the API refuses."""
        headers = {"content-type": "application/json", **problem.headers}
        body = problem.envelope(self.request_id)
        return Reply(status=problem.status, headers=headers, body=body)

    async def send(self, reply: Reply) -> None:
        """Send an answer, piece by piece, breaking the connection where the reply says so."""
        headers = dict(reply.headers)
        if reply.gzip:
            headers["content-encoding"] = "gzip"
        if reply.cut is not None and reply.cut.framing == "close":
            await self._send_unframed(reply, headers)
            return
        if reply.cut is not None and reply.cut.framing == "length":
            headers["content-length"] = str(_whole_size(reply))
        elif reply.lines is None and reply.chunk_size is None and not reply.gzip and not reply.cut:
            headers["content-length"] = str(len(reply.encoded()))
        await self._send_framed(reply, headers)

    async def _send_framed(self, reply: Reply, headers: Mapping[str, str]) -> None:
        encoded = [(k.encode("latin-1"), v.encode("latin-1")) for k, v in headers.items()]
        start = {"type": "http.response.start", "status": reply.status, "headers": encoded}
        await self._send(start)
        budget = Budget()
        for piece in self._paced(reply):
            await self._send({"type": "http.response.body", "body": piece, "more_body": True})
            await (real_sleep(reply.pause) if reply.pause else budget.breathe())
        if reply.cut is not None:
            await self.wire.close(reset=reply.cut.reset)
        else:
            await self._send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _send_unframed(self, reply: Reply, headers: Mapping[str, str]) -> None:
        assert reply.cut is not None, "only a broken body goes without framing"
        self.wire.write_head(reply.status, headers)
        for piece in self._paced(reply):
            await self.wire.write(piece)
            await real_sleep(reply.pause)
        await self.wire.close(reset=reply.cut.reset)

    def _paced(self, reply: Reply) -> Iterator[bytes]:
        for piece in reply.pieces():
            if self.wire.lost:
                return
            yield piece


def _joined(raw: list[tuple[bytes, bytes]]) -> dict[str, str]:
    headers: dict[str, str] = {}
    for name, value in raw:
        key, text = name.decode("latin-1"), value.decode("latin-1")
        headers[key] = f"{headers[key]}, {text}" if key in headers else text
    return headers


def _route(method: str, path: str) -> tuple[str, str | None, str]:
    """Return route, id and what stands before `/v1` (a gateway's prefix)."""
    for name, expected, pattern in _ROUTES:
        found = pattern.fullmatch(path)
        if found and method == expected:
            groups = found.groupdict()
            return name, groups.get("id"), groups["prefix"]
    return "unknown", None, ""


def _whole_size(reply: Reply) -> int:
    """Return the size the whole body would have; its lines are kept for the sending."""
    if reply.lines is None:
        return len(reply.encoded())
    reply.lines = list(reply.lines)
    return sum(map(len, reply.lines))
