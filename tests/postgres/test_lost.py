"""
Connections that are lost: each change is made once, or an error says that it was not.
"""

from __future__ import annotations

import asyncio

import pytest
from tests.postgres.proxy import proxy_to
from tests.postgres.server import fresh_schema

from batchwright._threads import pause
from batchwright.errors import RunLocked, StoreBusy, StoreCorrupt, StoreError, StoreFull
from batchwright.store import ItemState, ShardState
from batchwright.stores._postgres_fence import fence
from batchwright.stores._postgres_write import put_facts
from batchwright.stores.postgres import PostgresStore
from batchwright.testing._store_desk import LATER, OWNER, RIVAL, answer, desk_on, question


@pytest.fixture(autouse=True)
def _silence(caplog):
    """The driver has nothing to complain about."""
    yield
    assert [record for record in caplog.records if record.name.startswith("psycopg")] == []


@pytest.fixture
def wire(postgres):
    """A proxy before the server."""
    with proxy_to(postgres.port) as proxy:
        yield proxy


@pytest.fixture
async def store(postgres, wire):
    """An open store behind the proxy that waits for a short time only."""
    store = PostgresStore(postgres.url(fresh_schema(), port=wire.port) + "&outage=20")
    await store.open()
    yield store
    await store.close()


def confirmed(data, to_server):
    """Cut where the server confirms a change, before its client hears of it."""
    return "cut before" if not to_server and b"COMMIT\0" in data else "pass"


def asked(data, to_server):
    """Cut where a client asks for a commit, before the server hears of it."""
    return "cut before" if to_server and b"COMMIT\0" in data else "pass"


# -- the fate of a change ---------------------------------------------------------------------


@pytest.mark.parametrize("rule", [confirmed, asked])
async def test_each_change_is_made_once(store, wire, rule):
    """Whether the commit or its confirmation was lost, the change is made once and told as such."""
    desk = await desk_on(store)
    await desk.fill(4)
    wire.rule = rule
    shard = await desk.plan(0, 1)
    wire.rule = rule
    told = await desk.settle(shard.number, answer(0), answer(1))

    assert wire.cuts == 2
    assert (shard.number, shard.count) == (1, 2)
    assert told == ["applied", "applied"]
    assert await desk.states() == "SSPP"
    assert (await desk.info()).spent[0].answers == 2
    await desk.audit()


@pytest.mark.parametrize("rule", [confirmed, asked])
async def test_a_run_is_acquired_once(store, wire, rule):
    """A process whose first word to a new run was lost is not locked out by itself."""
    wire.rule = rule
    lease = await store.acquire("run", OWNER, LATER, replacing=None)

    assert wire.cuts == 1
    assert lease.token == 1
    assert await store.read_lease("run") == lease


@pytest.mark.parametrize("rule", [confirmed, asked])
async def test_shards_are_claimed_once(store, wire, rule):
    """A worker gets the shards that it claimed when the answer was lost, and no further ones."""
    desk = await desk_on(store)
    await desk.fill(3)
    for seq in range(3):
        await desk.plan(seq)
    await store.put_facts(desk.lease, {"work": {"open": True}})
    worker = await store.join("run", RIVAL, LATER)
    wire.rule = rule
    shards = await store.claim(
        worker,
        frozenset({ShardState.PLANNED}),
        direct=False,
        orgs=frozenset({"main"}),
        limit=1,
    )

    assert wire.cuts == 1
    assert [shard.number for shard in shards] == [1]
    claimants = [opened.worker for opened in await store.read_open("run")]
    assert claimants == [worker.worker, None, None]


async def test_a_commit_that_is_still_under_way(store, wire, postgres):
    """A change whose commit goes on without its client is waited for, and not made beside it."""
    desk = await desk_on(store)
    await desk.fill(3)
    for seq in range(3):
        await desk.plan(seq)
    await store.put_facts(desk.lease, {"work": {"open": True}})
    worker = await store.join("run", RIVAL, LATER)
    schema = store.target.schema
    with postgres.connect() as conn:
        conn.execute(
            f"CREATE FUNCTION {schema}.nap() RETURNS trigger LANGUAGE plpgsql AS "
            "$$ BEGIN PERFORM pg_sleep(0.2); RETURN NEW; END $$"
        )
        conn.execute(
            f"CREATE CONSTRAINT TRIGGER nap AFTER UPDATE ON {schema}.writers "
            f"DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION {schema}.nap()"
        )
    conn.close()

    def under_way(data, to_server):
        return "cut after" if to_server and b"COMMIT\0" in data else "pass"

    wire.rule = under_way
    planned, main = frozenset({ShardState.PLANNED}), frozenset({"main"})
    shards = await store.claim(worker, planned, direct=False, orgs=main, limit=1)
    wire.rule = under_way
    beaten = await store.renew(worker, LATER)
    wire.rule = under_way
    told = await store.settle(worker, 1, [answer(0)])

    assert wire.cuts == 3
    assert [shard.number for shard in shards] == [1]
    assert [opened.worker for opened in await store.read_open("run")] == [worker.worker, None, None]
    assert beaten.token == worker.token + 1
    assert [known.lease for known in await store.read_workers("run")] == [beaten]
    assert told == ["applied"]
    await desk.audit()


