"""
What goes over the wire of a simulated run, and the answers that faults give in place of the usual.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import orjson


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One call as it reaches the server."""

    call: str
    batch_id: str = ""
    body: bytes = b""
    limit: int = 20
    after_id: str | None = None
    org: str = "sim"


@dataclass(slots=True, kw_only=True)
class Answer:
    """
    What the caller learns.

    Attributes:
        status: HTTP status; `None` where no answer comes.
        data: The JSON object of a 200.
        pieces: The body of a 200 of results.
        broken: The connection breaks behind the pieces.
        error: The API's error envelope (type, message); `None` for an answer that is not its own.
        retry_after: Seconds.
        sent: Whether a byte may have reached the server, where no answer comes.
        hangs: Nothing comes until the caller gives up.
        unknown: The caller cannot tell from it whether the effect took place.
        limit: `anthropic-ratelimit-requests-limit`.
    """

    status: int | None = 200
    data: dict[str, Any] | None = None
    pieces: Sequence[bytes] = ()
    broken: bool = False
    error: tuple[str, str] | None = None
    retry_after: float | None = None
    sent: bool = True
    hangs: bool = False
    unknown: bool = False
    limit: float | None = 4_000.0


def refusal(status: int, kind: str, message: str, retry_after: float | None = None) -> Answer:
    """Return a refusal in the API's own envelope."""
    return Answer(status=status, error=(kind, message), retry_after=retry_after)


def lost(*, sent: bool = True, hangs: bool = False) -> Answer:
    """Return that nothing comes back."""
    return Answer(status=None, sent=sent, hangs=hangs, unknown=sent)


def odd(status: int, *, error: bool = False) -> Answer:
    """Return an answer from which the caller cannot tell what happened."""
    told = ("api_error", "Internal server error") if error else None
    return Answer(status=status, error=told, unknown=True)


def stranger(line: bytes) -> bytes:
    """Return a result line with an id that nobody sent."""
    data = orjson.loads(line)
    data["custom_id"] = "somebody-else"
    return orjson.dumps(data) + b"\n"


def chunked(pieces: Sequence[bytes], chance: random.Random) -> list[bytes]:
    """Cut a body into network chunks that know nothing of lines."""
    body = b"".join(pieces)
    chunks = []
    while body:
        size = chance.randrange(40, 1_500)
        chunks.append(body[:size])
        body = body[size:]
    return chunks


CREATE_BEFORE: dict[str, Callable[[random.Random], Answer]] = {
    "refuse_429": lambda c: refusal(429, "rate_limit_error", "full", float(c.randrange(1, 40))),
    "refuse_529": lambda c: refusal(529, "overloaded_error", "Overloaded"),
    "refuse_hours": lambda c: refusal(429, "rate_limit_error", "tomorrow", 7_200.0),
    "lost_before": lambda c: lost(),
    "error_500_before": lambda c: odd(500, error=True),
    "refused_connect": lambda c: lost(sent=False),
}
CREATE_AFTER: dict[str, Callable[[], Answer]] = {
    "lost_create": lost,
    "hang_create": lambda: lost(hangs=True),
    "error_500_after": lambda: odd(500, error=True),
    "garbled_create": lambda: odd(200),
    "edge_429": lambda: odd(429),
}
DIRECT_BEFORE: dict[str, Callable[[], Answer]] = {
    "direct_429": lambda: refusal(429, "rate_limit_error", "slow down", 3.0),
    "direct_529": lambda: refusal(529, "overloaded_error", "Overloaded"),
    "direct_500": lambda: refusal(500, "api_error", "Internal server error"),
    "direct_lost_before": lost,
}
DIRECT_AFTER: dict[str, Callable[[], Answer]] = {
    "direct_lost": lost,
    "direct_garbled": lambda: odd(200),
}
ACCOUNT: dict[str, Callable[[], Answer]] = {
    "account_create": lambda: refusal(403, "permission_error", "not for this workspace"),
    "account_get": lambda: refusal(401, "authentication_error", "invalid x-api-key"),
}
SIMPLE: dict[str | None, Callable[[], Answer]] = {
    "get_404": lambda: refusal(404, "not_found_error", "not found"),
    "get_500": lambda: refusal(500, "api_error", "Internal server error"),
    "get_429": lambda: refusal(429, "rate_limit_error", "slow down", 3.0),
    "get_lost": lost,
    "get_garbled": lambda: Answer(data={"unexpected": True}),
    "list_500": lambda: refusal(500, "api_error", "Internal server error"),
    "list_lost": lost,
}
