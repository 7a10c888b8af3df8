"""
The only importer of the SDK: its calls, raw bytes in and out, its errors turned into facts.

The SDK's own retries are off, and its `results()` is not used: that makes a second request and
follows an absolute URL with the credential to whatever host it names. The stable path under the
client's own base URL is read instead, as raw bytes.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
import weakref
from collections.abc import AsyncIterator, Mapping
from dataclasses import replace
from importlib.util import find_spec
from typing import Any
from urllib.parse import quote

import anthropic
import anyio
from anthropic import AsyncAnthropic
from anthropic.resources.messages import messages as sdk_messages
from anthropic.types import Message

from batchwright._api import CallFailed, Chunks, Reply
from batchwright._express import Express
from batchwright._faults import Failure
from batchwright._intercept import Interceptor
from batchwright._json import dump_json, load_json
from batchwright._replies import failure_of_status, failure_of_transport, head_of, reply_of
from batchwright.errors import ConfigurationError
from batchwright.types import set_message_builder

PATH = "/v1/messages/batches"
#: Longest whole create, seconds: an unanswered one is unknown after that, not waited for.
CREATE_TIMEOUT = 900.0
#: Longest other call but reading results, seconds.
CALL_TIMEOUT = 120.0
#: Longest direct call, seconds; the API ends plain ones after ten minutes itself.
MESSAGE_TIMEOUT = 620.0
#: Longest silence while results are read, seconds.
READ_TIMEOUT = 120.0

#: An internal convention of the SDK, the one its `with_raw_response` helpers use.
_RAW = "X-Stainless-Raw-Response"

_KEYS = re.compile(r"sk-[A-Za-z0-9_\-]{4,}|(?i:bearer)\s+[^\s'\"]+")


def build_message(answer: Mapping[str, Any]) -> Message:
    """Return the SDK's own model of an answer, built as the SDK builds it: without validation."""
    return Message.construct(**answer)


set_message_builder(build_message)


def retirements() -> Mapping[str, str]:
    """Return the models that the installed SDK knows to be deprecated, and when they end."""
    return dict(getattr(sdk_messages, "DEPRECATED_MODELS", {}))


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
        return AsyncAnthropic(
            base_url=base_url, api_key=api_key, max_retries=0, http_client=_fast_transport()
        )
    except (anthropic.AnthropicError, TypeError, ValueError) as error:
        raise ConfigurationError(f"no client could be made from the environment: {error}") from None


def _fast_transport() -> Any:
    """Return the SDK's aiohttp transport where the extra `aiohttp` is installed, else `None`."""
    if find_spec("aiohttp") is None:
        return None
    return anthropic.DefaultAioHttpClient()


@contextlib.asynccontextmanager
async def working_copy(
    client: AsyncAnthropic, *, own_transport: bool
) -> AsyncIterator[AsyncAnthropic]:
    """
    Lend a client for work that goes on when *client* is closed.

    Args:
        client: Whose account and options it has.
        own_transport: Whether it gets connections of its own; otherwise it has those of *client*,
            which are the caller's, and are left open.
    """
    if not own_transport:
        yield client
        return
    http = _fast_transport() or anthropic.DefaultAsyncHttpxClient(
        base_url=client.base_url, timeout=client.timeout
    )
    try:
        yield client.copy(http_client=http)
    finally:
        await http.aclose()


#: Under which event loop the connections of an HTTP client were made.
_homes: weakref.WeakKeyDictionary[Any, weakref.ref[Any]] = weakref.WeakKeyDictionary()


def _moved(client: AsyncAnthropic) -> anthropic.DefaultAsyncHttpxClient | None:
    """
    Return a new HTTP client where the connections of *client* belong to another event loop.

    Such a connection still takes a whole request and then fails: a create would be in doubt.

    Raises:
        ConfigurationError: They do, and the HTTP client is the caller's own.
    """
    try:
        loop = asyncio.get_running_loop()
    except RuntimeError:
        return None
    http = client._client
    if _homes.setdefault(http, weakref.ref(loop))() is loop:
        return None
    # By name: the class with which the SDK marks the clients that it made itself is private.
    if type(http).__name__ != "AsyncHttpxClientWrapper":
        raise ConfigurationError(
            "the client's http_client was used under another event loop, where its connections "
            "stay: make a new one for each asyncio.run(), or leave client out"
        )
    return anthropic.DefaultAsyncHttpxClient(base_url=client.base_url, timeout=client.timeout)


