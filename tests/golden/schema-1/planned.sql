CREATE SCHEMA golden_store;
CREATE TABLE golden_store.answers (
    key bigint NOT NULL,
    via text,
    org bytea,
    batch bytea,
    error bytea,
    raw bytea
)
WITH (toast_tuple_target='8160');
ALTER TABLE ONLY golden_store.answers ALTER COLUMN raw SET STORAGE EXTERNAL;
CREATE TABLE golden_store.batchwright_version (
    version integer NOT NULL,
    at timestamp with time zone DEFAULT now()
);
CREATE TABLE golden_store.bodies (
    key bigint NOT NULL,
    body bytea NOT NULL
)
WITH (toast_tuple_target='8160');
ALTER TABLE ONLY golden_store.bodies ALTER COLUMN body SET STORAGE EXTERNAL;
CREATE TABLE golden_store.changes (
    key bigint NOT NULL,
    custom_id bytea NOT NULL,
    digest bytea NOT NULL,
    model bytea NOT NULL,
    metadata bytea,
    state smallint NOT NULL,
    reason bytea,
    headers integer NOT NULL,
    size integer NOT NULL,
    extra smallint NOT NULL,
    error bytea,
    body bytea NOT NULL
);
ALTER TABLE ONLY golden_store.changes ALTER COLUMN body SET STORAGE EXTERNAL;
CREATE TABLE golden_store.counts (
    run integer NOT NULL,
    staged boolean NOT NULL,
    hash bytea NOT NULL,
    kind text NOT NULL,
    name bytea NOT NULL,
    other bytea NOT NULL,
    n bigint NOT NULL,
    input bigint NOT NULL,
    output bigint NOT NULL,
    cache_write bigint NOT NULL,
    cache_read bigint NOT NULL
)
WITH (fillfactor='50');
CREATE TABLE golden_store.headers (
    id integer NOT NULL,
    run integer NOT NULL,
    text bytea NOT NULL
);
ALTER TABLE golden_store.headers ALTER COLUMN id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME golden_store.headers_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE golden_store.intakes (
    id bigint NOT NULL,
    run integer NOT NULL,
    state smallint DEFAULT 0 NOT NULL
);
ALTER TABLE golden_store.intakes ALTER COLUMN id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME golden_store.intakes_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE golden_store.items (
    key bigint NOT NULL,
    headers integer NOT NULL,
    size integer NOT NULL,
    shard integer,
    attempts integer DEFAULT 0 NOT NULL,
    used integer DEFAULT 0 NOT NULL,
    state smallint NOT NULL,
    extra smallint NOT NULL,
    reason bytea,
    flag bytea
);
CREATE TABLE golden_store.late (
    key bigint NOT NULL,
    batch bytea NOT NULL
);
CREATE TABLE golden_store.places (
    intake bigint NOT NULL,
    "position" bigint NOT NULL,
    key bigint NOT NULL,
    count integer NOT NULL,
    taken boolean NOT NULL
);
CREATE TABLE golden_store.questions (
    key bigint NOT NULL,
    hash bytea NOT NULL,
    id bytea NOT NULL,
    custom_id bytea NOT NULL,
    digest bytea NOT NULL,
    model bytea NOT NULL,
    metadata bytea
);
CREATE TABLE golden_store.run_facts (
    run integer NOT NULL,
    name bytea NOT NULL,
    value bytea NOT NULL
)
WITH (fillfactor='50');
CREATE TABLE golden_store.runs (
    number integer NOT NULL,
    name bytea NOT NULL,
    created_at timestamp with time zone NOT NULL,
    token bigint DEFAULT 0 NOT NULL,
    first_token bigint DEFAULT 0 NOT NULL,
    owner bytea,
    beat_at timestamp with time zone,
    items bigint DEFAULT 0 NOT NULL,
    staged bigint DEFAULT 0 NOT NULL,
    opened bigint,
    intake bigint,
    wave integer DEFAULT 0 NOT NULL,
    workers integer DEFAULT 0 NOT NULL
)
WITH (fillfactor='50');
ALTER TABLE golden_store.runs ALTER COLUMN number ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME golden_store.runs_number_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);
CREATE TABLE golden_store.shard_spans (
    run integer NOT NULL,
    number integer NOT NULL,
    lows bigint[] NOT NULL,
    highs bigint[] NOT NULL
);
CREATE TABLE golden_store.shards (
    run integer NOT NULL,
    number integer NOT NULL,
    count integer NOT NULL,
    size bigint NOT NULL,
    headers bytea NOT NULL,
    org bytea NOT NULL,
    wave integer NOT NULL,
    state text NOT NULL,
    reason bytea,
    batch_id bytea,
    cancel text DEFAULT ''::text NOT NULL,
    planned_at timestamp with time zone NOT NULL,
    sent_at timestamp with time zone,
    created_at timestamp with time zone,
    expires_at timestamp with time zone,
    ended_at timestamp with time zone,
    done_at timestamp with time zone,
    polls bigint DEFAULT 0 NOT NULL,
    counts bytea,
    facts bytea NOT NULL,
    direct boolean NOT NULL,
    claimed_by integer,
    rested_in integer
)
WITH (fillfactor='50');
CREATE TABLE golden_store.workers (
    run integer NOT NULL,
    number integer NOT NULL,
    token bigint NOT NULL,
    owner bytea NOT NULL,
    beat_at timestamp with time zone NOT NULL,
    note bytea NOT NULL
)
WITH (fillfactor='50');
CREATE TABLE golden_store.writers (
    id bytea NOT NULL,
    mark bigint NOT NULL,
    at timestamp with time zone NOT NULL
)
WITH (fillfactor='50');
INSERT INTO golden_store.batchwright_version VALUES (1, '2026-11-29 21:40:50.031584+00');
INSERT INTO golden_store.bodies VALUES (1099511627776, '\x7b226d6f64656c223a22636c617564652d6861696b752d342d35222c226d61785f746f6b656e73223a31362c226d65737361676573223a5b7b22726f6c65223a2275736572222c22636f6e74656e74223a22676f6c64656e207175657374696f6e2030227d5d7d');
INSERT INTO golden_store.bodies VALUES (1099511627777, '\x7b226d6f64656c223a22636c617564652d6861696b752d342d35222c226d61785f746f6b656e73223a31362c226d65737361676573223a5b7b22726f6c65223a2275736572222c22636f6e74656e74223a22676f6c64656e207175657374696f6e2031227d5d7d');
INSERT INTO golden_store.bodies VALUES (1099511627778, '\x7b226d6f64656c223a22636c617564652d6861696b752d342d35222c226d61785f746f6b656e73223a31362c226d65737361676573223a5b7b22726f6c65223a2275736572222c22636f6e74656e74223a22676f6c64656e207175657374696f6e2032227d5d7d');
INSERT INTO golden_store.bodies VALUES (1099511627779, '\x7b226d6f64656c223a22636c617564652d6861696b752d342d35222c226d61785f746f6b656e73223a31362c226d65737361676573223a5b7b22726f6c65223a2275736572222c22636f6e74656e74223a22676f6c64656e207175657374696f6e2033227d5d7d');
INSERT INTO golden_store.bodies VALUES (1099511627780, '\x7b226d6f64656c223a22636c617564652d6861696b752d342d35222c226d61785f746f6b656e73223a31362c226d65737361676573223a5b7b22726f6c65223a2275736572222c22636f6e74656e74223a22676f6c64656e207175657374696f6e2034227d5d7d');
INSERT INTO golden_store.bodies VALUES (1099511627781, '\x7b226d6f64656c223a22636c617564652d6861696b752d342d35222c226d61785f746f6b656e73223a31362c226d65737361676573223a5b7b22726f6c65223a2275736572222c22636f6e74656e74223a22676f6c64656e207175657374696f6e2035227d5d7d');
INSERT INTO golden_store.counts VALUES (1, false, '\x40e54c945910b8a085f32ce5529b2574', 'model', '\x636c617564652d6861696b752d342d35', '\x', 6, 0, 0, 0, 0);
INSERT INTO golden_store.counts VALUES (1, false, '\xa282d1aa816c9c5c055348854d7bc51e', 'state', '\x30', '\x', 0, 0, 0, 0, 0);
INSERT INTO golden_store.counts VALUES (1, false, '\x532e661900bcccce0b96395fdd2a9180', 'state', '\x31', '\x', 6, 0, 0, 0, 0);
INSERT INTO golden_store.headers OVERRIDING SYSTEM VALUE VALUES (1, 1, '\x');
INSERT INTO golden_store.intakes OVERRIDING SYSTEM VALUE VALUES (1, 1, 1);
INSERT INTO golden_store.items VALUES (1099511627776, 1, 149, 1, 0, 0, 1, 46, NULL, NULL);
INSERT INTO golden_store.items VALUES (1099511627777, 1, 149, 1, 0, 0, 1, 46, NULL, NULL);
INSERT INTO golden_store.items VALUES (1099511627778, 1, 149, 1, 0, 0, 1, 46, NULL, NULL);
INSERT INTO golden_store.items VALUES (1099511627779, 1, 149, 1, 0, 0, 1, 46, NULL, NULL);
INSERT INTO golden_store.items VALUES (1099511627780, 1, 149, 1, 0, 0, 1, 46, NULL, NULL);
INSERT INTO golden_store.items VALUES (1099511627781, 1, 149, 1, 0, 0, 1, 46, NULL, NULL);
INSERT INTO golden_store.places VALUES (1, 0, 1099511627776, 6, true);
INSERT INTO golden_store.questions VALUES (1099511627776, '\x39741c761b9444fee59fd2e9c15f101d', '\x676f6c64656e2d30', '\x676f6c64656e2d302d43383269466e4d34585170', '\x25b9638a55684b5b408312e1a46b6fbb', '\x636c617564652d6861696b752d342d35', NULL);
INSERT INTO golden_store.questions VALUES (1099511627777, '\xe4cfc88ae2a205a58350407b8b018a3a', '\x676f6c64656e2d31', '\x676f6c64656e2d312d386d6c327354726238614e', '\xd35f091656e753cc61251cd181ebb43d', '\x636c617564652d6861696b752d342d35', NULL);
INSERT INTO golden_store.questions VALUES (1099511627778, '\x2b2538e347f77be4e99e60be460b8140', '\x676f6c64656e2d32', '\x676f6c64656e2d322d3951726948624568576332', '\x94b203204490751d280f9315c6dbb9e8', '\x636c617564652d6861696b752d342d35', NULL);
INSERT INTO golden_store.questions VALUES (1099511627779, '\x801c7b0303825beb516644acad6dcefa', '\x676f6c64656e2d33', '\x676f6c64656e2d332d4748337857487848464e73', '\x0e9379dd0c0e9f9218aeb290eb561837', '\x636c617564652d6861696b752d342d35', NULL);
INSERT INTO golden_store.questions VALUES (1099511627780, '\xfab82b424d719a93aa28fbc727d28c88', '\x676f6c64656e2d34', '\x676f6c64656e2d342d42786d724452584c567874', '\x4d6e683cbdc580c80bf797b6c4edab15', '\x636c617564652d6861696b752d342d35', NULL);
INSERT INTO golden_store.questions VALUES (1099511627781, '\xebffc8b014a1f830e8ff2dabb50639ca', '\x676f6c64656e2d35', '\x676f6c64656e2d352d4161365a34784c4a546a44', '\x510a0d12707115fc78e2cb0e57ab3293', '\x636c617564652d6861696b752d342d35', NULL);
INSERT INTO golden_store.runs OVERRIDING SYSTEM VALUE VALUES (1, '\x676f6c64656e', '2026-11-29 12:00:00+00', 1, 1, '\x7b22686f7374223a22676f6c64656e222c22626f6f74223a22676f6c64656e222c22706964223a312c2273746172746564223a2230222c22696e7374616e6365223a22676f6c64656e227d', '2026-11-29 12:00:00+00', 6, 0, NULL, 1, 1, 0);
INSERT INTO golden_store.shard_spans VALUES (1, 1, '{0}', '{5}');
INSERT INTO golden_store.shards VALUES (1, 1, 6, 914, '\x', '\x64656661756c74', 1, 'planned', NULL, NULL, '', '2026-11-29 12:00:00+00', NULL, NULL, NULL, NULL, NULL, 0, NULL, '\x7b7d', false, NULL, NULL);
SELECT pg_catalog.setval('golden_store.headers_id_seq', 1, true);
SELECT pg_catalog.setval('golden_store.intakes_id_seq', 1, true);
SELECT pg_catalog.setval('golden_store.runs_number_seq', 1, true);
ALTER TABLE ONLY golden_store.answers
    ADD CONSTRAINT answers_pkey PRIMARY KEY (key);
