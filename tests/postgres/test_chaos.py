"""
Whole runs over HTTP while the database is being ill-treated; afterwards all books balance.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import signal
import threading

import pytest
from tests.postgres.books import assert_paid_once, check_tables
from tests.postgres.proxy import proxy_to
from tests.postgres.server import fresh_schema
from tests.support import Heard, items, runner_on

from batchwright import ShardLimits
from batchwright.errors import StoreError
from batchwright.events import ShardSubmitted
from batchwright.testing import simulate

ITEMS, SHARD = 240, 20
CUT = {"limits": ShardLimits(max_requests=SHARD, concurrency=4)}


class Tormentor:
    """Ends connections of one store on the server, at random moments, some times."""

    #: After so many it leaves the run in peace, which on a busy machine might never end.
    most = 15

    def __init__(self, server, schema, seed, within):
        self._server, self._schema = server, schema
        self._chance, self._within = random.Random(seed), within
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._work)
        self.ended = 0

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._stop.set()
        self._thread.join()

    def _work(self):
        with self._server.connect() as conn:
            while self.ended < self.most:
                if self._stop.wait(self._chance.random() * self._within):
                    break
                found = conn.execute(
                    "SELECT pid FROM pg_stat_activity WHERE application_name = %s ORDER BY pid",
                    (self._schema,),
                ).fetchall()
                if found:
                    (pid,) = self._chance.choice(found)
                    conn.execute("SELECT pg_terminate_backend(%s)", (pid,))
                    self.ended += 1
        conn.close()


def url_of(server, schema, **more):
    """Return the URL of a store whose connections can be told from others."""
    return server.url(schema, **more) + f"&application_name={schema}"


@pytest.mark.parametrize("seed", [1, 2, 3])
async def test_connections_killed_all_the_time(postgres, seed):
    """A run goes through while its connections are killed at random moments."""
    schema, asked = fresh_schema(), items(ITEMS)
    async with simulate() as sim:
        async with runner_on(sim, url_of(postgres, schema), **CUT) as runner:
            with Tormentor(postgres, schema, seed, within=0.1) as tormentor:
                result = await runner.run(asked)

        assert tormentor.ended > 0
        assert_paid_once(sim, result, asked)
    check_tables(postgres, schema)


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGQUIT], ids=["restart", "crash"])
async def test_the_server_restarts_in_the_middle(postgres, how):
    """A run goes through a restart of the server in the middle, also through a crash."""
    schema, asked, heard = fresh_schema(), items(ITEMS), Heard()
    async with simulate() as sim:
        async with runner_on(sim, url_of(postgres, schema), on_event=heard, **CUT) as runner:
            run = asyncio.create_task(runner.run(asked))
            await heard.until(ShardSubmitted)
            await asyncio.to_thread(postgres.restart, how)
            result = await run

        assert_paid_once(sim, result, asked)
    check_tables(postgres, schema)


async def test_the_server_stays_away(postgres):
    """A run whose server stays away ends with an error that says so, and is resumed later."""
    schema, asked, heard = fresh_schema(), items(ITEMS), Heard()
    async with simulate() as sim:
        with proxy_to(postgres.port) as wire:
            url = url_of(postgres, schema, port=wire.port) + "&outage=0.2"
            async with runner_on(sim, url, on_event=heard, **CUT) as runner:
                run = asyncio.create_task(runner.run(asked))
                await heard.until(ShardSubmitted)
                wire.closed = True
                wire.cut()
                with pytest.raises(StoreError, match="could not be reached"):
                    await run
        before = set(sim.world.books().sent)
        async with runner_on(sim, url_of(postgres, schema), **CUT) as runner:
            result = await runner.run(asked)

        assert 0 < len(before) <= ITEMS
        assert_paid_once(sim, result, asked)
    check_tables(postgres, schema)


async def test_slow_and_cut_wire(postgres):
    """A run goes through over a slow wire that is cut again and again."""
    schema, asked, chance = fresh_schema(), items(60), random.Random(1)
    async with simulate() as sim:
        with proxy_to(postgres.port) as wire:
            wire.delay = 0.002

            async def cutting():
                for _ in range(8):
                    await asyncio.sleep(0.02 + chance.random() * 0.1)
                    wire.cut()

            async with runner_on(sim, url_of(postgres, schema, port=wire.port), **CUT) as runner:
                torment = asyncio.create_task(cutting())
                result = await runner.run(asked)
                torment.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await torment

            assert wire.made > 4
        assert_paid_once(sim, result, asked)
    check_tables(postgres, schema)


async def test_every_confirmation_is_lost(postgres):
    """A run goes through where each change is stored and its confirmation lost."""
    schema, asked = fresh_schema(), items(60)
    async with simulate() as sim:
        with proxy_to(postgres.port) as wire:

            def rule(data, to_server):
                # Reading is confirmed as well, but nothing was inserted then.
                lost = not to_server and b"INSERT 0 1\0" in data and b"COMMIT\0" in data
                return "cut before" if lost else "pass"

            wire.lasting = True
            async with runner_on(sim, url_of(postgres, schema, port=wire.port), **CUT) as runner:
                wire.rule = rule
                result = await runner.run(asked)
                wire.rule = None

        assert wire.cuts > 20
        assert_paid_once(sim, result, asked)
    check_tables(postgres, schema)


async def test_the_server_undoes_every_third_change(postgres):
    """A run goes through where the server undoes changes for the sake of others."""
    schema, asked = fresh_schema(), items(ITEMS)
    async with simulate() as sim:
        async with runner_on(sim, url_of(postgres, schema), **CUT) as runner:
            with postgres.connect() as conn:
                conn.execute(f"CREATE SEQUENCE {schema}.trips")
                conn.execute(
                    f"CREATE FUNCTION {schema}.trip() RETURNS trigger LANGUAGE plpgsql AS $$ "
                    f"BEGIN IF nextval('{schema}.trips') % 3 = 0 THEN RAISE EXCEPTION "
                    "'could not serialize' USING ERRCODE = 'serialization_failure'; END IF; "
                    "RETURN NEW; END $$"
                )
                conn.execute(
                    f"CREATE CONSTRAINT TRIGGER trip AFTER INSERT OR UPDATE ON {schema}.writers "
                    f"DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION {schema}.trip()"
                )
            conn.close()
            result = await runner.run(asked)
            with postgres.connect() as conn:
                trips = conn.execute(f"SELECT last_value FROM {schema}.trips").fetchone()
            conn.close()

        assert trips[0] > 30
        assert_paid_once(sim, result, asked)
    check_tables(postgres, schema)
