"""Answers on their way out: a reply, and the bytes it becomes."""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import orjson

from batchwright.simulator.actions import CutBody

#: Result lines are gathered to about this many bytes for each piece that is sent.
_PIECE = 32_768


@dataclass(slots=True, kw_only=True)
class Reply:
    """One answer, not yet bytes.

    Attributes:
        status: HTTP status.
        headers: Names in lower case.
        body: A JSON value, text or bytes; not used when there are lines.
        lines: Pieces of a long body, made as they are asked for.
        gather: Join small lines into larger pieces (not for server-sent events).
        chunk_size: Cut the body into pieces of exactly this many bytes.
        pause: Real seconds between two pieces.
        gzip: Compress the body.
        cut: Break the connection in the body.
    """

    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    body: Any = None
    lines: Iterable[bytes] | None = None
    gather: bool = True
    chunk_size: int | None = None
    pause: float = 0.0
    gzip: bool = False
    cut: CutBody | None = None

    def encoded(self) -> bytes:
        """Return the bytes of `body`."""
        if isinstance(self.body, bytes):
            return self.body
        if isinstance(self.body, str):
            return self.body.encode()
        return b"" if self.body is None else orjson.dumps(self.body)

    def pieces(self) -> Iterator[bytes]:
        """Yield the body in the pieces in which it goes out."""
        source: Iterable[bytes] = [self.encoded()] if self.lines is None else self.lines
        if self.cut is not None:
            source = _cut(source, self.cut)
        if self.gzip:
            source = _gzipped(source)
        if self.chunk_size is not None:
            return _sized(source, self.chunk_size)
        return _gathered(source) if self.gather else iter(source)


def json_reply(body: Mapping[str, Any], status: int = 200, **headers: str) -> Reply:
    """Return a reply with a JSON body."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return Reply(status=status, headers={"content-type": "application/json", **named}, body=body)


def _gathered(source: Iterable[bytes]) -> Iterator[bytes]:
    held: list[bytes] = []
    size = 0
    for part in source:
        held.append(part)
        size += len(part)
        if size >= _PIECE:
            yield b"".join(held)
            held, size = [], 0
    if held:
        yield b"".join(held)


def _sized(source: Iterable[bytes], size: int) -> Iterator[bytes]:
    rest = b""
    for part in source:
        rest += part
        whole = len(rest) - len(rest) % size
        for start in range(0, whole, size):
            yield rest[start : start + size]
        rest = rest[whole:]
    if rest:
        yield rest


def _gzipped(source: Iterable[bytes]) -> Iterator[bytes]:
    press = zlib.compressobj(wbits=31)
    for part in source:
        if pressed := press.compress(part):
            yield pressed
    yield press.flush()


def _cut(source: Iterable[bytes], cut: CutBody) -> Iterator[bytes]:
    if cut.after_bytes is not None:
        yield from _first_bytes(source, cut.after_bytes)
        return
    assert cut.after_lines is not None, "checked by CutBody"
    for number, line in enumerate(_split_lines(source)):
        if number == cut.after_lines:
            if cut.mid_line:
                yield line[: len(line) // 2]
            return
        yield line


def _first_bytes(source: Iterable[bytes], size: int) -> Iterator[bytes]:
    for part in source:
        yield part[:size]
        size -= len(part)
        if size <= 0:
            return


def _split_lines(source: Iterable[bytes]) -> Iterator[bytes]:
    for part in source:
        start = 0
        while start < len(part):
            end = part.find(b"\n", start) + 1 or len(part)
            yield part[start:end]
            start = end