ALTER TABLE ONLY golden_store.batchwright_version
    ADD CONSTRAINT batchwright_version_pkey PRIMARY KEY (version);
ALTER TABLE ONLY golden_store.bodies
    ADD CONSTRAINT bodies_pkey PRIMARY KEY (key);
ALTER TABLE ONLY golden_store.changes
    ADD CONSTRAINT changes_pkey PRIMARY KEY (key);
ALTER TABLE ONLY golden_store.counts
    ADD CONSTRAINT counts_pkey PRIMARY KEY (run, staged, hash);
ALTER TABLE ONLY golden_store.headers
    ADD CONSTRAINT headers_pkey PRIMARY KEY (id);
ALTER TABLE ONLY golden_store.intakes
    ADD CONSTRAINT intakes_pkey PRIMARY KEY (id);
ALTER TABLE ONLY golden_store.items
    ADD CONSTRAINT items_pkey PRIMARY KEY (key);
ALTER TABLE ONLY golden_store.late
    ADD CONSTRAINT late_pkey PRIMARY KEY (key, batch);
ALTER TABLE ONLY golden_store.places
    ADD CONSTRAINT places_pkey PRIMARY KEY (intake, "position");
ALTER TABLE ONLY golden_store.questions
    ADD CONSTRAINT questions_pkey PRIMARY KEY (key);