async def test_a_confirmed_change_of_a_lost_owner(store, wire, postgres):
    """A change that was stored counts, also where another took the run over right after it."""
    desk = await desk_on(store)
    wire.rule = confirmed
    wire.closed = True
    writing = asyncio.create_task(store.put_facts(desk.lease, {"a": 1}))
    while not wire.cuts:
        await asyncio.sleep(0.001)
    other = PostgresStore(store.url.replace(str(wire.port), str(postgres.port)))
    await other.open()
    await other.acquire("run", RIVAL, LATER, replacing=desk.lease.token)
    await other.close()
    wire.closed = False
    await writing

    assert (await desk.info()).facts == {"a": 1}
    with pytest.raises(RunLocked, match="process 22 on there"):
        await store.put_facts(desk.lease, {"b": 1})


async def test_a_copy_cut_in_the_middle(store, wire):
    """An intake whose COPY breaks off goes on with the same chunk, and nothing is there twice."""
    desk = await desk_on(store)
    rows = [question(n, body=b"x" * 50_000) for n in range(100)]
    sent = 0

    def inside(data, to_server):
        nonlocal sent
        sent += len(data) if to_server else 0
        return "cut before" if sent > 2_500_000 else "pass"

    wire.rule = inside
    staged = await desk.take(*rows)

    assert wire.cuts == 1
    assert (staged.new, staged.known) == (100, 0)
    shard = await desk.plan(*range(100))
    bodies = await store.read_bodies("run", shard.number, -1, 10_000_000)
    assert [body.body for body in bodies] == [row.body for row in rows]
    await desk.audit()


async def test_reading_goes_on(store, wire):
    """A connection lost while reading is made anew, without a word."""
    desk = await desk_on(store)
    await desk.fill(5)
    await desk.rows()
    for _ in range(3):
        wire.cut()

        assert await desk.states() == "PPPPP"


async def test_standing_still_in_the_middle(store):
    """A process that stands still in a change gives its locks back, and makes the change anew."""
    desk = await desk_on(store)
    stood = []

    def work(db):
        fence(db, desk.lease)
        if not stood:
            db.run("SET LOCAL idle_in_transaction_session_timeout = 20")
            db.row("SELECT 1")
            stood.append(pause(0.1))
        put_facts(db, desk.lease, {"a": 1})

    other = PostgresStore(store.url)
    await other.open()
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(store._write(work))
        while not stood:
            await asyncio.sleep(0.001)
        tasks.create_task(other.put_facts(desk.lease, {"b": 1}))
    await other.close()

    assert (await desk.info()).facts == {"a": 1, "b": 1}


async def test_a_connection_that_could_not_be_set_up(store, wire, postgres):
    """A connection that fails while it is set up is not used: the next call makes another."""
    desk = await desk_on(store)
    marks = f"{store.target.schema}.writers"
    with postgres.connect() as conn:
        conn.execute(f"ALTER TABLE {marks} RENAME TO elsewhere")
        wire.cut()
        with pytest.raises(StoreCorrupt, match="has lost a part of its tables"):
            await store.put_facts(desk.lease, {"a": 1})
        conn.execute(f"ALTER TABLE {store.target.schema}.elsewhere RENAME TO writers")
    conn.close()
    await store.put_facts(desk.lease, {"b": 1})

    assert (await desk.info()).facts == {"b": 1}


# -- outages ----------------------------------------------------------------------------------


