"""
The port to the Message Batches API: what the library asks of it, and what comes back.

`_gateway.SdkGateway` fulfils it with the real SDK; a simulation may fulfil it directly. No method
retries by itself: a call is one request.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Protocol

from batchwright._faults import Failure


class CallFailed(Exception):
    """An API call that did not succeed; `failure` holds the facts, without any key."""

    def __init__(self, failure: Failure) -> None:
        self.failure = failure
        super().__init__(str(failure))


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """
    A successful answer.

    Attributes:
        data: The JSON object of its body.
        server_time: The `Date` header.
        retry_after: Seconds; on a 200 it is the server's polling hint.
        request_limit: `anthropic-ratelimit-requests-limit`: requests a minute.
        input_limit: `anthropic-ratelimit-input-tokens-limit`: tokens a minute.
        output_limit: `anthropic-ratelimit-output-tokens-limit`: tokens a minute.
        organization: `anthropic-organization-id`.
        workspace: `anthropic-workspace-id`.
        body: The bytes of the answer, where they are kept as they came (direct calls).
    """

    data: dict[str, Any] = field(default_factory=dict)
    server_time: datetime | None = None
    retry_after: float | None = None
    request_limit: float | None = None
    input_limit: float | None = None
    output_limit: float | None = None
    organization: str | None = None
    workspace: str | None = None
    body: bytes = b""


class Chunks(Protocol):
    """A body being read: its head, and its bytes as they come."""

    reply: Reply

    def __aiter__(self) -> AsyncIterator[bytes]:
        """Yield the bytes, decoded from their transfer and content encodings."""


class Gateway(Protocol):
    """One account's way to the API. Every method raises `CallFailed`, and nothing else."""

    base_url: str
    api_version: str

    async def create(
        self, body: AsyncIterator[bytes], size: int, headers: Mapping[str, str]
    ) -> Reply:
        """Send one batch of *size* body bytes; the answer is the batch object."""

    async def retrieve(self, batch_id: str) -> Reply:
        """Return the batch object."""

    async def list(self, *, limit: int, after_id: str | None = None) -> Reply:
        """Return one page of the workspace's batches, newest first; `after_id`: older ones."""

    async def cancel(self, batch_id: str) -> Reply:
        """Ask for a cancel; the answer is the batch object."""

    def results(self, batch_id: str) -> AbstractAsyncContextManager[Chunks]:
        """Open the results of an ended batch as a byte stream."""

    async def message(self, body: bytes, headers: Mapping[str, str], *, stream: bool) -> Reply:
        """
        Ask one item directly; `Reply.body` is the message as JSON bytes.

        With *stream* the answer is streamed and put together: long ones outlast a plain call.
        """

    async def models(self) -> Reply:
        """Return a page of models: the cheapest call that proves a credential."""

    async def model(self, name: str) -> Reply:
        """Return what the API says about one model, by its id or alias."""

    async def count_tokens(self, body: bytes, headers: Mapping[str, str]) -> Reply:
        """Return how many input tokens a request has; the call is free."""
