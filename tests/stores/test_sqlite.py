"""
The SQLite store: its file, its failures, and what survives them.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import sqlite3
import stat
import subprocess
import sys
import textwrap

import pytest

from batchwright.errors import SchemaTooNew, StoreBusy, StoreCorrupt, StoreError, StoreFull
from batchwright.store import ItemState, ShardState
from batchwright.stores import SQLiteStore, _rules, _sqlite_db, _sqlite_files, _sqlite_intake
from batchwright.testing._store_desk import LATER, RIVAL, Desk, answer, desk_on, question


@pytest.fixture
async def store(tmp_path):
    """An open store in a fresh file."""
    store = SQLiteStore(tmp_path / "run.db")
    await store.open()
    yield store
    await store.close()


async def on_thread(store, work):
    """Run *work* with the store's connection, on its thread."""
    return await store._worker.call(lambda: work(store._db.conn))


def pragma(path, name):
    """Read a pragma through another connection."""
    conn = sqlite3.connect(path)
    try:
        return conn.execute(f"PRAGMA {name}").fetchone()[0]
    finally:
        conn.close()


# -- the file ---------------------------------------------------------------------------------


async def test_only_the_owner_may_read_it(tmp_path):
    """Prompts are inside: file and journal are readable by their owner alone."""
    old = os.umask(0)
    try:
        store = SQLiteStore(tmp_path / "run.db")
        await store.open()
        await desk_on(store)
        modes = {p.name: stat.S_IMODE(p.stat().st_mode) for p in tmp_path.iterdir()}
        await store.close()
    finally:
        os.umask(old)

    assert modes == {"run.db": 0o600, "run.db-wal": 0o600, "run.db-shm": 0o600}


async def test_marks_and_journal(store):
    """The file says whose it is and in which version, and has a write-ahead log."""
    assert pragma(store.path, "application_id") == 0x62777274
    assert pragma(store.path, "user_version") == 1
    assert pragma(store.path, "journal_mode") == "wal"


async def test_closing_leaves_one_file(tmp_path):
    """A closed store is one file that can be copied."""
    store = SQLiteStore(tmp_path / "run.db")
    await store.open()
    await (await desk_on(store)).fill(3)
    await store.close()

    assert [p.name for p in tmp_path.iterdir()] == ["run.db"]


async def test_not_open(tmp_path):
    """A store that is not open says so."""
    with pytest.raises(StoreError, match="is not open"):
        await SQLiteStore(tmp_path / "run.db").list_runs()


async def test_empty_file_is_taken(tmp_path):
    """An empty file, as `mktemp` leaves it, becomes a store."""
    path = tmp_path / "run.db"
    path.touch()
    store = SQLiteStore(path)
    await store.open()
    await store.close()

    assert pragma(path, "user_version") == 1


@pytest.mark.parametrize(
    ("name", "message"),
    [("", "is a folder"), ("none/run.db", "there is no folder"), ("file/run.db", "no folder")],
)
async def test_places_where_it_cannot_be(tmp_path, name, message):
    """A folder, and a file in a folder that does not exist, are refused with the path."""
    (tmp_path / "file").touch()

    with pytest.raises(StoreError, match=message) as caught:
        await SQLiteStore(tmp_path / name).open()

    assert str(tmp_path) in str(caught.value)


@pytest.mark.parametrize("forbidden", ["file", "folder"])
async def test_read_only(tmp_path, monkeypatch, forbidden):
    """A file or a folder that may not be written is refused before anything is sent."""
    path = tmp_path / "run.db"
    refused = path if forbidden == "file" else tmp_path
    monkeypatch.setattr(_sqlite_files.os, "access", lambda p, mode: p != refused)

    with pytest.raises(StoreError, match="cannot be written"):
        await SQLiteStore(path).open()


async def test_a_file_system_that_takes_no_files():
    """A place where even root may create nothing is refused at open."""
    with pytest.raises(StoreError, match="cannot be created"):
        await SQLiteStore("/proc/run.db").open()


# -- whose it is ------------------------------------------------------------------------------


async def refused_unchanged(path, error, match):
    """Demand that opening raises and does not touch the file."""
    before = path.read_bytes()
    with pytest.raises(error, match=match) as caught:
        await SQLiteStore(path).open()
    assert str(path) in str(caught.value)
    assert path.read_bytes() == before
    assert [p.name for p in path.parent.iterdir()] == [path.name]