async def test_a_short_outage(store, wire):
    """A server that is away for a moment is waited for."""
    desk = await desk_on(store)
    wire.closed = True
    wire.cut()
    writing = asyncio.create_task(desk.fill(3))
    reading = asyncio.create_task(store.read_run("run"))
    await asyncio.sleep(0.05)
    wire.closed = False
    await asyncio.gather(writing, reading)

    assert await desk.states() == "PPP"


async def test_a_long_outage(postgres, wire):
    """A server that stays away is told of with the last fault; what was stored before is there."""
    store = PostgresStore(postgres.url(fresh_schema(), port=wire.port) + "&outage=0.3")
    await store.open()
    desk = await desk_on(store)
    await desk.fill(3)
    wire.closed = True
    wire.cut()
    with pytest.raises(StoreError, match=r"could not be reached for 0\.3 s") as caught:
        await store.put_facts(desk.lease, {"a": 1})
    with pytest.raises(StoreError, match=r"could not be reached for 0\.3 s"):
        await store.read_run("run")
    wire.closed = False

    assert "run again once the server is back" in str(caught.value)
    assert "not known" not in str(caught.value)
    assert await desk.states() == "PPP"
    await store.put_facts(desk.lease, {"b": 1})
    assert (await desk.info()).facts == {"b": 1}
    await store.close()


async def test_an_outage_between_a_change_and_its_confirmation(postgres, wire):
    """Where nobody can be asked whether the last change was stored, the error says so."""
    store = PostgresStore(postgres.url(fresh_schema(), port=wire.port) + "&outage=0.2")
    await store.open()
    desk = await desk_on(store)
    wire.rule, wire.closed = confirmed, True
    with pytest.raises(StoreError, match="Whether the last change was stored"):
        await store.put_facts(desk.lease, {"a": 1})
    wire.closed = False

    await store.put_facts(desk.lease, {"b": 2})
    assert (await desk.info()).facts == {"a": 1, "b": 2}
    await store.close()


async def test_closing_during_an_outage(store, wire):
    """Closing does not wait for a server that is away."""
    desk = await desk_on(store)
    wire.closed = True
    wire.cut()
    writing = asyncio.create_task(store.put_facts(desk.lease, {"a": 1}))
    await asyncio.sleep(0.01)
    await store.close()

    with pytest.raises(StoreError, match="was closed meanwhile"):
        await writing


# -- cancelling -------------------------------------------------------------------------------


async def test_cancelled_in_the_middle(store, wire):
    """A cancelled caller goes once its change is made: what comes next finds it there."""
    desk = await desk_on(store)
    wire.delay = 0.02
    for number in range(5):
        writing = asyncio.create_task(store.put_facts(desk.lease, {f"a{number}": 1}))
        await asyncio.sleep(0.01)
        writing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await writing
        facts = (await store.read_run("run")).facts

        assert list(facts) == [f"a{n}" for n in range(number + 1)]


async def test_cancelled_before_it_began(store, wire):
    """A change that had not begun when its caller was cancelled is never made."""
    desk = await desk_on(store)
    wire.delay = 0.02
    first = asyncio.create_task(store.put_facts(desk.lease, {"a": 1}))
    second = asyncio.create_task(store.put_facts(desk.lease, {"b": 1}))
    await asyncio.sleep(0.01)
    second.cancel()
    await asyncio.wait([first, second])

    assert second.cancelled()
    assert (await desk.info()).facts == {"a": 1}


async def test_cancelled_during_an_outage(store, wire):
    """A cancelled caller does not wait for a server that is away."""
    desk = await desk_on(store)
    await desk.rows()
    wire.closed = True
    wire.cut()
    writing = asyncio.create_task(store.put_facts(desk.lease, {"a": 1}))
    reading = asyncio.create_task(store.read_run("run"))
    await asyncio.sleep(0.01)
    for task in (writing, reading):
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    wire.closed = False

    assert (await desk.info()).facts == {}


# -- a server that undoes, blocks, or forgets -------------------------------------------------


def tripped(postgres, store, sqlstate, times):
    """Let the server fail *times* changes of counters with *sqlstate*."""
    schema = store.target.schema
    with postgres.connect() as conn:
        conn.execute(f"CREATE SEQUENCE {schema}.trips")
        conn.execute(
            f"CREATE FUNCTION {schema}.trip() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN "
            f"IF nextval('{schema}.trips') <= {times} THEN "
            f"RAISE EXCEPTION 'tripped' USING ERRCODE = '{sqlstate}'; END IF; "
            "RETURN NEW; END $$"
        )
        conn.execute(
            f"CREATE CONSTRAINT TRIGGER trip AFTER UPDATE ON {schema}.counts "
            f"DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION {schema}.trip()"
        )
    conn.close()


