"""
What a step costs follows what it works on, not how large the run is.
"""

from __future__ import annotations

import pytest

from batchwright.store import ItemState, Rest, ShardState
from batchwright.stores import _postgres_cache as caching
from batchwright.stores import _postgres_intake as intakes
from batchwright.stores import _postgres_read as reading
from batchwright.stores import _postgres_settle as settling
from batchwright.stores import _postgres_shards as shards
from batchwright.stores import _postgres_workers as workers
from batchwright.stores import _postgres_write as writing
from batchwright.stores._postgres_fence import fence
from batchwright.stores.postgres import PostgresStore
from batchwright.testing._store_desk import ALL, answer, desk_on, fault, plan_of, question

ITEMS, SHARD = 3_000, 10
#: Further items, all with an answer, that make the tables large enough for a planner to err.
FILLER = 60_000
#: Rows of one table that a step on ten items may touch, those that were undone before included; a
#: look through the run is far above.
MOST = 1_200


class Undone(Exception):
    """Undoes what a step did."""


def touched_by(db, step):
    """Return how many rows of each table *step* touches."""
    read = (
        "SELECT relname, coalesce(seq_tup_read, 0) + coalesce(idx_tup_fetch, 0) "
        "FROM pg_stat_xact_user_tables WHERE schemaname = current_schema()"
    )
    before = dict(db.rows(read))
    step(db)
    return {name: rows - before.get(name, 0) for name, rows in db.rows(read)}


def fill_up(db, lease):
    """Add items that succeeded, past all rules."""
    run = fence(db, lease)
    keys = f"generate_series({run.end}, {run.end + FILLER - 1}) AS key"
    db.run(
        f"INSERT INTO items (key, headers, size, state, extra) SELECT key, 1, 99, 2, 40 FROM {keys}"
    )
    db.run(
        "INSERT INTO questions SELECT key, sha256(int8send(key)), int8send(key), int8send(key), "
        f"sha256(int8send(key)), '', NULL FROM {keys}"
    )
    db.run(f"INSERT INTO answers (key, raw) SELECT key, 'x' FROM {keys}")
    db.run("UPDATE runs SET items = items + %s", (FILLER,))


@pytest.fixture
async def desk(postgres_url):
    """A run of which some items are in a shard, some wait, some were put aside."""
    store = PostgresStore(postgres_url)
    await store.open()
    desk = await desk_on(store)
    await desk.take(*(question(n) for n in range(ITEMS)))
    await store.start_wave(desk.lease, frozenset())
    await desk.ship(*range(SHARD))
    for first in range(SHARD, ITEMS - 500, 500):
        number = (await desk.ship(*range(first, first + 500))).number
        said = [answer(n, f"b-{number}") for n in range(first, first + 499)]
        lost = fault(first + 499, ItemState.UNRESOLVED, f"b-{number}", reason="missing")
        await desk.settle(number, *said, lost)
    await store._write(lambda db: fill_up(db, desk.lease))
    yield desk
    await store.close()


def steps(desk):
    """Return each step on few items of a large run."""
    lease, run = desk.lease, "run"
    everything = reading.Wanted(intake=None, reason=None, succeeded=True, raw=True)
    of_intake = everything._replace(intake=desk.intake)
    again = [question(n) for n in range(500, 500 + SHARD)]

    def stage(db):
        intakes.stage(db, lease, intakes.begin_intake(db, lease), again, "keep")

    last = range(ITEMS - SHARD, ITEMS)
    rest = Rest(state=ItemState.PENDING)
    return {
        "stage": lambda db: intakes.stage(
            db, lease, intakes.begin_intake(db, lease), again, "keep"
        ),
        "read_pending": lambda db: reading.read_pending(db, run, "", -1, SHARD),
        "read_members": lambda db: reading.read_members(db, run, 1),
        "read_bodies": lambda db: reading.read_bodies(db, run, 1, -1, 10_000),
        "read_rows": lambda db: reading.read_rows(db, run, 900, SHARD, everything, 10_000),
        "read_rows_of_intake": lambda db: reading.read_rows(
            db, run, 2_100, SHARD, of_intake, 9_999
        ),
        "plan_shard": lambda db: shards.plan_shard(db, lease, plan_of(last)),
        "plan_scattered": lambda db: shards.plan_shard(db, lease, plan_of(last[::2])),
        "settle": lambda db: settling.settle(db, lease, 1, [answer(n) for n in range(SHARD)]),
        "move_shard": lambda db: shards.move_shard(db, lease, 1, ALL, ShardState.DONE, rest, {}),
        "start_wave": lambda db: writing.start_wave(db, lease, frozenset({"exhausted"})),
        "read_open": lambda db: workers.read_open(db, run),
        "find_answers": lambda db: caching.find_answers(db, run, ["other"], 0, SHARD, 10_000),
    }


STEPS = (
    "stage read_pending read_members read_bodies read_rows read_rows_of_intake plan_shard "
    "plan_scattered settle move_shard read_open find_answers"
)


@pytest.mark.parametrize("analyzed", [False, True], ids=["fresh", "analyzed"])
async def test_steps_reach_only_what_they_work_on(desk, postgres, analyzed):
    """Each step touches a few rows for each of its items, whatever the planner believes."""
    store = desk.store
    await store._write(lambda db: caching.make_index(db, "run"))
    if analyzed:
        with postgres.connect() as conn:
            conn.execute(f"SET search_path = {store.target.schema}")
            conn.execute("VACUUM ANALYZE")
        conn.close()
    far = {}
    for name in STEPS.split():
        step, counted = steps(desk)[name], []

        def measured(db, step=step, counted=counted):
            counted[:] = [touched_by(db, step)]
            raise Undone

        # Often enough for the driver and the server to settle on one plan for all values.
        for _ in range(7):
            with pytest.raises(Undone):
                await store._write(measured)
        far[name] = {table: rows for table, rows in counted[0].items() if rows > MOST}

    assert {name: tables for name, tables in far.items() if tables} == {}


async def test_a_wave_reaches_only_what_was_put_aside(desk):
    """Beginning a wave touches what it takes up and what waits, not all that has its answer."""

    def step(db):
        writing.start_wave(db, desk.lease, frozenset({"exhausted"}))

    touched = await desk.store._write(lambda db: touched_by(db, step))
    waiting = len(await desk.pending())

    assert 400 < waiting < 500
    assert touched["items"] < waiting + MOST < ITEMS
    assert touched["questions"] == 0
