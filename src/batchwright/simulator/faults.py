"""Carrying out actions: what happens before the work, and what to its answer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import orjson

from batchwright.simulator._time import real_sleep
from batchwright.simulator.actions import (
    Action,
    ChunkSize,
    CutBody,
    Delay,
    Drop,
    Error,
    Gzip,
    Hang,
    Lines,
    Mutate,
    NoContentType,
    Raise413,
    Respond,
    Slow,
)
from batchwright.simulator.exchange import ClientGone, Exchange
from batchwright.simulator.problems import ApiProblem
from batchwright.simulator.replies import Reply

_TYPES = {
    400: "invalid_request_error",
    401: "authentication_error",
    402: "billing_error",
    403: "permission_error",
    404: "not_found_error",
    409: "conflict_error",
    413: "request_too_large",
    429: "rate_limit_error",
    504: "timeout_error",
    529: "overloaded_error",
}
EDGE_413 = (
    "<html>\r\n<head><title>413 Request Entity Too Large</title></head>\r\n<body>\r\n"
    "<center><h1>413 Request Entity Too Large</h1></center>\r\n<hr><center>cloudflare</center>"
    "\r\n</body>\r\n</html>\r\n"
)


async def before_work(actions: Sequence[Action], exchange: Exchange) -> Reply | None:
    """Carry out what comes before the work.

    Returns:
        An answer that takes the place of the work, or None: the work is to be done.

    Raises:
        ClientGone: The connection has been ended on purpose.
    """
    for action in actions:
        match action:
            case Delay(when="before"):
                await real_sleep(action.seconds)
            case Drop(when="before"):
                await _end(exchange, reset=action.reset)
            case Hang(after=False):
                await _hang(exchange)
            case Respond():
                return _respond(action)
            case Error(after=False):
                return _error(action, exchange)
            case Raise413():
                return too_large(exchange, html=action.html)
            case _:
                pass
    return None


async def after_work(actions: Sequence[Action], reply: Reply, exchange: Exchange) -> Reply:
    """Carry out what comes after the work, on its answer.

    Raises:
        ClientGone: The connection has been ended on purpose.
    """
    for action in actions:
        match action:
            case Delay(when="after"):
                await real_sleep(action.seconds)
            case Drop(when="after"):
                await _end(exchange, reset=action.reset)
            case Hang(after=True):
                await _hang(exchange)
            case Error(after=True):
                reply = _error(action, exchange)
            case _:
                reply = _changed(action, reply)
    return reply


def _changed(action: Action, reply: Reply) -> Reply:
    match action:
        case Mutate():
            other = action.change(reply)
            return other if isinstance(other, Reply) else reply
        case CutBody():
            reply.cut = action
        case ChunkSize():
            reply.chunk_size = action.size
        case Slow():
            reply.pause, reply.chunk_size = action.seconds, action.size
        case Gzip():
            reply.gzip = True
        case NoContentType():
            reply.headers.pop("content-type", None)
        case Lines() if reply.status == 200:
            reply.lines = _lines(action, reply)
        case _:
            pass
    return reply


def _lines(action: Lines, reply: Reply) -> list[bytes]:
    if callable(action.lines):
        return list(action.lines(list(reply.lines or ())))
    return [
        orjson.dumps(line) + b"\n" if isinstance(line, Mapping) else line for line in action.lines
    ]


async def _end(exchange: Exchange, *, reset: bool) -> None:
    await exchange.wire.close(reset=reset)
    raise ClientGone


async def _hang(exchange: Exchange) -> None:
    await exchange.wire.wait_until_lost()
    raise ClientGone


def _respond(action: Respond) -> Reply:
    kind = "application/json" if isinstance(action.body, Mapping) else "text/html"
    body = dict(action.body) if isinstance(action.body, Mapping) else action.body
    headers = {"content-type": kind, **{k.lower(): v for k, v in action.headers.items()}}
    return Reply(status=action.status, headers=headers, body=body)


def _error(action: Error, exchange: Exchange) -> Reply:
    headers = {name.lower(): value for name, value in action.headers.items()}
    wait = action.retry_after
    if wait is not None:
        headers["retry-after"] = wait if isinstance(wait, str) else f"{wait:g}"
    return exchange.problem(
        ApiProblem(
            action.status,
            action.type or _TYPES.get(action.status, "api_error"),
            action.message,
            error_code=action.error_code,
            headers=headers,
        )
    )


def too_large(exchange: Exchange, *, html: bool) -> Reply:
    """Return a 413: the edge's page, or the API's envelope."""
    if html:
        return Reply(status=413, headers={"content-type": "text/html"}, body=EDGE_413)
    message = "Request exceeds the maximum size"
    return exchange.problem(ApiProblem(413, "request_too_large", message))
