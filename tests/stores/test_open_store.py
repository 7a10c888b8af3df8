"""
A store is named in one word.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from batchwright.errors import ConfigurationError
from batchwright.stores import MemoryStore, SQLiteStore, name_of, open_store, reader_of
from batchwright.stores.postgres import PostgresStore


@pytest.mark.parametrize(
    ("spec", "path"),
    [
        ("judge.db", "judge.db"),
        ("sub/judge.db", "sub/judge.db"),
        ("/abs/judge.db", "/abs/judge.db"),
        (Path("judge.db"), "judge.db"),
        ("sqlite:///judge.db", "judge.db"),
        ("sqlite:////abs/judge.db", "/abs/judge.db"),
        ("sqlite:///a%20b.db", "a b.db"),
        ("a%20b.db", "a%20b.db"),
        ("C:run.db", "C:run.db"),
    ],
)
def test_paths(spec, path):
    """Paths and sqlite URLs name a file."""
    store = open_store(spec)

    assert isinstance(store, SQLiteStore)
    assert store.path == Path(path).absolute()
    assert repr(store) == f"SQLiteStore({str(store.path)!r})"


@pytest.mark.parametrize("spec", ["memory://", "memory:///"])
def test_memory(spec):
    """`memory://` is a store without a file."""
    assert isinstance(open_store(spec), MemoryStore)


def test_object():
    """A store object is returned as it is."""
    store = MemoryStore()

    assert open_store(store) is store


@pytest.mark.parametrize("scheme", ["postgres", "postgresql"])
def test_postgres(scheme):
    """A PostgreSQL URL names a database, and is shown without the password."""
    spec = f"{scheme}://me:secret@host/db?schema=mine&sslmode=require&password=secret"
    store = open_store(spec)

    assert isinstance(store, PostgresStore)
    assert repr(store) == "PostgresStore('postgresql://me@host/db?schema=mine')"
    assert name_of(spec) == "postgresql://me@host/db?schema=mine"


def test_postgres_without_its_driver():
    """Where the driver is not installed, the message says what to install."""
    code = (
        "import sys; sys.modules['psycopg'] = None\n"
        "from batchwright.stores import open_store\n"
        "open_store(sys.argv[1])"
    )
    # Not in the code: from Python 3.13 on a traceback shows its lines.
    command = [sys.executable, "-c", code, "postgresql://me:secret@host/db"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)

    assert "ConfigurationError: store names a PostgreSQL database" in done.stderr
    assert 'pip install "batchwright[postgres]"' in done.stderr
    assert "secret" not in done.stderr


@pytest.mark.parametrize("spec", ["redis://:secret@host", "sqlite://host/x", "memory://x"])
def test_unknown_forms(spec):
    """Other forms are refused, with those that are taken."""
    with pytest.raises(ConfigurationError, match=r"sqlite:///relative\.db") as caught:
        open_store(spec)

    assert "secret" not in str(caught.value)


@pytest.mark.parametrize("spec", ["", ":memory:", "sqlite:///", "a\0b"])
def test_no_file(spec):
    """A name that can be no file is refused."""
    with pytest.raises(ConfigurationError, match="names no file"):
        open_store(spec)


def test_something_else():
    """What is no store is refused by its type."""
    with pytest.raises(ConfigurationError, match="store is a int"):
        open_store(7)


async def test_reader_of_a_file_that_is_not_there(tmp_path):
    """A store that does not exist has no reader, and asking does not create it."""
    assert reader_of(SQLiteStore(tmp_path / "run.db")) is None
    (tmp_path / "empty.db").touch()
    assert reader_of(SQLiteStore(tmp_path / "empty.db")) is None
    assert [path.name for path in tmp_path.iterdir()] == ["empty.db"]


def test_reader_of_other_stores():
    """Other stores are read through themselves."""
    store = MemoryStore()

    assert reader_of(store) is store
