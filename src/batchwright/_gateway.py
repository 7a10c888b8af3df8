"""
The only importer of the SDK: its calls, raw bytes in and out, its errors turned into facts.

The SDK's own retries are off, and its `results()` is not used: that makes a second request and
follows an absolute URL with the credential to whatever host it names. The stable path under the
client's own base URL is read instead, as raw bytes.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import AsyncIterator, Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any
from urllib.parse import quote

import anthropic
import anyio
from anthropic import AsyncAnthropic
from anthropic.types import Message

from batchwright._api import CallFailed, Chunks, Reply
from batchwright._clock import clock
from batchwright._faults import Failure
from batchwright._json import load_json
from batchwright._pace import parse_retry_after
from batchwright.errors import ConfigurationError
from batchwright.types import set_message_builder

PATH = "/v1/messages/batches"
#: Longest whole create, seconds: an unanswered one is unknown after that, not waited for.
CREATE_TIMEOUT = 900.0
#: Longest other call but reading results, seconds.
CALL_TIMEOUT = 120.0
#: Longest silence while results are read, seconds.
READ_TIMEOUT = 120.0

#: An internal convention of the SDK, the one its `with_raw_response` helpers use.
_RAW = "X-Stainless-Raw-Response"

_STATUS_OF_TYPE = {
    "invalid_request_error": 400,
    "authentication_error": 401,
    "billing_error": 402,
    "permission_error": 403,
    "not_found_error": 404,
    "request_too_large": 413,
    "rate_limit_error": 429,
    "api_error": 500,
    "timeout_error": 504,
    "overloaded_error": 529,
}

_KEYS = re.compile(r"sk-[A-Za-z0-9_\-]{4,}|(?i:bearer)\s+[^\s'\"]+")


def build_message(answer: Mapping[str, Any]) -> Message:
    """Return the SDK's own model of an answer, built as the SDK builds it: without validation."""
    return Message.construct(**answer)


set_message_builder(build_message)


def default_client(*, base_url: str | None = None, api_key: str | None = None) -> AsyncAnthropic:
    """
    Return a client with credentials from the environment, as the SDK reads them.

    Args:
        base_url: What to talk to instead of the environment's choice.
        api_key: The key to use instead of the environment's credentials.

    Raises:
        ConfigurationError: The SDK cannot be set up from this environment.
    """
    try:
        return AsyncAnthropic(base_url=base_url, api_key=api_key, max_retries=0)
    except (anthropic.AnthropicError, TypeError, ValueError) as error:
        raise ConfigurationError(f"no client could be made from the environment: {error}") from None


