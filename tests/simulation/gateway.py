"""
Level 1: the gateway port, fulfilled directly.
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any

import orjson
from tests.simulation.answers import Answer, Request
from tests.simulation.life import Life
from tests.simulation.loop import BASE
from tests.simulation.wire import Wire

from batchwright._api import CallFailed, Reply
from batchwright._faults import Failure
from batchwright._gateway import CREATE_TIMEOUT


class SimGateway:
    """A `Gateway` of one simulated process."""

    base_url = "https://api.sim"
    api_version = "2023-06-01"

    def __init__(self, life: Life, org: str = "sim") -> None:
        self._life = life
        self._wire = Wire(life)
        self._org = org

    async def create(
        self, body: AsyncIterator[bytes], size: int, headers: Mapping[str, str]
    ) -> Reply:
        """Create a batch."""
        data = b"".join([piece async for piece in body])
        assert len(data) == size, f"the body has {len(data)} bytes, {size} were declared"
        return await self._call(self._request("create", body=data))

    async def retrieve(self, batch_id: str) -> Reply:
        """Return the batch object."""
        return await self._call(self._request("retrieve", batch_id=batch_id))

    async def list(self, *, limit: int, after_id: str | None = None) -> Reply:
        """Return a page of batches, newest first."""
        return await self._call(self._request("list", limit=limit, after_id=after_id))

    async def cancel(self, batch_id: str) -> Reply:
        """Ask for a cancel."""
        return await self._call(self._request("cancel", batch_id=batch_id))

    async def models(self) -> Reply:
        """Return a page of models."""
        return await self._call(self._request("models"))

    async def message(self, body: bytes, headers: Mapping[str, str], *, stream: bool) -> Reply:
        """Ask directly; a run without a switch has an account that may not."""
        if self._life.world.scenario.switch:
            reply = await self._call(self._request("message", body=body))
            return replace(reply, data={}, body=orjson.dumps(reply.data))
        await self._life.sleep(0.1)
        text = "direct calls are not simulated"
        raise CallFailed(Failure(call="message", status=403, type="permission_error", message=text))

    @contextlib.asynccontextmanager
    async def results(self, batch_id: str) -> AsyncIterator[_Chunks]:
        """Open the results of a batch."""
        answer = await self._wire.exchange(self._request("results", batch_id=batch_id))
        if answer.status != 200:
            raise CallFailed(_failure("results", answer))
        yield _Chunks(self._head(answer), answer.pieces, self._life, broken=answer.broken)

    def _request(self, call: str, **more: Any) -> Request:
        return Request(call=call, org=self._org, **more)

    async def _call(self, request: Request) -> Reply:
        answer = await self._wire.exchange(request)
        if answer.hangs:
            await self._life.sleep(CREATE_TIMEOUT)
        if answer.status != 200 or answer.data is None:
            raise CallFailed(_failure(request.call, answer))
        return self._head(answer, answer.data)

    def _head(self, answer: Answer, data: dict[str, object] | None = None) -> Reply:
        now = BASE + timedelta(seconds=self._life.world.time())
        return Reply(
            data=data or {},
            server_time=now.replace(microsecond=0),
            retry_after=answer.retry_after,
            request_limit=answer.limit,
            organization=f"org-{self._org}",
            workspace=f"wrkspc-{self._org}",
        )


class _Chunks:
    """A body on its way: it may break, and the process may die while it reads."""

    def __init__(self, reply: Reply, pieces: Sequence[bytes], life: Life, *, broken: bool) -> None:
        self.reply = reply
        self._pieces = pieces
        self._life = life
        self._broken = broken

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for piece in self._pieces:
            await self._life.sleep(0.01)
            yield piece
        if self._broken:
            raise CallFailed(Failure(call="results", message="ReadError: simulated"))


def _failure(call: str, answer: Answer) -> Failure:
    kind, message = answer.error or (None, "simulated")
    return Failure(
        call=call,
        status=answer.status,
        type=kind,
        message=message,
        retry_after=answer.retry_after,
        sent=answer.sent,
    )
