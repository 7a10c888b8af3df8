"""
From an answer's status, headers and bytes to facts: a `Reply`, or the `Failure` it stands for.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any

from batchwright._api import CallFailed, Reply
from batchwright._clock import clock
from batchwright._faults import Failure
from batchwright._json import load_json
from batchwright._pace import parse_retry_after

#: The status that goes with an error type of the API.
STATUS_OF_TYPE = {
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


def head_of(headers: Mapping[str, str]) -> Reply:
    now = clock().now()
    return Reply(
        server_time=_date_of(headers.get("date")),
        retry_after=parse_retry_after(headers.get("retry-after"), now),
        request_limit=_number_of(headers.get("anthropic-ratelimit-requests-limit")),
        input_limit=_number_of(headers.get("anthropic-ratelimit-input-tokens-limit")),
        output_limit=_number_of(headers.get("anthropic-ratelimit-output-tokens-limit")),
        organization=headers.get("anthropic-organization-id"),
        workspace=headers.get("anthropic-workspace-id"),
    )


def reply_of(call: str, status: int, headers: Mapping[str, str], body: bytes) -> Reply:
    """Return the answer, or raise what a 200 without a usable object amounts to."""
    head = head_of(headers)
    try:
        data = load_json(body)
    except ValueError:
        data = None
    if isinstance(data, dict) and data.get("type") == "error":
        raise CallFailed(_failure_of_body(call, status, data, head))
    if not isinstance(data, dict):
        text = f"an answer that is not the API's JSON ({len(body)} bytes)"
        raise CallFailed(Failure(call=call, status=status, message=text))
    return replace(head, data=data)


def _failure_of_body(call: str, status: int, data: dict[str, Any], head: Reply) -> Failure:
    """Return the failure that an error object with status 200 stands for."""
    error = data.get("error")
    inner: dict[str, Any] = error if isinstance(error, dict) else {}
    kind = str(inner.get("type") or "api_error")
    # A create answered in a shape nobody documents stays what it is: unknown.
    meant = status if call == "create" else STATUS_OF_TYPE.get(kind, 500)
    return Failure(
        call=call,
        status=meant,
        type=kind,
        code=_code_of(inner),
        message=str(inner.get("message") or ""),
        request_id=_text_of(data.get("request_id")),
        retry_after=head.retry_after,
    )


def failure_of_status(
    call: str, status: int, headers: Mapping[str, str], body: object, text: str
) -> Failure:
    """Return the failure that an HTTP error stands for; *text* is what the SDK made of it."""
    inner = body.get("error") if isinstance(body, dict) else None
    known = isinstance(body, dict) and body.get("type") == "error" and isinstance(inner, dict)
    facts: dict[str, Any] = inner if isinstance(inner, dict) else {}
    message = facts.get("message") if known else _excerpt(text)
    return Failure(
        call=call,
        status=status,
        type=str(facts.get("type")) if known and facts.get("type") else None,
        code=_code_of(facts),
        message=str(message or ""),
        request_id=headers.get("request-id"),
        retry_after=parse_retry_after(headers.get("retry-after"), clock().now()),
    )


#: Parts of the names of errors that come before a byte of the request has left.
UNSENT = (
    "ConnectError",
    "ConnectTimeout",
    "ConnectionTimeout",
    "Connector",
    "InvalidURL",
    "InvalidUrl",
    "PoolTimeout",
    "ProxyConnection",
    "ProxyError",
    "UnsupportedProtocol",
)


def failure_of_transport(call: str, error: BaseException) -> Failure:
    """Return the failure of a call that got no answer, or only a part of one."""
    # The SDK's aiohttp transport calls every lost connection a ConnectError, also one that was
    # lost after the request had been sent: what aiohttp itself said is believed.
    cause = error.__cause__
    told = cause if cause and type(cause).__module__.startswith("aiohttp") else error
    # Judged by name, since the SDK may run on either of two transports with their own classes.
    name = type(told).__name__
    detail = str(told)
    return Failure(
        call=call,
        message=f"{name}: {detail}" if detail else name,
        sent=not any(part in name for part in UNSENT),
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
