"""
Where a call of the SDK turns off to a batch, and comes back as if the API had answered it.

The SDK runs middleware around each request, with the body as it would be sent. So its own code
makes the request, builds the message and raises the error; here one is only turned into the other.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import anthropic
import httpx2
from anthropic import AsyncAnthropic

from batchwright._intake import ALLOWED_HEADERS
from batchwright._json import dump_json
from batchwright._replies import STATUS_OF_TYPE
from batchwright.errors import ConfigurationError
from batchwright.types import ItemError, Outcome

MESSAGES = "/v1/messages"

#: Asks one question: the request's body and its headers.
Ask = Callable[[Mapping[str, Any], Mapping[str, str]], Awaitable[Outcome]]

#: The SDK asks for streaming where an answer may take longer than its default timeout allows. Here
#: nothing streams and no answer comes that soon, so the timeout is another one by a hair.
TIMEOUT = anthropic.Timeout(600.0, connect=5.001)

_STREAM = (
    "this client sends its calls through the Message Batches API, which does not stream; ask "
    "directly, by client.direct or by anthropic.AsyncAnthropic, where somebody waits for the answer"
)

_STATUS_OF_REASON = {
    "too_large": 413,
    "refused_at_intake": 400,
    "expired": 504,
    "overdue": 504,
    "not_found": 404,
    "foreign": 404,
    "archived": 404,
    "canceled": 499,
    "closed": 499,
}
_TYPE_OF_STATUS = {
    400: "invalid_request_error",
    404: "not_found_error",
    413: "request_too_large",
    504: "timeout_error",
}


class Interceptor(anthropic.Middleware):
    """Lets `POST /v1/messages` wait for a batch; everything else goes on to the API."""

    def __init__(self, client: AsyncAnthropic, ask: Ask) -> None:
        """
        Prepare for a client.

        Args:
            client: The SDK's client whose calls turn off here.
            ask: Returns the outcome of a question.
        """
        self._client = client
        self._ask = ask
        url = str(client.base_url).rstrip("/") + MESSAGES
        #: What every answer is told to be the answer to.
        self._asked = httpx2.Request("POST", url)
        self._defaults = {
            name: text
            for name, text in _lowered(client.default_headers).items()
            if name in ALLOWED_HEADERS
        }

    async def handle_async(
        self,
        request: Any,
        call_next: Callable[[Any], Awaitable[anthropic.AsyncAPIResponse[Any]]],
    ) -> anthropic.AsyncAPIResponse[Any]:
        """
        See `anthropic.Middleware`.

        Raises:
            ConfigurationError: The call streams, or has a query.
            APIConnectionError: The API cannot be reached.
        """
        path = str(request.url).partition("?")[0]
        asks = request.method.lower() == "post" and path == MESSAGES
        if not asks or not isinstance(request.json, Mapping):
            return await call_next(request)
        raw_mode = str(request.headers.get("X-Stainless-Raw-Response", ""))
        if request.stream or request.json.get("stream") or raw_mode == "stream":
            raise ConfigurationError(_STREAM)
        if request.query_params:
            raise ConfigurationError("a call that waits for a batch has no query; drop extra_query")
        outcome = await self._ask(_given(request.json), self._headers(request.headers))
        return self._response(request, outcome)

    def _headers(self, given: Mapping[str, Any]) -> dict[str, str]:
        """Return the headers that the question needs; the others go with every request anyway."""
        headers = {**self._defaults, **_lowered(given)}
        return {name: text for name, text in headers.items() if not name.startswith("x-stainless-")}

    def _response(self, request: Any, outcome: Outcome) -> anthropic.AsyncAPIResponse[Any]:
        """Return what the API would have answered."""
        answer = outcome.answer if outcome.status in {"succeeded", "rejected"} else None
        if answer is not None:
            headers = {"batchwright-via": outcome.via or ""}
            response = _http(self._asked, 200, dump_json(answer), headers)
        else:
            response = _refusal(self._asked, outcome)
        return anthropic.AsyncAPIResponse(
            raw=response,
            cast_to=request.cast_to,
            client=self._client,
            stream=False,
            stream_cls=None,
            options=request.options,
            retries_taken=request.retries_taken,
        )


def _given(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return *values* without those that the SDK leaves out."""
    left_out = (anthropic.Omit, anthropic.NotGiven)
    return {name: value for name, value in values.items() if not isinstance(value, left_out)}


def _lowered(headers: Mapping[str, Any]) -> dict[str, Any]:
    return {name.lower(): text for name, text in _given(headers).items()}


def _refusal(asked: httpx2.Request, outcome: Outcome) -> httpx2.Response:
    """Return the API's error for an outcome that is no answer."""
    error = outcome.error or ItemError(type="api_error", message="there is no answer")
    if outcome.reason == "interrupted":
        raise anthropic.APIConnectionError(message=error.message, request=asked)
    status = status_of(outcome.reason, error.type)
    kind = error.type if error.type in STATUS_OF_TYPE else _TYPE_OF_STATUS.get(status, "api_error")
    tries = f" (after {outcome.attempts} tries)" if outcome.reason == "exhausted" else ""
    told: dict[str, Any] = {"type": kind, "message": error.message + tries}
    if error.code is not None:
        told["details"] = {"error_code": error.code}
    body = {"type": "error", "error": told, "request_id": error.request_id}
    headers = {} if error.request_id is None else {"request-id": error.request_id}
    # All tries were made: the SDK's own would only ask once more.
    return _http(asked, status, dump_json(body), {"x-should-retry": "false", **headers})


def status_of(reason: str | None, kind: str) -> int:
    """Return the HTTP status of an outcome, by the API's error type before the reason."""
    for table, key in (
        (STATUS_OF_TYPE, kind),
        (_STATUS_OF_REASON, kind),
        (_STATUS_OF_REASON, reason),
    ):
        if key in table:
            return table[key]
    return 502


def _http(
    asked: httpx2.Request, status: int, body: bytes, headers: Mapping[str, str]
) -> httpx2.Response:
    told = {"content-type": "application/json", **headers}
    return httpx2.Response(status, headers=told, content=body, request=asked)


def make_client(options: Mapping[str, Any]) -> AsyncAnthropic:
    """Return the SDK's own client."""
    return AsyncAnthropic(**options)


def gathering_client(direct: AsyncAnthropic, ask: Ask) -> AsyncAnthropic:
    """Return a client like *direct* whose messages wait for batches."""
    options: dict[str, Any] = {"middleware": [*direct.middleware, Interceptor(direct, ask)]}
    if direct.timeout == anthropic.DEFAULT_TIMEOUT:
        options["timeout"] = TIMEOUT
    return direct.copy(**options)


def account_of(client: AsyncAnthropic) -> tuple[Any, ...]:
    """Return what must agree where two clients work on one run: server, credential, headers."""
    headers = {
        name: text
        for name, text in _lowered(client.default_headers).items()
        if name not in ALLOWED_HEADERS and not name.startswith("x-stainless-")
    }
    return (str(client.base_url), client.api_key, client.auth_token, headers)


#: What the client passes for where its class is asked for.
SDK_CLASS = AsyncAnthropic