async def test_not_sqlite(tmp_path):
    """A file that is no database is named, with the remedy, and left alone."""
    path = tmp_path / "items.jsonl"
    path.write_text('{"custom_id": "a"}\n' * 1_000)

    await refused_unchanged(path, StoreCorrupt, "name another file")


async def test_another_programs_database(tmp_path):
    """The database of another program is left alone."""
    path = tmp_path / "other.db"
    conn = sqlite3.connect(path)
    conn.execute("CREATE TABLE bookmarks (url)")
    conn.commit()
    conn.close()

    await refused_unchanged(path, StoreCorrupt, "another program")


async def test_newer_schema(tmp_path):
    """A store of a newer version is refused with both numbers, and left alone."""
    path = tmp_path / "run.db"
    store = SQLiteStore(path)
    await store.open()
    await store.close()
    conn = sqlite3.connect(path)
    conn.execute("PRAGMA user_version = 99")
    conn.close()
    before = path.read_bytes()

    with pytest.raises(SchemaTooNew, match=r"version 99.*up to 1"):
        await SQLiteStore(path).open()

    assert path.read_bytes() == before


async def test_damaged(tmp_path):
    """A store with a destroyed middle says that it is damaged, and what to do."""
    path = tmp_path / "run.db"
    store = SQLiteStore(path)
    await store.open()
    await (await desk_on(store)).take(*(question(n, text="x" * 500) for n in range(500)))
    await store.close()
    with path.open("r+b") as file:
        for page in range(30, path.stat().st_size // 4096):
            file.seek(page * 4096)
            file.write(b"\xff" * 4096)
    store = SQLiteStore(path)
    await store.open()

    with pytest.raises(StoreCorrupt, match=r"is damaged.*recover"):
        await store.read_rows("run", -1, 1_000)
    await store.close()


# -- sharing ----------------------------------------------------------------------------------


@pytest.mark.parametrize("attempt", range(10))
async def test_many_open_at_once(tmp_path, attempt):
    """Several openers of one new file all get it; no one sees half a schema."""
    stores = [SQLiteStore(tmp_path / "run.db") for _ in range(8)]
    opened = await asyncio.gather(*(store.open() for store in stores), return_exceptions=True)
    assert opened == [None] * 8
    await desk_on(stores[0])

    seen = [list(await store.list_runs()) for store in stores]

    for store in stores:
        await store.close()
    assert seen == [["run"]] * 8


async def test_waits_for_a_lock(store):
    """A lock held by another program is waited for; the loop runs on meanwhile."""
    desk = await desk_on(store)
    other = sqlite3.connect(store.path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    writing = asyncio.create_task(store.put_facts(desk.lease, {"a": 1}))
    for _ in range(20):
        await asyncio.sleep(0.001)
    assert not writing.done()

    other.execute("ROLLBACK")
    other.close()
    await writing

    assert (await desk.info()).facts == {"a": 1}


async def test_lock_held_too_long(tmp_path):
    """A lock held for longer than the limit is an error that names it, and nothing is lost."""
    store = SQLiteStore(tmp_path / "run.db", busy_timeout=0.01)
    await store.open()
    desk = await desk_on(store)
    other = sqlite3.connect(store.path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")

    with pytest.raises(StoreBusy, match=r"locked by another program for 0\.01 s"):
        await store.put_facts(desk.lease, {"a": 1})

    other.execute("ROLLBACK")
    other.close()
    await store.put_facts(desk.lease, {"a": 2})
    assert (await desk.info()).facts == {"a": 2}
    await store.close()


async def test_leaves_no_cursor_open(store):
    """Between two pages nothing holds the log back: it can be written back whole."""
    desk = await desk_on(store)
    await desk.fill(100)
    await desk.ship(*range(100))
    await store.read_rows("run", -1, 10, max_bytes=1)
    await store.read_bodies("run", 1, -1, 1)
    await store.read_pending("run", "", -1, 1)
    conn = sqlite3.connect(store.path, timeout=0)

    busy = conn.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0]

    conn.close()
    assert busy == 0


def test_moves_between_loops(tmp_path):
    """A store is bound to no loop."""
    store = SQLiteStore(tmp_path / "run.db")

    async def begin():
        await store.open()
        return await desk_on(store)

    async def end(desk):
        await desk.fill(2)
        states = await desk.states()
        await store.close()
        return states

    desk = asyncio.run(begin())

    assert asyncio.run(end(desk)) == "PP"


async def test_cancelled_caller(store):
    """A transaction whose caller is cancelled is whole, and the store goes on."""
    desk = await desk_on(store)
    await desk.fill(3)
    for facts in ({"a": 1}, {"b": 2}):
        task = asyncio.create_task(store.put_facts(desk.lease, facts))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    assert (await desk.info()).facts in ({"a": 1, "b": 2}, {"a": 1}, {"b": 2}, {})
    await desk.audit()


# -- full -------------------------------------------------------------------------------------


async def test_little_space_left(store, monkeypatch):
    """Intake stops with a message while there is still space for the work already begun."""
    desk = await desk_on(store)
    await desk.fill(1)
    usage = shutil.disk_usage(store.path.parent)._replace(free=_sqlite_files.RESERVE + 2_500)
    monkeypatch.setattr(_sqlite_files.shutil, "disk_usage", lambda _: usage)

    with pytest.raises(StoreFull, match=r"64,002,500 bytes are free and .* are needed"):
        await desk.take(question(0), question(1, text="x" * 2_000))

    await desk.take(question(0))
    assert await desk.states() == "P"


async def test_little_space_left_for_answers(store, monkeypatch):
    """Before anything is sent there is room for the answers to all that was taken in."""
    desk = await desk_on(store)
    usage = shutil.disk_usage(store.path.parent)._replace(free=_sqlite_files.RESERVE + 30_000)
    monkeypatch.setattr(_sqlite_files.shutil, "disk_usage", lambda _: usage)
    intake = await store.begin_intake(desk.lease)

    async def stage(start):
        rows = [question(n) for n in range(start, start + 5)]
        await store.stage(desk.lease, intake, rows, "error")

    for start in range(0, 25, 5):
        await stage(start)
    with pytest.raises(StoreFull, match="and their answers"):
        await stage(25)


async def full_after(store, pages):
    """Let the file grow by so many pages and no more."""

    def limit(conn):
        size = conn.execute("PRAGMA page_count").fetchone()[0]
        conn.execute(f"PRAGMA max_page_count = {size + pages}")

    await on_thread(store, limit)


@pytest.mark.parametrize("pages", range(0, 20, 2))
async def test_full(store, pages):
    """Space that runs out at any moment fails that call whole; freed, the work goes on."""
    desk = await desk_on(store)
    await desk.fill(40)
    await full_after(store, pages)
    raw = b'"' + b"x" * 20_000 + b'"'

    async def work():
        for number in range(40):
            shard = await desk.plan(number)
            await desk.move(shard.number, ShardState.LIVE, batch_id=f"b-{number}")
            await desk.settle(shard.number, answer(number, f"b-{number}", raw=raw))

    with pytest.raises(StoreFull, match="no space left"):
        await work()

    await desk.audit()
    assert (await desk.states()).strip("P") in {"S" * n + i for n in range(20) for i in ("", "I")}
    check = await on_thread(store, lambda c: c.execute("PRAGMA integrity_check").fetchone())
    assert check == ("ok",)
    await full_after(store, 1_000)
    await desk.take(question(0, "more"))
    await desk.audit()


# -- durable ----------------------------------------------------------------------------------


async def statements(store, call):
    """Return what SQLite was told during *call*."""
    told = []
    await on_thread(store, lambda conn: conn.set_trace_callback(told.append))
    await call
    await on_thread(store, lambda conn: conn.set_trace_callback(None))
    return told


async def test_what_survives_a_loss_of_power(store):
    """Intent, batch id and direct answers are synced; what can be read again need not be."""
    desk = await desk_on(store)
    await desk.fill(3)
    await desk.plan(0)
    full = "PRAGMA synchronous = FULL"
    for call, synced in (
        (desk.move(1, ShardState.SENDING), True),
        (desk.move(1, ShardState.LIVE, batch_id="b-1"), True),
        (desk.settle(1, answer(0)), False),
        (desk.settle(None, answer(1, None, via="sync")), True),
        (desk.move(1, ShardState.DONE), False),
    ):
        told = await statements(store, call)
        assert (full in told) is synced
        if synced:
            assert told.index(full) < told.index("BEGIN IMMEDIATE")
            assert told[-1] == "PRAGMA synchronous = NORMAL"


CHILD = """
    import asyncio, sys, time
    from batchwright.stores import SQLiteStore, _sqlite_intake, _sqlite_settle
    from batchwright.testing._store_desk import LATER, RIVAL, Desk, answer, desk_on, question

    async def main():
        store = SQLiteStore(sys.argv[1])
        await store.open()
        desk = await desk_on(store)
        await desk.fill(2_000)
        await desk.ship(*range(2_000))
        await desk.settle(1, *(answer(n) for n in range(500)))
        number = await store.begin_intake(desk.lease)

        def half(db):
            rows = [question(n) for n in range(1_990, 3_000)]
            _sqlite_intake.stage(db, desk.lease, number, rows, "error")
            _sqlite_settle.settle(db, desk.lease, 1, [answer(n) for n in range(400, 2_000)])
            print("in", flush=True)
            time.sleep(60)

        await store._write(half)

    asyncio.run(main())
"""


def test_killed_within_a_transaction(tmp_path):
    """After SIGKILL within a transaction the store is sound and holds what was promised before."""
    path = tmp_path / "run.db"
    script = textwrap.dedent(CHILD)
    with subprocess.Popen([sys.executable, "-c", script, path], stdout=subprocess.PIPE) as child:
        assert child.stdout.readline() == b"in\n"
        child.kill()

    assert pragma(path, "integrity_check") == "ok"
    asyncio.run(go_on_after_kill(path))


async def go_on_after_kill(path):
    store = SQLiteStore(path)
    await store.open()
    held = await store.read_lease("run")
    assert held is not None
    info = await store.read_run("run")
    assert (info.items, info.states[ItemState.SUCCEEDED]) == (2_000, 500)
    desk = Desk(store, await store.acquire("run", RIVAL, LATER, replacing=held.token))
    staged = await desk.take(*(question(n) for n in range(1_990, 2_010)))
    assert (staged.known, staged.new) == (10, 10)
    assert await desk.settle(1, answer(499), answer(500)) == ["again", "applied"]
    await desk.audit()
    await store.close()


# -- upkeep -----------------------------------------------------------------------------------


async def test_forgets_in_pieces(store, monkeypatch):
    """What a large intake left behind goes in several transactions, and leaves nothing."""
    monkeypatch.setattr(_sqlite_intake, "_FORGET", 3)
    desk = await desk_on(store)
    await desk.take(*(question(n) for n in range(8)))
    changed = [question(n, text="new") for n in range(8)]
    await desk.stage(*changed, *(question(n) for n in range(8, 20)), on_changed="rerun")
    told = await statements(store, store.begin_intake(desk.lease))

    assert told.count("BEGIN IMMEDIATE") > 6

    def sizes(conn):
        tables = ("items", "questions", "bodies", "places", "changes", "intakes")
        return [conn.execute(f"SELECT COUNT(*) FROM {t}").fetchone()[0] for t in tables]

    assert await on_thread(store, sizes) == [8, 8, 8, 8, 0, 2]


async def test_forgets_old_intakes(store):
    """So many intakes can be read back by number; older ones go, and say so."""
    desk = await desk_on(store)
    numbers = []
    for _ in range(_rules.KEPT_INTAKES + 2):
        await desk.take(question(0), question(1))
        numbers.append(desk.intake)

    assert len(await desk.rows(intake=numbers[2])) == 2
    with pytest.raises(StoreError, match="not among its last 8"):
        await desk.rows(intake=numbers[1])
    await store.begin_intake(desk.lease)
    places = await on_thread(store, lambda c: c.execute("SELECT COUNT(*) FROM places").fetchone())
    assert places == (2 * _rules.KEPT_INTAKES,)


async def test_never_reads_a_whole_table(store):
    """Pages are found by key: no statement of a page scans the items."""
    desk = await desk_on(store)
    await desk.fill(10)
    await desk.ship(*range(10))
    calls = (
        store.read_rows("run", 3, 5),
        store.read_rows("run", 3, 5, intake=desk.intake, reason="exhausted"),
        store.read_pending("run", "", 3, 5),
        store.read_bodies("run", 1, 3, 5),
        store.settle(desk.lease, 1, [answer(0)]),
        store.start_wave(desk.lease, frozenset({"exhausted"})),
        store.stage(desk.lease, await store.begin_intake(desk.lease), [question(0)], "rerun"),
    )
    for call in calls:
        for statement in await statements(store, call):
            if statement.startswith(("SELECT", "UPDATE", "DELETE", "INSERT")):
                plan = await on_thread(
                    store, lambda c, s=statement: c.execute(f"EXPLAIN QUERY PLAN {s}").fetchall()
                )
                steps = [step[3] for step in plan]
                big = ("items", "questions", "answers", "bodies", "places", " i", " q", " a", " p")
                scans = [s for s in steps if s.startswith("SCAN") and s.endswith(big)]
                assert not scans, (statement, steps)


# -- where it lives ---------------------------------------------------------------------------

MOUNTS = """\
22 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw
31 22 0:26 / /tmp rw,nosuid - tmpfs tmpfs rw
40 22 0:50 / /mnt/my\\040share rw shared:9 - nfs4 server:/x rw
41 22 0:51 / /home/u/remote rw - fuse.sshfs u@h: rw
42 22 0:52 / /home/u/disk rw - fuse.ntfs-3g /dev/sdb rw
43 40 0:53 / /mnt/my\\040share/local rw - xfs /dev/sdc rw
44 22 0:54 / /over rw - nfs server:/y rw
45 22 0:54 / /over rw - ext4 /dev/sdd rw
broken line
"""


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/data/run.db", "ext4"),
        ("/tmp/run.db", "tmpfs"),
        ("/tmpx/run.db", "ext4"),
        ("/mnt/my share/run.db", "nfs4"),
        ("/mnt/my share/local/run.db", "xfs"),
        ("/home/u/remote/a/run.db", "fuse.sshfs"),
        ("/over/run.db", "ext4"),
    ],
)
def test_filesystem_of(path, kind):
    """The deepest mount that holds the path decides, the latest of several."""
    assert _sqlite_files.filesystem_of(_sqlite_files.Path(path), MOUNTS) == kind