ALTER TABLE ONLY golden_store.runs
    ADD CONSTRAINT runs_pkey PRIMARY KEY (number);
ALTER TABLE ONLY golden_store.shard_spans
    ADD CONSTRAINT shard_spans_pkey PRIMARY KEY (run, number);
ALTER TABLE ONLY golden_store.shards
    ADD CONSTRAINT shards_pkey PRIMARY KEY (run, number);
ALTER TABLE ONLY golden_store.workers
    ADD CONSTRAINT workers_pkey PRIMARY KEY (run, number);
ALTER TABLE ONLY golden_store.writers
    ADD CONSTRAINT writers_pkey PRIMARY KEY (id);
CREATE UNIQUE INDEX headers_text ON golden_store.headers USING btree (run, sha256(text));
CREATE INDEX intakes_run ON golden_store.intakes USING btree (run, state);
CREATE INDEX items_parked ON golden_store.items USING btree (reason, key) WHERE (state >= 4);
CREATE INDEX items_pending ON golden_store.items USING btree (headers, key) INCLUDE (size, attempts) WHERE (state = 0);
CREATE INDEX places_key ON golden_store.places USING btree (intake, key);
CREATE UNIQUE INDEX questions_hash ON golden_store.questions USING btree (hash);
CREATE UNIQUE INDEX run_facts_name ON golden_store.run_facts USING btree (run, sha256(name));
CREATE UNIQUE INDEX runs_name ON golden_store.runs USING btree (sha256(name));
CREATE INDEX shards_claimed ON golden_store.shards USING btree (run, claimed_by) WHERE (claimed_by IS NOT NULL);
CREATE INDEX shards_open ON golden_store.shards USING btree (run, number) WHERE (state <> 'done'::text);
