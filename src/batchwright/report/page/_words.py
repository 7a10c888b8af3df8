"""
Numbers, money, spans and moments as a page of a report writes them.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Final

_MINUTE: Final = 60
_HOUR: Final = 3_600
_DAY: Final = 86_400


def number(count: int) -> str:
    """Return a count with its thousands apart."""
    return f"{count:,}"


def items(count: int) -> str:
    """Return a number of items in words."""
    return "1 item" if count == 1 else f"{count:,} items"


def share(part: int, whole: int) -> str:
    """Return a share in per cent; never 100% or 0% for what is only nearly so."""
    if not whole:
        return "0%"
    percent = 100 * part / whole
    if 0 < percent < 0.1:
        return "under 0.1%"
    if 99.9 < percent < 100:
        return "over 99.9%"
    return f"{percent:.0f}%" if percent in {0.0, 100.0} else f"{percent:.1f}%"


def money(usd: float | None) -> str:
    """Return an amount; `None` is unknown."""
    if usd is None:
        return "unknown"
    if 0 < usd < 0.01:
        return "under $0.01"
    return f"${usd:,.2f}"


def span(seconds: float) -> str:
    """Return a duration in two units at most."""
    if seconds < _MINUTE:
        return f"{seconds:.0f} s" if seconds >= 10 or seconds <= 0 else f"{seconds:.1f} s"
    if seconds < _HOUR:
        minutes, rest = divmod(round(seconds), _MINUTE)
        return _two(minutes, rest, ("min", "s")) if minutes < 10 else f"{minutes} min"
    if seconds < 2 * _DAY:
        return _two(*divmod(round(seconds / _MINUTE), 60), ("h", "min"))
    return _two(*divmod(round(seconds / _HOUR), 24), ("d", "h"))


def _two(whole: int, rest: int, units: tuple[str, str]) -> str:
    return f"{whole} {units[0]}" + (f" {rest} {units[1]}" if rest else "")


def moment(at: datetime) -> str:
    """Return a moment to the minute, in UTC."""
    return f"{at.astimezone(UTC):%Y-%m-%d %H:%M} UTC"