@pytest.mark.parametrize(
    ("kind", "network"),
    [("nfs4", True), ("fuse.sshfs", True), ("9p", True), ("ext4", False), ("fuse.ntfs-3g", False)],
)
def test_network_filesystem(tmp_path, monkeypatch, kind, network):
    """Network file systems are told from local ones by name."""
    monkeypatch.setattr(_sqlite_files, "filesystem_of", lambda *_: kind)

    assert _sqlite_files.network_filesystem(tmp_path / "run.db") == (kind if network else None)


async def test_network_disk(tmp_path, monkeypatch):
    """On a network disk the store has a rollback journal and syncs always."""
    path = tmp_path / "run.db"
    local = SQLiteStore(path)
    await local.open()
    await local.close()
    monkeypatch.setattr(_sqlite_db, "network_filesystem", lambda _: "nfs4")
    store = SQLiteStore(path)
    await store.open()
    desk = await desk_on(store)
    await desk.fill(2)
    await desk.ship(0, 1)
    await desk.settle(None, answer(0, None, via="sync"))

    assert pragma(path, "journal_mode") == "delete"
    assert await on_thread(store, lambda c: c.execute("PRAGMA synchronous").fetchone()) == (2,)
    await store.close()


@pytest.mark.parametrize(
    ("code", "error"),
    [
        (sqlite3.SQLITE_BUSY, StoreBusy),
        (sqlite3.SQLITE_BUSY_SNAPSHOT, StoreBusy),
        (sqlite3.SQLITE_LOCKED, StoreBusy),
        (sqlite3.SQLITE_FULL, StoreFull),
        (sqlite3.SQLITE_CORRUPT, StoreCorrupt),
        (sqlite3.SQLITE_NOTADB, StoreCorrupt),
        (sqlite3.SQLITE_IOERR_WRITE, StoreError),
        (sqlite3.SQLITE_READONLY, StoreError),
        (None, StoreError),
    ],
)
def test_errors_are_translated(tmp_path, code, error):
    """Each kind of failure has its class, and names the file."""
    failure = sqlite3.OperationalError("it failed")
    if code is not None:
        failure.sqlite_errorcode = code

    with pytest.raises(StoreError) as caught, _sqlite_db.translated(tmp_path / "run.db", 30):
        raise failure

    assert type(caught.value) is error
    assert "run.db" in str(caught.value)


def test_io_error_without_space_is_full(tmp_path, monkeypatch):
    """An I/O error on a disk without space (a quota, say) is told as such."""
    monkeypatch.setattr(_sqlite_db, "free_space", lambda _: 0)
    failure = sqlite3.OperationalError("disk I/O error")
    failure.sqlite_errorcode = sqlite3.SQLITE_IOERR_WRITE

    with pytest.raises(StoreFull), _sqlite_db.translated(tmp_path / "run.db", 30):
        raise failure
