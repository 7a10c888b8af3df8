"""The log of what the server has received, for tests to read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

_SECRET = frozenset(("authorization", "x-api-key", "cookie", "proxy-authorization"))


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestRecord:
    """One request as received.

    Attributes:
        number: From 1, in the order of arrival.
        route: Name of the endpoint, or `unknown`.
        method: HTTP method.
        path: Path without the query.
        query: Query as sent, without `?`.
        headers: Names in lower case, credentials left out.
        at: World time of arrival, seconds since the epoch.
        status: HTTP status answered; None while open and where none was sent.
        body_size: Bytes of the body as received.
        custom_ids: Of a create.
        batch_id: Of the path, or of the batch just created.
        workspace: Name of the caller's workspace; None when not let in.
        delivered: The whole answer was handed to a connection that still stood.
    """

    number: int
    route: str
    method: str
    path: str
    query: str
    headers: Mapping[str, str]
    at: float
    status: int | None = None
    body_size: int = 0
    custom_ids: tuple[str, ...] = field(default=(), repr=False)
    batch_id: str | None = None
    workspace: str | None = None
    delivered: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateRecord(RequestRecord):
    """One create as received.

    Attributes:
        params: Of each request, in order; empty unless `WorldSettings.keep_bodies`.
        registered: A batch came of it, whether or not the client learned of it.
    """

    params: tuple[Mapping[str, Any], ...] = field(default=(), repr=False)
    registered: bool = False

    @property
    def content_length(self) -> str | None:
        """The `content-length` header as received."""
        return self.headers.get("content-length")

    @property
    def content_encoding(self) -> str | None:
        """The `content-encoding` header as received."""
        return self.headers.get("content-encoding")

    @property
    def transfer_encoding(self) -> str | None:
        """The `transfer-encoding` header as received."""
        return self.headers.get("transfer-encoding")


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageRecord(RequestRecord):
    """One direct call of the Messages API as received.

    Attributes:
        params: The body; None where it could not be read.
    """

    params: Mapping[str, Any] | None = field(default=None, repr=False)


class TrafficLog:
    """All requests, and how many there were at once."""

    def __init__(self) -> None:
        self.records: list[RequestRecord] = []
        self._open: dict[str, int] = {}
        self._peaks: dict[str, int] = {}
        self._calls: dict[tuple[str, str | None], int] = {}

    def open(self, record: RequestRecord) -> None:
        """Enter a request whose head has arrived."""
        assert record.number == len(self.records) + 1, "numbers have no gaps"
        self.records.append(record)
        for name in (record.route, "*"):
            self._open[name] = self._open.get(name, 0) + 1
            self._peaks[name] = max(self._peaks.get(name, 0), self._open[name])

    def update(self, number: int, **changes: Any) -> None:
        """Write down what has become known of a request."""
        self.records[number - 1] = replace(self.records[number - 1], **changes)

    def close(self, number: int) -> None:
        """Note that a request is over."""
        for name in (self.records[number - 1].route, "*"):
            self._open[name] -= 1
            assert self._open[name] >= 0, "a request is over once"

    def count_call(self, route: str, batch_id: str | None) -> tuple[int, int]:
        """Count a call; return its number for the route and for the batch."""
        names = ((route, None), (route, batch_id or ""))
        for name in names:
            self._calls[name] = self._calls.get(name, 0) + 1
        return self._calls[names[0]], self._calls[names[1]]

    def peak(self, route: str = "*") -> int:
        """Return the largest number of requests of a route that were open at once."""
        return self._peaks.get(route, 0)


def public_headers(headers: Mapping[str, str]) -> dict[str, str]:
    """Return the headers without credentials."""
    return {name: value for name, value in headers.items() if name not in _SECRET}