class SdkGateway:
    """The API through one `AsyncAnthropic` client."""

    def __init__(self, client: Any) -> None:
        if not isinstance(client, AsyncAnthropic):
            kind = type(client).__name__
            raise ConfigurationError(
                f"the client must be an anthropic.AsyncAnthropic, not {kind}; batchwright is "
                "asynchronous, and Bedrock, Vertex and Foundry clients have no Message Batches"
            )
        if any(isinstance(one, Interceptor) for one in client.middleware):
            raise ConfigurationError(
                "the client is batchwright's own AsyncAnthropic, whose calls come here already; "
                "give its client.direct, or an anthropic.AsyncAnthropic"
            )
        self._moved = _moved(client)
        home = client if self._moved is None else client.copy(http_client=self._moved)
        self._client: AsyncAnthropic = home.with_options(max_retries=0)
        self._express = Express(self._client._client)
        # It is told in logs, stores and reports, so a password in it must not be.
        self.base_url = str(client.base_url.copy_with(userinfo=b"")).rstrip("/")
        if client.base_url.scheme not in {"http", "https"} or not client.base_url.host:
            raise ConfigurationError(
                f"the base URL {self.base_url!r} is no address; it looks like "
                "https://api.anthropic.com (look at --base-url and ANTHROPIC_BASE_URL)"
            )
        version = client.default_headers.get("anthropic-version")
        self.api_version = version if isinstance(version, str) else "unknown"

    async def aclose(self) -> None:
        """Close the connections that were made here; those of the caller's client stay."""
        if self._moved is not None:
            await self._moved.aclose()

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

    async def message(self, body: bytes, headers: Mapping[str, str], *, stream: bool) -> Reply:
        """Ask one item directly: bytes in, bytes out, no model is built on the way."""
        if stream:
            return await self._streamed(body, headers)
        if self._express.ready:
            return await self._by_express(body, headers)
        options: Any = {
            "headers": {_RAW: "raw", "content-type": "application/json", **headers},
            "timeout": anthropic.Timeout(MESSAGE_TIMEOUT, connect=10.0),
        }
        with self._translated("message"):
            response: Any = await self._client.post(
                "/v1/messages", cast_to=object, content=body, options=options
            )
            answer: bytes = await response.read()
        self._express.learn(response.http_response.request)
        return _message_reply(response.status_code, response.headers, answer)

    async def _by_express(self, body: bytes, headers: Mapping[str, str]) -> Reply:
        """Ask over the connections of the SDK's transport, past the layers above it."""
        with self._translated("message"):
            answer = await self._express.post(body, headers, MESSAGE_TIMEOUT)
        if answer.status != 200:
            body_told, text = _error_body(answer.body)
            failure = failure_of_status("message", answer.status, answer.headers, body_told, text)
            raise CallFailed(self._scrubbed(failure))
        return _message_reply(answer.status, answer.headers, answer.body)

    async def _streamed(self, body: bytes, headers: Mapping[str, str]) -> Reply:
        """Ask through the SDK's own streaming helper, which puts the message together."""
        params = load_json(body)
        # The body's own word on streaming would override that of the helper.
        params.pop("stream", None)
        with self._translated("message"):
            async with self._client.messages.stream(
                model=params["model"],
                max_tokens=params["max_tokens"],
                messages=params["messages"],
                extra_body=params,
                extra_headers=dict(headers),
            ) as stream:
                message = await stream.get_final_message()
                head = head_of(stream.response.headers)
        return replace(head, body=dump_json(message.to_dict(mode="json")))

    async def models(self) -> Reply:
        """Return one page of models."""
        return await self._call("models", "get", "/v1/models?limit=1")

    async def model(self, name: str) -> Reply:
        """Return what the API says about one model."""
        return await self._call("model", "get", f"/v1/models/{quote(name, safe='')}")

    async def count_tokens(self, body: bytes, headers: Mapping[str, str]) -> Reply:
        """Return how many input tokens a request has."""
        sent = {"content-type": "application/json", **headers}
        path = "/v1/messages/count_tokens"
        return await self._call("count_tokens", "post", path, content=body, headers=sent)

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
            yield _Stream(response, head_of(response.headers), self)
        finally:
            with anyio.CancelScope(shield=True), contextlib.suppress(Exception):
                await response.close()

    async def _call(
        self,
        call: str,
        method: str,
        path: str,
        *,
        content: AsyncIterator[bytes] | bytes | None = None,
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
        return reply_of(call, response.status_code, response.headers, body)

    @contextlib.contextmanager
    def _translated(self, call: str) -> Any:
        """Turn whatever the SDK or its transport raises into a `CallFailed` without a key in it."""
        try:
            yield
        except anthropic.APIStatusError as error:
            failure = failure_of_status(
                call, error.status_code, error.response.headers, error.body, error.message
            )
        except anthropic.APIConnectionError as error:
            failure = failure_of_transport(call, error.__cause__ or error)
        except (anthropic.AnthropicError, TypeError) as error:
            # No credential, or one the SDK cannot use: raised before anything is sent.
            failure = Failure(call=call, message=str(error), sent=False, refused_unsent=True)
        except Exception as error:
            failure = failure_of_transport(call, error)
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


def _error_body(answer: bytes) -> tuple[object, str]:
    """Return the body of an HTTP error as JSON, where it is, and as text."""
    try:
        return load_json(answer), ""
    except ValueError:
        return None, answer.decode("utf-8", "replace")


def _message_reply(status: int, headers: Mapping[str, str], answer: bytes) -> Reply:
    """Return a direct answer: parsed where it is settled, here only its shape is looked at."""
    if not answer.lstrip().startswith(b"{") or b'"type":"error"' in answer[:40]:
        return reply_of("message", status, headers, answer)
    return replace(head_of(headers), body=answer)


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
