"""
Opening a PostgreSQL store: its tables, and what is said where it cannot be opened.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import sys
from urllib.parse import quote

import pytest
from tests.postgres.server import GUARDED, PASSWORD, fresh_schema

from batchwright.errors import ConfigurationError, SchemaTooNew, StoreCorrupt, StoreError
from batchwright.stores import name_of, open_store, reader_of
from batchwright.stores._postgres_schema import MIGRATIONS
from batchwright.stores.postgres import PostgresStore
from batchwright.testing._store_desk import desk_on


async def opening(url):
    """Return what is said when the store cannot be opened; it is left closed."""
    store = PostgresStore(url)
    with pytest.raises((StoreError, ConfigurationError)) as caught:
        await store.open()
    with pytest.raises(StoreError, match="is not open"):
        await store.list_runs()
    return str(caught.value)


def execute(server, *statements):
    """Run statements past every store."""
    with server.connect() as conn:
        rows = [conn.execute(statement) for statement in statements]
        found = rows[-1].fetchall() if rows[-1].description else []
    conn.close()
    return found


# -- what cannot be reached -------------------------------------------------------------------


@pytest.mark.parametrize("secret", ["wrong", "w?r%40ng"])
async def test_wrong_password(postgres, secret):
    """A wrong password is told as such, and not repeated."""
    said = await opening(postgres.url(user=f"{GUARDED}:{secret}"))

    assert f"postgresql://{GUARDED}@127.0.0.1" in said
    assert 'password authentication failed for user "guarded"' in said
    assert "Look at user and password" in said
    assert secret not in said


async def test_right_password(postgres):
    """A password with characters that must be escaped opens the store."""
    schema = fresh_schema()
    execute(postgres, f"CREATE SCHEMA {schema} AUTHORIZATION {GUARDED}")
    url = postgres.url(schema, user=f"{GUARDED}:{quote(PASSWORD, safe='')}")
    store = PostgresStore(url)
    await store.open()
    await (await desk_on(store)).fill(2)
    await store.close()

    assert name_of(store) == postgres.url(schema, user=GUARDED)
    assert PASSWORD not in repr(store)


async def test_no_password(postgres, monkeypatch):
    """A missing password is told as such; the environment may hold it."""
    said = await opening(postgres.url(user=GUARDED))
    assert "no password supplied" in said

    monkeypatch.setenv("PGPASSWORD", PASSWORD)
    assert "may not do what it has to" in await opening(postgres.url(fresh_schema(), user=GUARDED))


async def test_no_such_database(postgres):
    """A database that is not there is told with what to do."""
    said = await opening(postgres.url().removesuffix("postgres") + "nowhere")

    assert 'database "nowhere" does not exist' in said
    assert "createdb" in said


async def test_no_such_user(postgres):
    """A user who is not there is told."""
    assert 'role "nobody" does not exist. Look at the user' in await opening(
        postgres.url(user="nobody")
    )


async def test_no_such_host(monkeypatch):
    """A host that cannot be found is told, without the password."""

    def unknown(*args, **kwargs):
        raise socket.gaierror(-2, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", unknown)
    said = await opening("postgresql://me:secret@nowhere.example/db")

    assert "the store postgresql://me@nowhere.example/db cannot be reached" in said
    assert "nowhere.example" in said
    assert "Look at the host's name" in said
    assert "secret" not in said


async def test_nobody_listens():
    """A server that is not running is told at once, however long an outage may last."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    said = await opening(f"postgresql://me:secret@127.0.0.1:{port}/db?outage=3600")

    assert "refused" in said
    assert "Is the server running on that host" in said
    assert "secret" not in said


async def test_unknown_parameter(postgres):
    """A parameter that the driver does not know is refused, without repeating the URL."""
    said = await opening(f"{postgres.url(user='me:secret')}?bogus=1")

    assert "is not a PostgreSQL URL that the driver takes" in said
    assert "secret" not in said


async def test_a_socket_in_the_file_system(postgres):
    """A server on the same machine is reached by its socket as well."""
    where = quote(str(postgres.data), safe="")
    schema = fresh_schema()
    url = f"postgresql://postgres@/postgres?host={where}&port={postgres.port}&schema={schema}"
    store = PostgresStore(url)
    await store.open()
    await (await desk_on(store)).fill(2)

    assert list(await store.list_runs()) == ["run"]
    await store.close()


# -- the tables -------------------------------------------------------------------------------


async def test_two_processes_open_a_new_store_at_once(postgres):
    """Of many that open a new store at once one makes the tables, and all can use them."""
    url = postgres.url(fresh_schema())
    code = (
        "import asyncio, sys\n"
        "from batchwright.stores import open_store\n"
        "from batchwright.testing._store_desk import desk_on\n"
        "async def main():\n"
        "    store = open_store(sys.argv[1])\n"
        "    print('ready', flush=True)\n"
        "    sys.stdin.read()\n"
        "    await store.open()\n"
        "    await (await desk_on(store, sys.argv[2])).fill(3)\n"
        "    await store.close()\n"
        "asyncio.run(main())\n"
    )
    async with contextlib.AsyncExitStack() as stack:
        children = []
        for number in range(2):
            child = await asyncio.create_subprocess_exec(
                sys.executable,
                *("-c", code, url, f"run-{number}"),
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
            )
            stack.push_async_callback(child.communicate)
            children.append(child)
        assert [await child.stdout.readline() for child in children] == [b"ready\n"] * 2
        for child in children:
            child.stdin.close()
        stores = [PostgresStore(url) for _ in range(4)]
        for store in stores:
            stack.push_async_callback(store.close)
        await asyncio.gather(*(store.open() for store in stores))
        codes = [await child.wait() for child in children]
        runs = await stores[0].list_runs()

    assert codes == [0, 0]
    assert sorted(runs) == ["run-0", "run-1"]


