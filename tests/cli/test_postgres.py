"""The command line on a store in a PostgreSQL database."""

from __future__ import annotations

import json
from urllib.parse import quote

import pytest
from tests.postgres.server import GUARDED, PASSWORD, fresh_schema

from .support import FAST, item, read_lines, write_items


@pytest.fixture
def store(postgres):
    """A URL with a password, as it might stand in the environment."""
    schema = fresh_schema()
    with postgres.connect() as conn:
        conn.execute(f"CREATE SCHEMA {schema} AUTHORIZATION {GUARDED}")
    conn.close()
    return postgres.url(schema, user=f"{GUARDED}:{quote(PASSWORD, safe='')}")


def test_a_run_from_beginning_to_end(inside, store, tmp_path):
    """Run, look, and write the answers: nothing that is printed holds the password."""
    write_items(tmp_path / "items.jsonl", *map(item, range(20)))
    inside.env["BATCHWRIGHT_STORE"] = store
    early = inside("status")
    ran = inside("run", "items.jsonl", "--out", "out.jsonl", *FAST)
    status, told = inside("status"), inside("status", "--json")
    export = inside("export", "--out", "again.jsonl")
    report = inside("report")
    unknown = inside("status", "--run-id", "typo")

    assert (early.returncode, ran.returncode, status.returncode) == (2, 0, 0), ran.stderr
    assert "there is no store in" in early.stderr
    assert "it holds 'default'" in unknown.stderr
    assert read_lines(tmp_path / "out.jsonl") == read_lines(tmp_path / "again.jsonl")
    shown = json.loads(told.stdout)["store"]
    assert shown.startswith(f"postgresql://{GUARDED}@127.0.0.1")
    for done in (early, ran, status, told, export, report, unknown):
        assert PASSWORD not in done.stdout + done.stderr
        assert quote(PASSWORD, safe="") not in done.stdout + done.stderr


def test_a_wrong_password(inside, store, tmp_path):
    """A store that cannot be opened is bad usage: nothing was sent, and the remedy is told."""
    write_items(tmp_path / "items.jsonl", item(1))
    ran = inside("run", "items.jsonl", "--store", store.replace(":s3", ":wr0ng"))

    assert ran.returncode == 2
    assert "password authentication failed" in ran.stderr
    assert "wr0ng" not in ran.stderr
