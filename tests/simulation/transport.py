"""
Level 2: the real SDK over a transport of our own; bodies go out piece by piece and may break.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from datetime import timedelta
from email.utils import format_datetime
from typing import Any

import httpx2
import orjson
from anthropic import AsyncAnthropic
from tests.simulation.answers import Answer, Request
from tests.simulation.life import Life
from tests.simulation.loop import BASE
from tests.simulation.play import options_of
from tests.simulation.wire import Wire

from batchwright import BatchRunner, Org

_PATH = "/v1/messages/batches"
#: Longer than any time limit of the library.
_FOR_EVER = 50_000.0


class SimClient(AsyncAnthropic):
    """The SDK's client; its platform is known, so that it starts no thread to ask for it."""

    @property
    def _platform(self) -> Any:  # type: ignore[override]
        return "Linux"

    @_platform.setter
    def _platform(self, _: Any) -> None:
        pass


class SimTransport(httpx2.AsyncBaseTransport):
    """HTTP as one simulated process sees it."""

    def __init__(self, life: Life) -> None:
        self._life = life
        self._wire = Wire(life)

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """Answer one request."""
        stream = request.stream
        assert isinstance(stream, httpx2.AsyncByteStream)
        body = b"".join([piece async for piece in stream])
        declared = request.headers.get("content-length")
        assert declared is None or int(declared) == len(body), "the declared length is not true"
        answer = await self._wire.exchange(_request_of(request, body))
        if answer.hangs:
            await self._life.sleep(_FOR_EVER)
        if answer.status is None:
            kind = httpx2.ReadError if answer.sent else httpx2.ConnectError
            raise kind("simulated", request=request)
        return self._response(answer, request)

    def _response(self, answer: Answer, request: httpx2.Request) -> httpx2.Response:
        now = BASE + timedelta(seconds=self._life.world.time())
        headers = {
            "date": format_datetime(now, usegmt=True),
            "anthropic-ratelimit-requests-limit": "4000",
            "anthropic-organization-id": "org-sim",
            "anthropic-workspace-id": "wrkspc-sim",
            "request-id": "req_sim",
        }
        if answer.retry_after is not None:
            headers["retry-after"] = f"{answer.retry_after:g}"
        pieces, kind = _body(answer)
        headers["content-type"] = kind
        stream = _Pieces(pieces, self._life, request if answer.broken else None)
        assert answer.status is not None
        return httpx2.Response(answer.status, headers=headers, stream=stream)


class _Pieces(httpx2.AsyncByteStream):
    """A body on its way; with *breaks* the connection is lost behind it."""

    def __init__(self, pieces: Sequence[bytes], life: Life, breaks: httpx2.Request | None) -> None:
        self._pieces = pieces
        self._life = life
        self._breaks = breaks

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for piece in self._pieces:
            await self._life.sleep(0.01)
            yield piece
        if self._breaks is not None:
            raise httpx2.RemoteProtocolError("simulated: incomplete body", request=self._breaks)


def _request_of(request: httpx2.Request, body: bytes) -> Request:
    method, path = request.method, request.url.path
    if path == "/v1/models":
        return Request(call="models")
    assert path.startswith(_PATH), path
    rest = path.removeprefix(_PATH).strip("/").split("/")
    if rest == [""]:
        if method == "POST":
            return Request(call="create", body=body)
        limit = int(request.url.params.get("limit", "20"))
        return Request(call="list", limit=limit, after_id=request.url.params.get("after_id"))
    call = rest[1] if len(rest) > 1 else "retrieve"
    return Request(call=call, batch_id=rest[0])


def _body(answer: Answer) -> tuple[Sequence[bytes], str]:
    if answer.error is not None:
        kind, message = answer.error
        error = {"type": kind, "message": message}
        return [orjson.dumps({"type": "error", "error": error, "request_id": "req_sim"})], _JSON
    if answer.data is not None:
        return [orjson.dumps(answer.data)], _JSON
    if answer.status == 200 and not answer.unknown:
        return answer.pieces, "application/x-jsonl"
    return [b"<html>simulated edge</html>"], "text/html"


_JSON = "application/json"


def runner_below_sdk(life: Life, store: Any) -> BatchRunner:
    """Return a level-2 runner."""
    http = httpx2.AsyncClient(transport=SimTransport(life), base_url="https://api.sim")
    client = SimClient(
        api_key="sk-simulated",
        base_url="https://api.sim",
        http_client=http,
        default_headers={"anthropic-version": "2023-06-01"},
    )
    return BatchRunner(orgs=(Org("sim", client),), store=store, **options_of(life.world))