async def test_schemas_are_apart(postgres):
    """Stores in two schemas of one database know nothing of each other, whatever their names."""
    one = PostgresStore(postgres.url('odd%20"name'))
    two = PostgresStore(postgres.url(fresh_schema()))
    for store in (one, two):
        await store.open()
    await (await desk_on(one, "a")).fill(3)

    assert list(await two.list_runs()) == []
    assert list(await one.list_runs()) == ["a"]
    for store in (one, two):
        await store.close()


async def test_a_newer_store_is_refused(postgres):
    """A store that a newer version wrote is refused, and stays as it is."""
    schema = fresh_schema()
    store = PostgresStore(postgres.url(schema))
    await store.open()
    await store.close()
    execute(postgres, f"INSERT INTO {schema}.batchwright_version VALUES (99)")
    with pytest.raises(SchemaTooNew, match="schema version 99") as caught:
        await store.open()

    assert (caught.value.found, caught.value.known) == (99, len(MIGRATIONS))


async def test_an_older_store_is_brought_up_to_date(postgres, monkeypatch):
    """A store of an older version gets what it lacks, once, and keeps what it holds."""
    schema = fresh_schema()
    store = PostgresStore(postgres.url(schema))
    await store.open()
    await (await desk_on(store)).fill(3)
    await store.close()
    newer = (*MIGRATIONS, "CREATE TABLE extra (n integer); INSERT INTO extra VALUES (1)")
    monkeypatch.setattr("batchwright.stores._postgres_migrate.MIGRATIONS", newer)
    monkeypatch.setattr("batchwright.stores._postgres_migrate.SCHEMA_VERSION", len(newer))
    with pytest.raises(StoreError, match="was written by an older version"):
        await reader_of(store).open()
    for _ in range(2):
        await store.open()
        await store.close()

    assert execute(postgres, f"SELECT n FROM {schema}.extra") == [(1,)]
    assert execute(postgres, f"SELECT count(*) FROM {schema}.items") == [(3,)]


async def test_tables_of_others_are_left_alone(postgres):
    """A schema with the tables of another program is refused, and nothing in it is changed."""
    schema = fresh_schema()
    execute(postgres, f"CREATE SCHEMA {schema}", f"CREATE TABLE {schema}.runs (mine integer)")
    with pytest.raises(StoreCorrupt, match="holds the tables of another program"):
        await PostgresStore(postgres.url(schema)).open()

    tables = f"SELECT count(*) FROM pg_tables WHERE schemaname = '{schema}'"
    assert execute(postgres, tables) == [(1,)]


async def test_lost_tables_are_told(postgres):
    """A store whose tables were dropped under it says so, and what to do."""
    schema = fresh_schema()
    store = PostgresStore(postgres.url(schema))
    await store.open()
    execute(postgres, f"DROP SCHEMA {schema} CASCADE")
    with pytest.raises(StoreCorrupt, match="has lost a part of its tables"):
        await store.list_runs()

    await store.close()


async def test_no_right_to_make_the_schema(postgres):
    """A user who may not make the schema is told what an administrator has to say."""
    schema = fresh_schema()
    url = postgres.url(schema, user=f"{GUARDED}:{quote(PASSWORD, safe='')}")

    said = await opening(url)

    assert f'CREATE SCHEMA "{schema}" AUTHORIZATION' in said
    assert PASSWORD not in said


async def test_reading_alone(postgres):
    """A store opened for reading makes nothing, not even its tables, and changes nothing."""
    schema = fresh_schema()
    url = postgres.url(schema)
    reader = reader_of(open_store(url))
    with pytest.raises(StoreError, match="there is no store in .* yet"):
        await reader.open()
    assert execute(postgres, f"SELECT to_regnamespace('{schema}')::text") == [(None,)]
    store = PostgresStore(url)
    await store.open()
    desk = await desk_on(store)
    await desk.fill(2)
    await store.close()
    await reader.open()

    assert list(await reader.list_runs()) == ["run"]
    with pytest.raises(StoreError, match="was opened for reading only"):
        await reader.put_facts(desk.lease, {"a": 1})
    await reader.close()


async def test_nothing_is_left_behind(postgres):
    """Closed stores leave no connection and no mark; killed ones leave marks for a while."""
    schema = fresh_schema()
    store = PostgresStore(postgres.url(schema) + "&application_name=lives")
    await store.open()
    await (await desk_on(store)).fill(2)
    await store.list_runs()
    execute(postgres, f"INSERT INTO {schema}.writers VALUES ('old', 1, now() - interval '1 year')")
    connections = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'lives'"
    before = execute(postgres, connections)
    await store.close()

    assert before == [(2,)]
    assert execute(postgres, f"SELECT count(*) FROM {schema}.writers") == [(0,)]
    while execute(postgres, connections) != [(0,)]:
        await asyncio.sleep(0.01)


async def test_changes_are_flushed(postgres):
    """Changes are flushed before they count, also where the database says otherwise."""
    execute(postgres, "CREATE ROLE hasty SUPERUSER LOGIN")
    execute(postgres, "ALTER ROLE hasty SET synchronous_commit = off")
    store = PostgresStore(postgres.url(fresh_schema(), user="hasty"))
    await store.open()

    kept = await store._write(lambda db: db.row("SELECT current_setting('synchronous_commit')"))
    assert kept == ("on",)
    await store.close()