@pytest.mark.parametrize("sqlstate", ["40001", "40P01"])
async def test_undone_for_the_sake_of_others(store, postgres, sqlstate):
    """A change that the server undoes at its commit is made anew, some times."""
    desk = await desk_on(store)
    await desk.fill(3)
    await desk.ship(0, 1, 2)
    tripped(postgres, store, sqlstate, 5)

    assert await desk.settle(1, answer(0), answer(1)) == ["applied", "applied"]
    assert await desk.states() == "SSI"
    await desk.audit()


async def test_undone_without_end(store, postgres):
    """A server that undoes a change again and again is told of, and nothing of it is there."""
    desk = await desk_on(store)
    await desk.fill(3)
    await desk.ship(0, 1, 2)
    tripped(postgres, store, "40001", 1_000)
    with pytest.raises(StoreBusy, match="held up by another program 20 times: tripped"):
        await desk.settle(1, answer(0))

    assert await desk.states() == "III"


@pytest.mark.parametrize(
    ("sqlstate", "kind", "message"),
    [
        ("53100", StoreFull, "no space left on the server"),
        ("XX001", StoreCorrupt, "is damaged"),
        ("57014", StoreError, "Look at statement_timeout"),
        ("42501", StoreError, "may not do what it has to"),
        ("P0001", StoreError, "failed: tripped"),
    ],
)
async def test_what_does_not_get_better(store, postgres, sqlstate, kind, message):
    """What another try cannot mend is told at once, in the library's words, and undone."""
    desk = await desk_on(store)
    await desk.fill(3)
    await desk.ship(0, 1, 2)
    tripped(postgres, store, sqlstate, 1)
    with pytest.raises(StoreError, match=message) as caught:
        await desk.settle(1, answer(0))

    assert type(caught.value) is kind
    assert await desk.states() == "III"
    assert await desk.settle(1, answer(0)) == ["applied"]


async def test_locked_by_another_program(postgres):
    """A lock that somebody keeps is waited for as long as a server that is away, and no longer."""
    store = PostgresStore(postgres.url(fresh_schema()) + "&outage=0.2")
    await store.open()
    desk = await desk_on(store)
    await store._writer.worker.call(
        lambda: store._writer.link._conn.execute("SET lock_timeout = 50")
    )
    with postgres.connect() as conn, conn.transaction():
        conn.execute(f"LOCK TABLE {store.target.schema}.runs")
        with pytest.raises(StoreBusy, match=r"held up by another program for 0\.2 s"):
            await store.put_facts(desk.lease, {"a": 1})
    conn.close()

    await store.put_facts(desk.lease, {"b": 1})
    assert (await desk.info()).facts == {"b": 1}
    await store.close()


async def test_a_server_that_forgets(store, wire, postgres):
    """A server that comes back without what it had confirmed is noticed, and nothing is written."""
    desk = await desk_on(store)
    await desk.fill(2)
    with postgres.connect() as conn:
        # As after a failover to a replica that was some changes behind.
        conn.execute(f"UPDATE {store.target.schema}.writers SET mark = mark - 1")
    conn.close()
    wire.cut()
    for _ in range(2):
        with pytest.raises(StoreError, match="came back without changes that it had confirmed"):
            await store.put_facts(desk.lease, {"a": 1})

    assert (await desk.info()).facts == {}
    await store.close()
    await store.open()
    await store.put_facts(desk.lease, {"b": 1})
    assert (await desk.info()).facts == {"b": 1}


async def test_a_server_that_takes_no_changes(postgres):
    """A server that has become a standby is waited for like one that is away, then told of."""
    store = PostgresStore(postgres.url(fresh_schema()) + "&outage=0.2")
    await store.open()
    desk = await desk_on(store)
    with postgres.connect() as conn:
        conn.execute("CREATE ROLE stale SUPERUSER LOGIN")
        conn.execute("ALTER ROLE stale SET default_transaction_read_only = on")
    conn.close()
    stale = PostgresStore(store.url.replace("postgres@", "stale@"))
    await stale.open()
    with pytest.raises(StoreError, match="read-only transaction"):
        await stale.put_facts(desk.lease, {"a": 1})

    assert (await stale.read_run("run")).states[ItemState.PENDING] == 0
    await stale.close()
    await store.close()
