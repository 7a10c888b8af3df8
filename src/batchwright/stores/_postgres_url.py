"""
PostgreSQL: what a store's URL says, and how it is shown without a password.

Nothing here needs the driver. No message repeats a part of a URL that could be a password.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import quote, unquote

from batchwright.errors import ConfigurationError

#: The schema that holds the tables where the URL names none.
SCHEMA: Final = "batchwright"
#: Seconds for which a server may be away before the store gives up.
OUTAGE: Final = 60.0

_URL: Final = re.compile(
    r"postgres(?:ql)?://(?:(?P<user>[^@/]*)@)?(?P<hosts>[^/?]*)(?P<path>/[^?]*)?(?:\?(?P<query>.*))?",
    re.DOTALL,
)
_HOST: Final = re.compile(r"(?:\[[0-9A-Fa-f:.%]*\]|[^:\[\]@]*)(?::[0-9]*)?")
#: What of a query is shown: it says where the store is, and is no secret.
_SHOWN: Final = frozenset({"host", "hostaddr", "port", "dbname", "user", "service", "schema"})
_MAX_NAME: Final = 63

_EXAMPLE: Final = "postgresql://user:password@host:5432/database"


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """
    Where a store lives.

    Attributes:
        url: What the driver is given; it may hold a password.
        schema: Name of the schema with the tables.
        outage: Seconds for which the server may be away.
        name: How the store is shown.
    """

    url: str = field(repr=False)
    schema: str
    outage: float
    name: str


class InDatabase:
    """
    What the store shares with those who must know it where its driver may be missing.

    Raises:
        ConfigurationError: *url* is no URL of a store.
    """

    def __init__(self, url: str, *, read_only: bool = False) -> None:
        self.url = url
        self.read_only = read_only
        self.target: Target = parse(url)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.target.name!r})"


def parse(url: str) -> Target:
    """
    Read the URL of a store.

    Raises:
        ConfigurationError: It cannot be one, or `schema` or `outage` is wrong.
    """
    found = _URL.fullmatch(url)
    if found is None or not _is_sound(found):
        raise ConfigurationError(
            f"store is not a PostgreSQL URL like {_EXAMPLE}. Characters such as '@', ':', '/', '?' "
            "and '%' within a user name or a password are written as %40, %3A, %2F, %3F and %25"
        )
    query = _query(found)
    ours = {name: value for name, value in query if name in {"schema", "outage"}}
    rest = [(name, value) for name, value in query if name not in ours]
    return Target(
        url=_join(url if found["query"] is None else url[: found.start("query") - 1], rest),
        schema=_schema(ours.get("schema", SCHEMA)),
        outage=_outage(ours.get("outage")),
        name=shown(url),
    )


def shown(url: str) -> str:
    """Return how a URL is shown: who, where and which schema, no password."""
    found = _URL.fullmatch(url)
    if found is None or not _is_sound(found):
        return "postgresql://…"
    user = "" if found["user"] is None else found["user"].partition(":")[0] + "@"
    place = f"postgresql://{user}{found['hosts']}{found['path'] or ''}"
    return _join(place, [pair for pair in _query(found) if pair[0] in _SHOWN])


def _is_sound(found: re.Match[str]) -> bool:
    """Tell whether a password with unescaped characters cannot have slipped into another part."""
    hosts = found["hosts"].split(",")
    return all(_HOST.fullmatch(host) for host in hosts) and "@" not in (found["path"] or "")


def _query(found: re.Match[str]) -> list[tuple[str, str]]:
    pairs = [part.partition("=") for part in (found["query"] or "").split("&") if part]
    return [(unquote(name), unquote(value)) for name, _, value in pairs]


def _join(place: str, query: list[tuple[str, str]]) -> str:
    pairs = "&".join(f"{quote(name, safe='')}={quote(value, safe='/')}" for name, value in query)
    return f"{place}?{pairs}" if pairs else place


def _schema(name: str) -> str:
    if not name or "\0" in name or len(name.encode()) > _MAX_NAME:
        raise ConfigurationError(
            f"schema={name!r} in the URL of the store is no name; it takes 1 to {_MAX_NAME} bytes"
        )
    return name


def _outage(text: str | None) -> float:
    if text is None:
        return OUTAGE
    try:
        seconds = float(text)
    except ValueError:
        seconds = math.nan
    if not 0 <= seconds < math.inf:
        raise ConfigurationError(
            f"outage={text!r} in the URL of the store is not a number of seconds, such as 60"
        )
    return seconds
