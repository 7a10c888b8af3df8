"""
The files a command is given: looked at before anything is sent.
"""

from __future__ import annotations

import asyncio
import os
import stat
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

from batchwright._export import whole_file
from batchwright._plan.entry import Entry
from batchwright.cli._exits import Stumble
from batchwright.errors import ConfigurationError
from batchwright.items import (
    entries_from_chunks,
    entries_from_jsonl,
    items_from_chunks,
    items_from_jsonl,
)
from batchwright.store import CheckpointStore
from batchwright.stores import MemoryStore, SQLiteStore, open_store, reader_of
from batchwright.types import Item

_CHUNK = 1 << 16


def open_items(name: str) -> Iterator[Item] | AsyncIterator[Item]:
    """
    Return the items of a file, of a pipe, or of stdin (`-`).

    Raises:
        IntakeError: The file cannot be read.
    """
    piped = _piped(name)
    return items_from_jsonl(name) if piped is None else items_from_chunks(*piped)


def open_entries(name: str) -> Iterator[Entry] | AsyncIterator[Entry]:
    """
    Return what each line of a file, of a pipe, or of stdin (`-`) holds, be it an item or not.

    Raises:
        IntakeError: The file cannot be read.
    """
    piped = _piped(name)
    return entries_from_jsonl(name) if piped is None else entries_from_chunks(*piped)


def _piped(name: str) -> tuple[AsyncIterator[bytes], str] | None:
    """Return what arrives in pieces and how it is called, `None` for a plain file."""
    if name == "-":
        return _chunks(0, own=False), "stdin"
    path = Path(name)
    if path.exists() and stat.S_ISFIFO(path.stat().st_mode):
        return _chunks(os.open(path, os.O_RDONLY), own=True), name
    return None


async def _chunks(fd: int, *, own: bool) -> AsyncIterator[bytes]:
    """Yield what *fd* gives, waiting on the loop, so that Ctrl-C is heard meanwhile."""
    loop = asyncio.get_running_loop()
    try:
        while True:
            await _readable(loop, fd)
            chunk = os.read(fd, _CHUNK)
            if not chunk:
                return
            yield chunk
    finally:
        if own:
            os.close(fd)


async def _readable(loop: asyncio.AbstractEventLoop, fd: int) -> None:
    ready = loop.create_future()

    def wake() -> None:
        if not ready.done():
            ready.set_result(None)

    try:
        loop.add_reader(fd, wake)
    except PermissionError:
        return  # a plain file never blocks, and the loop cannot wait for it
    try:
        await ready
    finally:
        loop.remove_reader(fd)


def store_file(spec: str) -> Path | None:
    """
    Return the file that a store lives in, `None` for one that lives in a database.

    Raises:
        Stumble: It lives nowhere.
        ConfigurationError: *spec* names no store.
    """
    store = open_store(spec)
    if isinstance(store, MemoryStore):
        raise Stumble(f"--store {spec} forgets everything when the command ends; name a file")
    return store.path if isinstance(store, SQLiteStore) else None


def known_store(spec: str) -> Path | None:
    """
    Return the file of a store that must be there already, `None` where a database tells by itself.

    Raises:
        Stumble: It does not exist; it is not created.
    """
    path = store_file(spec)
    if path is not None and not path.exists():
        raise Stumble(
            f"there is no store {path}; look at --store and at the folder you are in "
            "(batchwright run creates one)"
        )
    return path


def reader(spec: str) -> CheckpointStore:
    """
    Return a store to be read alone: what it lives in is neither created nor changed.

    Raises:
        Stumble: There is nothing to read yet.
    """
    known_store(spec)
    store = reader_of(open_store(spec))
    if store is None:
        raise Stumble(f"the store {spec} is empty so far; batchwright run fills it")
    return store


def check_files(items: str, store: Path | None, out: Path | None) -> None:
    """
    Make sure that the files of a run are three different ones, and that *out* can be written.

    Raises:
        Stumble: They are not, or it cannot.
    """
    others: list[tuple[str, Path | None]] = [("the store", store)]
    if items != "-":
        others.append(("ITEMS itself", Path(items)))
        if store is not None and _same(Path(items), store):
            raise Stumble(f"{items} is both ITEMS and the store; name another --store")
    check_out(out, *others)


def check_out(out: Path | None, *others: tuple[str, Path | None], flag: str = "--out") -> None:
    """
    Make sure that *out* can be written at the end, and is none of the *others*.

    Raises:
        Stumble: It is another file of the run, or cannot be written; it is called by its *flag*.
    """
    if out is None:
        return
    if out.is_dir():
        raise Stumble(f"{flag} {out} is a folder; name a file in it")
    if str(out) == "-" or (out.exists() and not out.is_file()):
        raise Stumble(f"{flag} {out} is not a plain file; name one")
    for what, path in others:
        if path is not None and _same(out, path):
            raise Stumble(f"{flag} {out} is {what}, which would be overwritten; name another file")
    _try_writing(out, flag)


def _same(one: Path, other: Path) -> bool:
    return one.resolve() == other.resolve() or (
        one.exists() and other.exists() and one.samefile(other)
    )


def _try_writing(out: Path, flag: str) -> None:
    """Write beside *out* as at the end; *out* itself stays as it is."""
    probe = out.with_name(out.name + ".probe")
    try:
        with whole_file(probe):
            pass
    except ConfigurationError as error:
        raise Stumble(f"{flag}: {str(error).replace(str(probe), str(out))}") from None
    probe.unlink(missing_ok=True)
