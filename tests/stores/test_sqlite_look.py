"""
A SQLite store opened for reading only: it is read, and nothing of it is touched.
"""

from __future__ import annotations

import asyncio
import sqlite3

import pytest

from batchwright.errors import StoreBusy, StoreCorrupt, StoreError
from batchwright.stores import SQLiteStore, _sqlite_look, reader_of
from batchwright.testing._store_desk import NOW, OWNER, desk_on, question


@pytest.fixture
async def written(tmp_path):
    """A closed store that holds one run of three items."""
    store = SQLiteStore(tmp_path / "run.db")
    await store.open()
    desk = await desk_on(store)
    await desk.take(*map(question, range(3)))
    await store.release(desk.lease)
    await store.close()
    return store


def found(folder):
    """Return every file with its bytes and the time of its last change."""
    return {p.name: (p.read_bytes(), p.stat().st_mtime_ns) for p in folder.iterdir()}


async def read_everything(store):
    """Read through every reading method that needs no shard."""
    await store.open()
    try:
        (run_id,) = await store.list_runs()
        info = await store.read_run(run_id)
        rows = await store.read_rows(run_id, -1, 10)
        pending = await store.read_pending(run_id, "", -1, 10)
        return info, [row.outcome.id for row in rows], len(pending)
    finally:
        await store.close()


async def test_reading_leaves_no_trace(written):
    """What is read is what was written, and every file is as it was, its time included."""
    folder = written.path.parent
    before = found(folder)

    info, ids, pending = await read_everything(reader_of(written))

    assert (info.items, ids, pending) == (3, ["item-0", "item-1", "item-2"], 3)
    assert found(folder) == before


async def test_reading_while_another_writes(written):
    """What the owner has made durable is seen, also where it is in the log alone."""
    await written.open()
    desk = await desk_on(written)
    await desk.take(*map(question, range(5)))

    info, ids, _ = await read_everything(reader_of(written))
    await written.close()

    assert info.items == len(ids) == 5


async def test_opened_meanwhile_it_is_read_again(written, monkeypatch):
    """A store that somebody opens while it is read as a quiet file is read again with locks."""
    reader = reader_of(written)
    await reader.open()
    tries = []
    read = _sqlite_look._read
    other = sqlite3.connect(written.path, check_same_thread=False)

    def reading(path, busy_timeout, work, *, quiet):
        tries.append(quiet)
        other.execute("UPDATE runs SET wave = 7")
        other.commit()
        return read(path, busy_timeout, work, quiet=quiet)

    monkeypatch.setattr(_sqlite_look, "_read", reading)
    info = await reader.read_run("run")
    await reader.close()
    other.close()

    assert info.wave == 7
    assert tries == [True, False]


async def test_changed_all_the_time(written, monkeypatch):
    """Where it never holds still, that is said."""
    monkeypatch.setattr(_sqlite_look, "_moved", lambda path, before: True)

    with pytest.raises(StoreBusy, match="try again"):
        await reader_of(written).open()


async def test_nothing_can_be_written(written):
    """Every writing method is refused before it changes anything."""
    reader = reader_of(written)
    await reader.open()
    before = found(written.path.parent)
    with pytest.raises(StoreError, match="reading only"):
        await reader.acquire("run", OWNER, NOW, replacing=None)
    await reader.close()

    assert found(written.path.parent) == before


async def test_not_a_store(tmp_path):
    """Another program's file is recognised, and a folder too."""
    (tmp_path / "notes.txt").write_text("no database, and long enough to be read as one " * 40)
    with pytest.raises(StoreCorrupt):
        await reader_of(SQLiteStore(tmp_path / "notes.txt")).open()
    with pytest.raises(StoreError, match="is a folder"):
        reader_of(SQLiteStore(tmp_path))


async def test_closed_it_is_not_read(written):
    """A reader that is not open says so."""
    with pytest.raises(StoreError, match="is not open"):
        await reader_of(written).list_runs()


def test_a_name_that_needs_quoting(tmp_path):
    """Characters that mean something in a URL are part of the name."""

    async def main():
        store = SQLiteStore(tmp_path / "a b?c#d%20.db")
        await store.open()
        await desk_on(store)
        await store.close()
        reader = reader_of(store)
        await reader.open()
        runs = await reader.list_runs()
        await reader.close()
        return runs

    assert asyncio.run(main())
