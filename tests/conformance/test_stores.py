"""
The stores that come with the library keep every promise of the port.
"""

from __future__ import annotations

import contextlib
import itertools

import pytest
from tests.postgres.server import fresh_schema, running

from batchwright.errors import RunLocked
from batchwright.stores import MemoryStore, SQLiteStore
from batchwright.stores.postgres import PostgresStore
from batchwright.testing import (
    CHECKS,
    SHARED_CHECKS,
    check_checkpoint_store,
    check_shared_store,
    run_store_check,
)


def stores_of(request, kind):
    """Return how to make a store of a kind and how to open its place again."""
    if kind == "memory":
        return MemoryStore, None
    numbers = itertools.count()
    if kind == "sqlite":
        folder = request.getfixturevalue("tmp_path")
        return (
            lambda: SQLiteStore(folder / f"{next(numbers)}.db"),
            lambda store: SQLiteStore(store.path),
        )
    server, stem = request.getfixturevalue("postgres"), fresh_schema()
    return (
        lambda: PostgresStore(server.url(f"{stem}_{next(numbers)}")),
        lambda store: PostgresStore(store.url),
    )


@pytest.fixture(params=["memory", "sqlite", "postgres"])
def makers(request):
    """Return how to make a store and how to open its place again."""
    return stores_of(request, request.param)


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
async def test_store(makers, check):
    """The store keeps the promise that is the check's docstring."""
    make, reopen = makers
    await run_store_check(check, make, reopen=reopen)


@pytest.fixture(params=["memory", "postgres"])
def shared_makers(request):
    """Return how to make a store for many processes and how to open its place again."""
    return stores_of(request, request.param)


@pytest.mark.parametrize("check", SHARED_CHECKS, ids=lambda check: check.__name__)
async def test_shared_store(shared_makers, check):
    """A store for many processes keeps the promise that is the check's docstring."""
    make, reopen = shared_makers
    await run_store_check(check, make, reopen=reopen)


async def test_whole_suite():
    """The suite as third parties call it passes, also for a factory that must be awaited."""

    async def make():
        return MemoryStore()

    await check_checkpoint_store(make)
    await check_shared_store(make)


async def test_broken_store_is_found():
    """A store that breaks a promise fails with the promise's name."""

    class Unfenced(MemoryStore):
        async def put_facts(self, lease, facts):
            with contextlib.suppress(RunLocked):
                await super().put_facts(lease, facts)

    with pytest.raises(AssertionError, match="a released lease does not write"):
        await check_checkpoint_store(Unfenced)


async def test_broken_shared_store_is_found():
    """A store that lets a buried worker write fails with the promise's name."""

    class Undead(MemoryStore):
        async def put_facts(self, lease, facts):
            with contextlib.suppress(RunLocked):
                await super().put_facts(lease, facts)

    with pytest.raises(AssertionError, match="a buried worker does not write"):
        await run_store_check(
            next(c for c in SHARED_CHECKS if c.__name__ == "buries_the_silent"), Undead
        )


async def test_an_older_server():
    """The suites pass on a server some versions older as well."""
    numbers = itertools.count()
    with running(16) as server:

        def make():
            return PostgresStore(server.url(f"s{next(numbers)}"))

        await check_checkpoint_store(make, reopen=lambda store: PostgresStore(store.url))
        await check_shared_store(make, reopen=lambda store: PostgresStore(store.url))