class SdkGateway:
    """The API through one `AsyncAnthropic` client."""

    def __init__(self, client: Any) -> None:
        if not isinstance(client, AsyncAnthropic):
            kind = type(client).__name__
            raise ConfigurationError(
                f"the client must be an anthropic.AsyncAnthropic, not {kind}; batchwright is "
                "asynchronous, and Bedrock, Vertex and Foundry clients have no Message Batches"
            )
        self._client: AsyncAnthropic = client.with_options(max_retries=0)
        # It is told in logs, stores and reports, so a password in it must not be.
        self.base_url = str(client.base_url.copy_with(userinfo=b"")).rstrip("/")
        version = client.default_headers.get("anthropic-version")
        self.api_version = version if isinstance(version, str) else "unknown"

    async def create(
        self, body: AsyncIterator[bytes], size: int, headers: Mapping[str, str]
    ) -> Reply:
        """Stream *body* with its length declared: neither whole in memory nor chunked."""
        source = _Source(body)
        sent = {"content-type": "application/json", "content-length": str(size), **headers}
        try:
            with anyio.fail_after(CREATE_TIMEOUT):
                return await self._call(
                    "create", "post", PATH, content=source.chunks(), headers=sent
                )
        except TimeoutError:
            text = f"no answer within {CREATE_TIMEOUT:.0f} s"
            raise CallFailed(Failure(call="create", message=text)) from None
        except CallFailed:
            if source.error is not None:
                # Our own reading failed, so the server never had a whole body: nothing exists.
                raise source.error from None
            raise

    async def retrieve(self, batch_id: str) -> Reply:
        """Return the batch object."""
        return await self._call("retrieve", "get", f"{PATH}/{quote(batch_id, safe='')}")

    async def list(self, *, limit: int, after_id: str | None = None) -> Reply:
        """Return one page of batches, newest first."""
        query = f"?limit={limit}" + (f"&after_id={quote(after_id, safe='')}" if after_id else "")
        return await self._call("list", "get", PATH + query)

    async def cancel(self, batch_id: str) -> Reply:
        """Ask for a cancel."""
        return await self._call("cancel", "post", f"{PATH}/{quote(batch_id, safe='')}/cancel")

    async def models(self) -> Reply:
        """Return one page of models."""
        return await self._call("models", "get", "/v1/models?limit=1")

    @contextlib.asynccontextmanager
    async def results(self, batch_id: str) -> AsyncIterator[Chunks]:
        """Open the stable results path; the response is closed on every way out."""
        options: Any = {
            "headers": {_RAW: "stream", "Accept": "application/x-jsonl"},
            "timeout": anthropic.Timeout(READ_TIMEOUT, connect=10.0),
        }
        path = f"{PATH}/{quote(batch_id, safe='')}/results"
        with self._translated("results"):
            response: Any = await self._client.get(path, cast_to=object, options=options)
        try:
            yield _Stream(response, _head_of(response.headers), self)
        finally:
            with anyio.CancelScope(shield=True), contextlib.suppress(Exception):
                await response.close()

    async def _call(
        self,
        call: str,
        method: str,
        path: str,
        *,
        content: AsyncIterator[bytes] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Reply:
        options: Any = {"headers": {_RAW: "raw", **(headers or {})}}
        if call != "create":
            options["timeout"] = anthropic.Timeout(CALL_TIMEOUT, connect=10.0)
        with self._translated(call):
            if method == "get":
                response: Any = await self._client.get(path, cast_to=object, options=options)
            else:
                response = await self._client.post(
                    path, cast_to=object, content=content, options=options
                )
            body = await response.read()
        return _reply_of(call, response.status_code, response.headers, body)

    @contextlib.contextmanager
    def _translated(self, call: str) -> Any:
        """Turn whatever the SDK or its transport raises into a `CallFailed` without a key in it."""
        try:
            yield
        except anthropic.APIStatusError as error:
            failure = _failure_of_status(call, error)
        except anthropic.APIConnectionError as error:
            failure = _failure_of_transport(call, error.__cause__ or error)
        except (anthropic.AnthropicError, TypeError) as error:
            # No credential, or one the SDK cannot use: raised before anything is sent.
            failure = Failure(call=call, message=str(error), sent=False, refused_unsent=True)
        except Exception as error:
            failure = _failure_of_transport(call, error)
        else:
            return
        raise CallFailed(self._scrubbed(failure)) from None

    def _scrubbed(self, failure: Failure) -> Failure:
        """Return *failure* with anything like a key taken out of its text."""
        text = failure.message
        for secret in (self._client.api_key, self._client.auth_token):
            if secret:
                text = text.replace(secret, "[key]")
        text = _KEYS.sub("[key]", text)
        return Failure(
            call=failure.call,
            status=failure.status,
            type=failure.type,
            code=failure.code,
            message=text,
            request_id=failure.request_id,
            retry_after=failure.retry_after,
            sent=failure.sent,
            refused_unsent=failure.refused_unsent,
        )


class _Source:
    """An upload's bytes; remembers an error of our own reading, which the SDK would disguise."""

    def __init__(self, body: AsyncIterator[bytes]) -> None:
        self._body = body
        self.error: Exception | None = None

    async def chunks(self) -> AsyncIterator[bytes]:
        """Yield the bytes on."""
        try:
            async for chunk in self._body:
                yield chunk
        except Exception as error:
            self.error = error
            raise


class _Stream:
    """An open results response."""

    def __init__(self, response: Any, reply: Reply, gateway: SdkGateway) -> None:
        self.reply = reply
        self._response = response
        self._gateway = gateway

    async def __aiter__(self) -> AsyncIterator[bytes]:
        # iter_lines would decode and split at U+2028, which breaks JSON: only bytes are taken.
        with self._gateway._translated("results"):
            async for chunk in self._response.iter_bytes():
                yield chunk


def _head_of(headers: Mapping[str, str]) -> Reply:
    now = clock().now()
    return Reply(
        server_time=_date_of(headers.get("date")),
        retry_after=parse_retry_after(headers.get("retry-after"), now),
        request_limit=_number_of(headers.get("anthropic-ratelimit-requests-limit")),
        organization=headers.get("anthropic-organization-id"),
        workspace=headers.get("anthropic-workspace-id"),
    )


def _reply_of(call: str, status: int, headers: Mapping[str, str], body: bytes) -> Reply:
    """Return the answer, or raise what a 200 without a usable object amounts to."""
    head = _head_of(headers)
    try:
        data = load_json(body)
    except ValueError:
        data = None
    if isinstance(data, dict) and data.get("type") == "error":
        raise CallFailed(_failure_of_body(call, status, data, head))
    if not isinstance(data, dict):
        text = f"an answer that is not the API's JSON ({len(body)} bytes)"
        raise CallFailed(Failure(call=call, status=status, message=text))
    return Reply(
        data=data,
        server_time=head.server_time,
        retry_after=head.retry_after,
        request_limit=head.request_limit,
        organization=head.organization,
        workspace=head.workspace,
    )


def _failure_of_body(call: str, status: int, data: dict[str, Any], head: Reply) -> Failure:
    """Return the failure that an error object with status 200 stands for."""
    error = data.get("error")
    inner: dict[str, Any] = error if isinstance(error, dict) else {}
    kind = str(inner.get("type") or "api_error")
    # A create answered in a shape nobody documents stays what it is: unknown.
    meant = status if call == "create" else _STATUS_OF_TYPE.get(kind, 500)
    return Failure(
        call=call,
        status=meant,
        type=kind,
        code=_code_of(inner),
        message=str(inner.get("message") or ""),
        request_id=_text_of(data.get("request_id")),
        retry_after=head.retry_after,
    )


def _failure_of_status(call: str, error: anthropic.APIStatusError) -> Failure:
    headers = error.response.headers
    body = error.body
    inner = body.get("error") if isinstance(body, dict) else None
    known = isinstance(body, dict) and body.get("type") == "error" and isinstance(inner, dict)
    facts: dict[str, Any] = inner if isinstance(inner, dict) else {}
    text = facts.get("message") if known else _excerpt(error.message)
    return Failure(
        call=call,
        status=error.status_code,
        type=str(facts.get("type")) if known and facts.get("type") else None,
        code=_code_of(facts),
        message=str(text or ""),
        request_id=_text_of(error.request_id),
        retry_after=parse_retry_after(headers.get("retry-after"), clock().now()),
    )


def _failure_of_transport(call: str, error: BaseException) -> Failure:
    """Return the failure of a call that got no answer, or only a part of one."""
    name = type(error).__name__
    # Judged by name, since the SDK may run on either of two transports with their own classes.
    unsent = any(
        part in name
        for part in (
            "ConnectError",
            "ConnectTimeout",
            "ConnectionTimeout",
            "PoolTimeout",
            "Connector",
        )
    )
    detail = str(error)
    return Failure(
        call=call,
        message=f"{name}: {detail}" if detail else name,
        sent=not unsent,
    )


def _code_of(error: Mapping[str, Any]) -> str | None:
    details = error.get("details")
    return _text_of(details.get("error_code")) if isinstance(details, dict) else None


def _text_of(value: object) -> str | None:
    return value if isinstance(value, str) else None


def _excerpt(text: str) -> str:
    """Return the start of a body that is not the API's, on one line: a page of HTML says little."""
    flat = " ".join(text.split())
    return flat if len(flat) <= 200 else flat[:200] + "…"


def _date_of(value: str | None) -> datetime | None:
    try:
        date = parsedate_to_datetime(value) if value else None
    except ValueError:
        return None
    # "-0000" is read as a time without a zone.
    return date.replace(tzinfo=UTC) if date is not None and date.tzinfo is None else date


def _number_of(value: str | None) -> float | None:
    try:
        return float(value) if value else None
    except ValueError:
        return None
