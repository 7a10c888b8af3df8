"""
What an implementation of a port must do to be one: run it against your own.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from typing import Final, TypeAlias

from batchwright.store import CheckpointStore
from batchwright.testing import (
    _checks_cache,
    _checks_intake,
    _checks_life,
    _checks_settle,
    _checks_shared,
    _checks_work,
)

MakeStore: TypeAlias = Callable[[], CheckpointStore | Awaitable[CheckpointStore]]
#: Takes a closed store, returns another object on the same place.
Reopen: TypeAlias = Callable[[CheckpointStore], CheckpointStore | Awaitable[CheckpointStore]]


class StoreMaker:
    """Makes the stores of one check and closes them."""

    def __init__(self, make_store: MakeStore, reopen: Reopen | None = None) -> None:
        self._make = make_store
        self._reopen = reopen
        self._made: list[CheckpointStore] = []

    async def fresh(self) -> CheckpointStore:
        """Return a new, empty, open store."""
        return await self._opened(self._make())

    async def reopen(self, store: CheckpointStore) -> CheckpointStore:
        """Close *store* and open what it kept, as another object where that is possible."""
        await store.close()
        return await self._opened(store if self._reopen is None else self._reopen(store))

    async def close(self) -> None:
        """Close everything."""
        for store in self._made:
            await store.close()

    async def _opened(self, made: CheckpointStore | Awaitable[CheckpointStore]) -> CheckpointStore:
        store = await made if inspect.isawaitable(made) else made
        self._made.append(store)
        await store.open()
        return store


StoreCheck: TypeAlias = Callable[[StoreMaker], Awaitable[None]]

#: Every check of `CheckpointStore`: the docstring is the promise, a failed assertion names it.
CHECKS: Final[tuple[StoreCheck, ...]] = (
    *_checks_life.CHECKS,
    *_checks_intake.CHECKS,
    *_checks_work.CHECKS,
    *_checks_settle.CHECKS,
    *_checks_cache.CHECKS,
)

#: Every check of `SharedStore`, which a store passes in addition to `CHECKS`.
SHARED_CHECKS: Final[tuple[StoreCheck, ...]] = _checks_shared.CHECKS


async def run_store_check(
    check: StoreCheck, make_store: MakeStore, *, reopen: Reopen | None = None
) -> None:
    """Run one of `CHECKS` or `SHARED_CHECKS` on fresh stores, and close them."""
    maker = StoreMaker(make_store, reopen)
    try:
        await check(maker)
    finally:
        await maker.close()


async def check_checkpoint_store(make_store: MakeStore, *, reopen: Reopen | None = None) -> None:
    """
    Run every check against stores from *make_store*.

    Args:
        make_store: Returns a new, empty store each time; it need not be open.
        reopen: Takes a store that was closed and returns another object on the same place. Leave
            it out for a store that lives only within its object.

    Raises:
        AssertionError: A promise of the port is broken; the message names it.
    """
    await _run_all(CHECKS, make_store, reopen)


async def check_shared_store(make_store: MakeStore, *, reopen: Reopen | None = None) -> None:
    """
    Run every check of `CheckpointStore`, and those of `SharedStore`; see `check_checkpoint_store`.

    Raises:
        AssertionError: A promise of the port is broken; the message names it.
    """
    await _run_all(CHECKS + SHARED_CHECKS, make_store, reopen)


async def _run_all(
    checks: tuple[StoreCheck, ...], make_store: MakeStore, reopen: Reopen | None
) -> None:
    for check in checks:
        try:
            await run_store_check(check, make_store, reopen=reopen)
        except AssertionError as error:
            name = getattr(check, "__name__", "check")
            raise AssertionError(f"{name}: {error} ({inspect.getdoc(check)})") from error
