"""Faults in one line of text: `create:lost:0.1, results:cut, retrieve:502:0.2, *:slow`.

Each is `ROUTE:FAULT[:SHARE]`, separated by commas. A share is drawn from the seed for every call;
without one the fault strikes one call in ten.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from batchwright.simulator.actions import (
    Action,
    CutBody,
    Delay,
    Drop,
    Error,
    Gzip,
    Hang,
    Mutate,
    NoContentType,
    Raise413,
    Respond,
    Slow,
)
from batchwright.simulator.hooks import Chance

ROUTES = ("create", "retrieve", "list", "cancel", "delete", "results", "models", "message", "*")
#: Share of the calls that a fault strikes where the text gives none.
DEFAULT_SHARE = 0.1

FAULTS: Mapping[str, Callable[[], Action]] = {
    "lost": lambda: Drop("after"),
    "reset": lambda: Drop("after", reset=True),
    "refused": lambda: Drop("before"),
    "hang": Hang,
    "slow": lambda: Delay(0.2),
    "drip": lambda: Slow(0.01, size=1_000),
    "cut": lambda: CutBody(after_lines=1),
    "cut-clean": lambda: CutBody(after_lines=1, mid_line=False, framing="close"),
    "garbled": lambda: CutBody(after_bytes=40, framing="close"),
    "html": lambda: Respond(502, "<html><body>bad gateway</body></html>"),
    "too-large": lambda: Raise413(html=True),
    "gzip": Gzip,
    "no-type": NoContentType,
    "odd-status": lambda: Mutate(_odd_status),
}


def parse_faults(text: str) -> list[Chance]:
    """Return the faults that *text* names.

    Raises:
        ValueError: A part of it is none; the message says what it takes.
    """
    return [_one(part.strip()) for part in text.split(",") if part.strip()]


def _one(part: str) -> Chance:
    route, _, rest = part.partition(":")
    fault, _, share = rest.partition(":")
    if route not in ROUTES:
        raise ValueError(f"{part!r} names no route: it begins with one of {', '.join(ROUTES)}")
    return Chance(route, _action(part, fault), _share(part, share))


def _action(part: str, fault: str) -> Action:
    if fault.isdecimal() and 400 <= int(fault) <= 599:
        return Error(int(fault))
    if fault not in FAULTS:
        names = ", ".join(sorted(FAULTS))
        raise ValueError(f"{part!r} names no fault: a status from 400 to 599, or one of {names}")
    return FAULTS[fault]()


def _share(part: str, share: str) -> float:
    try:
        rate = float(share) if share else DEFAULT_SHARE
    except ValueError:
        rate = -1.0
    if not 0 <= rate <= 1:
        raise ValueError(f"{part!r} ends with a share from 0 to 1, as in create:lost:0.1")
    return rate


def _odd_status(reply: object) -> None:
    body = getattr(reply, "body", None)
    if isinstance(body, dict) and "processing_status" in body:
        body["processing_status"] = "paused_review"
