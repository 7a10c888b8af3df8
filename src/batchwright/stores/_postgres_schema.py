"""
The tables of a PostgreSQL store, and how older ones become today's.

As in the SQLite store keys carry their owner: an item's key is `run << 40 | seq`, so that the items
of a run are a range of integers, and what changes often (`items`) is narrow and apart from what is
large. What comes from a caller is `bytea` in UTF-8, because `text` cannot hold a NUL; what may be
long is found by a hash of it, because an index entry cannot hold more than some 2,700 bytes.
"""

from __future__ import annotations

from typing import Final

#: Bits of a key below the number of the run.
SHIFT: Final = 40
MASK: Final = (1 << SHIFT) - 1

#: Number of the advisory lock under which tables are made; the other half is the schema's.
LOCK: Final = 0x62777274

#: The oldest server that has what the store needs, as `server_version_num` counts.
OLDEST_SERVER: Final = 140_000

_FIRST: Final = """
CREATE TABLE runs (
    number      integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    name        bytea NOT NULL,
    created_at  timestamptz NOT NULL,
    token       bigint NOT NULL DEFAULT 0,  -- the highest lease token ever given
    first_token bigint NOT NULL DEFAULT 0,  -- the first one of the present owner
    owner       bytea,
    beat_at     timestamptz,
    items       bigint NOT NULL DEFAULT 0,  -- rows with a higher seq are not committed yet
    staged      bigint NOT NULL DEFAULT 0,
    opened      bigint,
    intake      bigint,
    wave        integer NOT NULL DEFAULT 0,
    workers     integer NOT NULL DEFAULT 0  -- the highest number ever given to one
) WITH (fillfactor = 50);
CREATE UNIQUE INDEX runs_name ON runs (sha256(name));

CREATE TABLE run_facts (
    run   integer NOT NULL,
    name  bytea NOT NULL,
    value bytea NOT NULL
) WITH (fillfactor = 50);
CREATE UNIQUE INDEX run_facts_name ON run_facts (run, sha256(name));

CREATE TABLE counts (
    run         integer NOT NULL,
    staged      boolean NOT NULL,  -- belongs to the intake that is not committed yet
    hash        bytea NOT NULL,    -- of the three names
    kind        text NOT NULL,
    name        bytea NOT NULL,
    other       bytea NOT NULL,
    n           bigint NOT NULL,
    input       bigint NOT NULL,
    output      bigint NOT NULL,
    cache_write bigint NOT NULL,
    cache_read  bigint NOT NULL,
    PRIMARY KEY (run, staged, hash)
) WITH (fillfactor = 50);

CREATE TABLE headers (
    id   integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    run  integer NOT NULL,
    text bytea NOT NULL
);
CREATE UNIQUE INDEX headers_text ON headers (run, sha256(text));

CREATE TABLE intakes (
    id    bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    run   integer NOT NULL,
    state smallint NOT NULL DEFAULT 0  -- 0 open or left behind, 1 committed, 2 no longer kept
);
CREATE INDEX intakes_run ON intakes (run, state);

CREATE TABLE places (  -- runs of items that stand one after another in an intake
    intake   bigint NOT NULL,
    position bigint NOT NULL,
    key      bigint NOT NULL,
    count    integer NOT NULL,
    taken    boolean NOT NULL,  -- false: seen in the intake, and refused as changed
    PRIMARY KEY (intake, position)
);
CREATE INDEX places_key ON places (intake, key);

CREATE TABLE items (
    key      bigint PRIMARY KEY,
    headers  integer NOT NULL,
    size     integer NOT NULL,      -- bytes of its entry on the wire
    shard    integer,
    attempts integer NOT NULL DEFAULT 0,
    used     integer NOT NULL DEFAULT 0,
    state    smallint NOT NULL,
    extra    smallint NOT NULL,     -- how many of them are not its body's
    reason   bytea,
    flag     bytea
);
CREATE INDEX items_pending ON items (headers, key) INCLUDE (size, attempts) WHERE state = 0;
CREATE INDEX items_parked ON items (reason, key) WHERE state >= 4;

CREATE TABLE questions (
    key       bigint PRIMARY KEY,
    hash      bytea NOT NULL,  -- of run and id
    id        bytea NOT NULL,
    custom_id bytea NOT NULL,
    digest    bytea NOT NULL,
    model     bytea NOT NULL,
    metadata  bytea
);
CREATE UNIQUE INDEX questions_hash ON questions (hash);

CREATE TABLE bodies (
    key  bigint PRIMARY KEY,
    body bytea NOT NULL
) WITH (toast_tuple_target = 8160);
-- Compressing them would cost more than it saves.
ALTER TABLE bodies ALTER COLUMN body SET STORAGE EXTERNAL;

CREATE TABLE answers (
    key   bigint PRIMARY KEY,
    via   text,
    org   bytea,
    batch bytea,
    error bytea,
    raw   bytea
) WITH (toast_tuple_target = 8160);
ALTER TABLE answers ALTER COLUMN raw SET STORAGE EXTERNAL;

CREATE TABLE late (
    key   bigint NOT NULL,
    batch bytea NOT NULL,
    PRIMARY KEY (key, batch)
);

CREATE TABLE changes (  -- questions that replace others once their intake is committed
    key       bigint PRIMARY KEY,
    custom_id bytea NOT NULL,
    digest    bytea NOT NULL,
    model     bytea NOT NULL,
    metadata  bytea,
    state     smallint NOT NULL,
    reason    bytea,
    headers   integer NOT NULL,
    size      integer NOT NULL,
    extra     smallint NOT NULL,
    error     bytea,
    body      bytea NOT NULL
);
ALTER TABLE changes ALTER COLUMN body SET STORAGE EXTERNAL;

CREATE TABLE shards (
    run        integer NOT NULL,
    number     integer NOT NULL,
    count      integer NOT NULL,
    size       bigint NOT NULL,
    headers    bytea NOT NULL,
    org        bytea NOT NULL,
    wave       integer NOT NULL,
    state      text NOT NULL,
    reason     bytea,
    batch_id   bytea,
    cancel     text NOT NULL DEFAULT '',
    planned_at timestamptz NOT NULL,
    sent_at    timestamptz,
    created_at timestamptz,
    expires_at timestamptz,
    ended_at   timestamptz,
    done_at    timestamptz,
    polls      bigint NOT NULL DEFAULT 0,
    counts     bytea,
    facts      bytea NOT NULL,
    direct     boolean NOT NULL,  -- as its facts say: asked without a batch
    claimed_by integer,           -- number of a worker
    rested_in  integer,           -- the wave in which nobody claims it again
    PRIMARY KEY (run, number)
) WITH (fillfactor = 50);
CREATE INDEX shards_open ON shards (run, number) WHERE state <> 'done';
CREATE INDEX shards_claimed ON shards (run, claimed_by) WHERE claimed_by IS NOT NULL;

CREATE TABLE shard_spans (  -- apart: a retry's spans can be long, and a shard moves often
    run    integer NOT NULL,
    number integer NOT NULL,
    lows   bigint[] NOT NULL,
    highs  bigint[] NOT NULL,
    PRIMARY KEY (run, number)
);

CREATE TABLE workers (  -- processes that work on a run; claims of shards are theirs
    run     integer NOT NULL,
    number  integer NOT NULL,
    token   bigint NOT NULL,
    owner   bytea NOT NULL,
    beat_at timestamptz NOT NULL,
    note    bytea NOT NULL,
    PRIMARY KEY (run, number)
) WITH (fillfactor = 50);

CREATE TABLE writers (  -- the number of the last change that each connection made
    id    bytea PRIMARY KEY,
    mark  bigint NOT NULL,
    at    timestamptz NOT NULL
) WITH (fillfactor = 50);
"""

#: What brings a store from one version to the next; the first makes it. Those that a release has
#: carried are never changed, only added to.
MIGRATIONS: Final = (_FIRST,)
SCHEMA_VERSION: Final = len(MIGRATIONS)
