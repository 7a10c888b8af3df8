"""
The tables of a SQLite store.

Keys carry their owner: an item's key is `run << 40 | seq`, a place is `intake << 40 | position`,
so that the items of a run, and the places of an intake, are ranges of integers.
"""

from __future__ import annotations

from typing import Final

#: "bwrt": marks the file as ours.
APPLICATION_ID: Final = 0x62777274
#: Raised with every change of the tables.
SCHEMA_VERSION: Final = 1

#: Bits of a key below the number of the run or of the intake.
SHIFT: Final = 40
MASK: Final = (1 << SHIFT) - 1

TABLES: Final = """
CREATE TABLE runs (
    number      INTEGER PRIMARY KEY,
    name        TEXT NOT NULL UNIQUE,
    created_at  TEXT NOT NULL,
    token       INTEGER NOT NULL DEFAULT 0,  -- the highest lease token ever given
    first_token INTEGER NOT NULL DEFAULT 0,  -- the first one of the present owner
    owner       BLOB,
    beat_at     TEXT,
    items       INTEGER NOT NULL DEFAULT 0,  -- rows with a higher seq are not committed yet
    staged      INTEGER NOT NULL DEFAULT 0,
    opened      INTEGER,
    intake      INTEGER,
    wave        INTEGER NOT NULL DEFAULT 0
);
CREATE TABLE run_facts (
    run   INTEGER NOT NULL,
    name  TEXT NOT NULL,
    value BLOB NOT NULL,
    PRIMARY KEY (run, name)
) WITHOUT ROWID;
CREATE TABLE counts (
    run         INTEGER NOT NULL,
    staged      INTEGER NOT NULL,  -- 1: belongs to the intake that is not committed yet
    kind        TEXT NOT NULL,
    name        TEXT NOT NULL,
    other       TEXT NOT NULL,
    n           INTEGER NOT NULL,
    input       INTEGER NOT NULL,
    output      INTEGER NOT NULL,
    cache_write INTEGER NOT NULL,
    cache_read  INTEGER NOT NULL,
    PRIMARY KEY (run, staged, kind, name, other)
) WITHOUT ROWID;
CREATE TABLE words (
    id   INTEGER PRIMARY KEY,
    text TEXT NOT NULL UNIQUE
);
CREATE TABLE headers (
    id   INTEGER PRIMARY KEY,
    run  INTEGER NOT NULL,
    text TEXT NOT NULL,
    UNIQUE (run, text)
);
CREATE TABLE intakes (
    id    INTEGER PRIMARY KEY AUTOINCREMENT,
    run   INTEGER NOT NULL,
    state INTEGER NOT NULL DEFAULT 0  -- 0 open or left behind, 1 committed, 2 no longer kept
);
CREATE TABLE places (
    place INTEGER PRIMARY KEY,
    key   INTEGER NOT NULL
);
CREATE TABLE items (
    key      INTEGER PRIMARY KEY,
    state    INTEGER NOT NULL,
    reason   INTEGER,
    flag     INTEGER,
    headers  INTEGER NOT NULL,
    size     INTEGER NOT NULL,
    attempts INTEGER NOT NULL DEFAULT 0,
    used     INTEGER NOT NULL DEFAULT 0,
    shard    INTEGER,
    seen     INTEGER NOT NULL  -- the place where it was staged last, committed or not
);
CREATE INDEX items_pending ON items (headers, key, size, attempts) WHERE state = 0;
CREATE INDEX items_parked ON items (reason, key, state) WHERE state >= 4;
CREATE TABLE questions (
    key       INTEGER PRIMARY KEY,
    run       INTEGER NOT NULL,
    id        TEXT NOT NULL,
    custom_id TEXT NOT NULL,
    digest    BLOB NOT NULL,
    model     INTEGER NOT NULL,
    metadata  BLOB,
    UNIQUE (run, id)
);
CREATE TABLE bodies (
    key  INTEGER PRIMARY KEY,
    body BLOB NOT NULL
);
CREATE TABLE answers (
    key   INTEGER PRIMARY KEY,
    via   INTEGER,
    org   INTEGER,
    batch INTEGER,
    error BLOB,
    raw   BLOB
);
CREATE TABLE late (
    key   INTEGER NOT NULL,
    batch INTEGER NOT NULL,
    PRIMARY KEY (key, batch)
) WITHOUT ROWID;
CREATE TABLE changes (  -- questions that replace others once their intake is committed
    key       INTEGER PRIMARY KEY,
    custom_id TEXT NOT NULL,
    digest    BLOB NOT NULL,
    model     INTEGER NOT NULL,
    metadata  BLOB,
    state     INTEGER NOT NULL,
    reason    INTEGER,
    headers   INTEGER NOT NULL,
    size      INTEGER NOT NULL,
    error     BLOB,
    body      BLOB NOT NULL
);
CREATE TABLE shards (
    run        INTEGER NOT NULL,
    number     INTEGER NOT NULL,
    count      INTEGER NOT NULL,
    size       INTEGER NOT NULL,
    headers    TEXT NOT NULL,
    org        TEXT NOT NULL,
    wave       INTEGER NOT NULL,
    state      TEXT NOT NULL,
    reason     TEXT,
    batch_id   TEXT,
    cancel     TEXT NOT NULL,
    planned_at TEXT NOT NULL,
    sent_at    TEXT,
    created_at TEXT,
    expires_at TEXT,
    ended_at   TEXT,
    done_at    TEXT,
    polls      INTEGER NOT NULL,
    counts     BLOB,
    facts      BLOB NOT NULL,
    PRIMARY KEY (run, number)
) WITHOUT ROWID;
CREATE TABLE shard_spans (  -- apart: a retry's spans can be long, and a shard moves often
    run    INTEGER NOT NULL,
    number INTEGER NOT NULL,
    spans  BLOB NOT NULL,
    PRIMARY KEY (run, number)
);
"""
