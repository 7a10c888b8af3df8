"""Items from files."""

from __future__ import annotations

import gzip
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from batchwright.errors import IntakeError
from batchwright.items import items_from_chunks, items_from_jsonl

LINE = b'{"custom_id": "a/\xc3\xa9", "params": {"model": "m"}}'


def test_bom_line_ends_blank_lines_and_a_last_line_without_an_end(tmp_path: Path) -> None:
    """What editors of all systems leave in a file does not matter."""
    path = tmp_path / "items.jsonl"
    path.write_bytes(b"\xef\xbb\xbf" + LINE + b"\r\n\r\n  \n" + LINE.replace(b"custom_id", b"id"))
    items = list(items_from_jsonl(path))
    assert [item.id for item in items] == ["a/é", "a/é"]
    assert items[0].params == {"model": "m"}


def test_headers_and_metadata_are_taken(tmp_path: Path) -> None:
    """They stand beside params."""
    path = tmp_path / "items.jsonl"
    path.write_text('{"id": "a", "params": {}, "headers": {"anthropic-beta": "x"}, "metadata": 3}')
    (item,) = items_from_jsonl(path)
    assert (item.headers, item.metadata) == ({"anthropic-beta": "x"}, 3)


def test_gzip(tmp_path: Path) -> None:
    """A name that ends in .gz is unpacked on the way; a cut one is refused."""
    path = tmp_path / "items.jsonl.gz"
    path.write_bytes(gzip.compress(LINE + b"\n" + LINE))
    assert len(list(items_from_jsonl(path))) == 2
    path.write_bytes(path.read_bytes()[:-12])
    with pytest.raises(IntakeError, match="is it whole"):
        list(items_from_jsonl(path))
    path.write_bytes(LINE)
    with pytest.raises(IntakeError, match="is it whole"):
        items_from_jsonl(path)


@pytest.mark.parametrize(
    ("line", "says"),
    [
        (b"{", "line 2: not JSON"),
        (b'{"id": "b", "params": {"x": Infinity}}', "line 2: not JSON"),
        (b'{"id": "b", "params": {"x": "\\ud800"}}', "line 2: not JSON"),
        (b'{"id": "b", "params": {"x": "\xff"}}', "line 2: not JSON"),
        (b'[{"id": "b"}]', "JSON list"),
        (b"3", "single value"),
        (b'{"params": {}}', 'neither "custom_id" nor "id"'),
        (b'{"id": "b"}', 'no "params"'),
        (b'{"id": 3, "params": {}}', "ids are strings"),
        (b'{"id": "b", "params": {}, "model": "m"}', "unknown keys"),
    ],
)
def test_a_bad_line_is_refused_by_its_number(tmp_path: Path, line: bytes, says: str) -> None:
    """File and line stand in the message."""
    path = tmp_path / "items.jsonl"
    path.write_bytes(LINE + b"\n" + line + b"\n")
    with pytest.raises(IntakeError, match=r"items\.jsonl, line 2") as caught:
        list(items_from_jsonl(path))
    assert says in str(caught.value)


def test_utf16_is_named(tmp_path: Path) -> None:
    """What a Windows shell writes by default is told apart from broken JSON."""
    path = tmp_path / "items.jsonl"
    path.write_text('{"id": "a"}', encoding="utf-16")
    with pytest.raises(IntakeError, match="UTF-16"):
        list(items_from_jsonl(path))


def test_what_is_no_file_is_refused_at_once(tmp_path: Path) -> None:
    """Without iterating."""
    with pytest.raises(IntakeError, match="no file"):
        items_from_jsonl(tmp_path / "nowhere")
    with pytest.raises(IntakeError, match="folder"):
        items_from_jsonl(tmp_path)
    (tmp_path / "empty").touch()
    with pytest.raises(IntakeError, match="no items"):
        items_from_jsonl(tmp_path / "empty")


@pytest.mark.parametrize("size", [1, 7, 1000])
async def test_chunks_may_be_cut_anywhere(size: int) -> None:
    """Lines are put together again from pieces of a pipe."""
    data = b"\xef\xbb\xbf" + LINE + b"\n\n" + LINE

    async def chunks() -> AsyncIterator[bytes]:
        for start in range(0, len(data), size):
            yield data[start : start + size]

    assert [item.id async for item in items_from_chunks(chunks(), "stdin")] == ["a/é", "a/é"]
