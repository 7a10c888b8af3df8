"""
Items from files: one JSON object a line, as the API's own batch files have them.

Nothing is read ahead and nothing is kept, so a file may be larger than memory.
"""

from __future__ import annotations

import gzip
import os
import zlib
from collections.abc import AsyncIterable, AsyncIterator, Iterator
from pathlib import Path
from typing import IO, cast

import orjson

from batchwright._intake import as_item
from batchwright._plan.entry import Entry
from batchwright.errors import IntakeError
from batchwright.types import Item

_BOM = b"\xef\xbb\xbf"
_EXAMPLE = '{"custom_id": "doc-1", "params": {…}}'
_UNSENT = " Nothing was sent."
_UTF16 = (b"\xff\xfe", b"\xfe\xff")


def items_from_jsonl(path: str | os.PathLike[str]) -> Iterator[Item]:
    """
    Return the items of a JSONL file, read as they are asked for.

    A line is `{"custom_id": …, "params": {…}}`; `id` is taken for `custom_id` as well, and
    `headers` and `metadata` may stand beside them. Blank lines are skipped, a byte order mark and
    Windows line ends do not matter, and a name that ends in `.gz` is read through gzip.

    Raises:
        IntakeError: At once, when the file cannot be read; while iterating, when a line is no
            item (the message names file and line) or the file holds none.
    """
    source = Path(path)
    # Opened twice, so that what was named wrong is said at once and nothing stays open unread.
    with _open(source) as file:
        if not _next_line(file, LineParser(str(source))):
            raise _no_items(str(source))
    return _items(source)


def _open(path: Path) -> IO[bytes]:
    if path.is_dir():
        raise IntakeError(f"{path} is a folder; name a JSONL file with one item a line")
    try:
        if path.suffix == ".gz":
            return cast("IO[bytes]", gzip.open(path, "rb"))
        return path.open("rb")
    except FileNotFoundError:
        raise IntakeError(
            f"there is no file {path}; look at the spelling and at the folder you are in"
        ) from None
    except OSError as error:
        raise IntakeError(f"{path} cannot be read: {error.strerror or error}") from None


def _items(path: Path) -> Iterator[Item]:
    parser = LineParser(str(path))
    for line in _lines(path, parser):
        if (item := parser.take(line)) is not None:
            yield item
    parser.close()


def entries_from_jsonl(path: str | os.PathLike[str]) -> Iterator[Entry]:
    """
    Return what each line of a JSONL file holds, item or not, with its number.

    Raises:
        IntakeError: The file cannot be read, or holds nothing.
    """
    source = Path(path)
    parser = LineParser(str(source))
    for line in _lines(source, parser):
        if (entry := parser.entry(line)) is not None:
            yield entry
    parser.close()


def _lines(path: Path, parser: LineParser) -> Iterator[bytes]:
    with _open(path) as file:
        while line := _next_line(file, parser):
            yield line


def _next_line(file: IO[bytes], parser: LineParser) -> bytes:
    # Around the reading alone: what the consumer raises at a yield is not the file's fault.
    try:
        return file.readline()
    except (OSError, EOFError, zlib.error) as error:
        raise IntakeError(
            f"{parser.name}, after line {parser.number}: the file cannot be read on ({error}); "
            "is it whole? Nothing was sent."
        ) from None


async def items_from_chunks(chunks: AsyncIterable[bytes], name: str) -> AsyncIterator[Item]:
    """
    Yield the items of a stream that arrives in pieces, such as a pipe.

    Raises:
        IntakeError: As for `items_from_jsonl`.
    """
    parser = LineParser(name)
    async for line in _lines_of(chunks):
        if (item := parser.take(line)) is not None:
            yield item
    parser.close()


async def entries_from_chunks(chunks: AsyncIterable[bytes], name: str) -> AsyncIterator[Entry]:
    """Yield what each line of a stream holds, as `entries_from_jsonl` does."""
    parser = LineParser(name)
    async for line in _lines_of(chunks):
        if (entry := parser.entry(line)) is not None:
            yield entry
    parser.close()


async def _lines_of(chunks: AsyncIterable[bytes]) -> AsyncIterator[bytes]:
    parts: list[bytes] = []
    async for chunk in chunks:
        *lines, rest = chunk.split(b"\n")
        for line in lines:
            parts.append(line)
            yield b"".join(parts)
            parts = []
        parts.append(rest)
    yield b"".join(parts)


def _no_items(name: str) -> IntakeError:
    return IntakeError(f"{name} holds no items; each line is one, such as {_EXAMPLE}")


class LineParser:
    """
    Turns lines into items and knows where it stands.

    Attributes:
        name: Of the file, for messages.
        number: Of the latest line, from 1.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.number: int = 0
        self._items = 0
        self._faults = 0

    def take(self, line: bytes) -> Item | None:
        """
        Return the item of the next line, or `None` for a blank one.

        Raises:
            IntakeError: The line is no item.
        """
        self.number += 1
        if self.number == 1:
            if line.startswith(_UTF16):
                raise self._refusal("the file is UTF-16; save it as UTF-8")
            line = line.removeprefix(_BOM)
        if not line.strip():
            return None
        item = self._item_of(line)
        self._items += 1
        return item

    def entry(self, line: bytes) -> Entry | None:
        """Return what the next line holds, be it an item or not, and `None` for a blank one."""
        position = self._items + self._faults
        try:
            item = self.take(line)
        except IntakeError as error:
            self._faults += 1
            fault = str(error).removesuffix(_UNSENT)
            return Entry(position=position, line=self.number, fault=fault)
        return None if item is None else Entry(position=position, line=self.number, item=item)

    def close(self) -> None:
        """
        Say that there are no more lines.

        Raises:
            IntakeError: There was nothing in them at all.
        """
        if not self._items + self._faults:
            raise _no_items(self.name)

    def _item_of(self, line: bytes) -> Item:
        try:
            value = orjson.loads(line)
        except orjson.JSONDecodeError as error:
            # The parser's own text has no part of the line in it: prompts stay out of messages.
            raise self._refusal(
                f"not JSON ({error.msg} at column {error.colno}); each line is one whole JSON "
                f"object, such as {_EXAMPLE}"
            ) from None
        if not isinstance(value, dict):
            kind = "list" if isinstance(value, list) else "single value"
            raise self._refusal(
                f"this is a JSON {kind}, not an object; write one item a line (for a file that "
                "is one list: jq -c '.[]' FILE)"
            )
        try:
            return as_item(value, self._items)
        except IntakeError as error:
            raise self._refusal(str(error)) from None

    def _refusal(self, why: str) -> IntakeError:
        return IntakeError(f"{self.name}, line {self.number}: {why}.{_UNSENT}")
