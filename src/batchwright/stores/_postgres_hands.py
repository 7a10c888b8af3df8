"""
PostgreSQL: the threads of a store, each with its connection, and who of them does what.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TypeVar

import anyio

from batchwright._clock import clock
from batchwright._threads import Worker
from batchwright.errors import StoreError
from batchwright.stores._postgres_db import Db
from batchwright.stores._postgres_link import Job, Link
from batchwright.stores._postgres_migrate import check, prepare
from batchwright.stores._postgres_url import InDatabase

T = TypeVar("T")

#: Connections beside the one that writes, so that uploads and exports do not wait for it.
_READERS = 2


class _Hand:
    """A thread with its connection, and how many calls wait for it."""

    def __init__(self, link: Link, name: str) -> None:
        self.link = link
        self.worker = Worker(name)
        self.waiting = 0


class Hands(InDatabase):
    """Opens and closes a store, and makes its transactions."""

    def __init__(self, url: str, *, read_only: bool = False) -> None:
        super().__init__(url, read_only=read_only)
        self._writer: _Hand | None = None
        self._readers: list[_Hand] = []

    async def open(self) -> None:
        """See `CheckpointStore.open`."""
        if self._writer is None:
            self._writer = self._hand("write")
            self._readers = [self._hand(f"read-{number}") for number in range(_READERS)]
        hand = self._readers[0] if self.read_only else self._writer
        make = check if self.read_only else prepare
        try:
            await hand.worker.call(lambda: hand.link.open(lambda conn: make(conn, self.target)))
        except BaseException:
            await self.close()
            raise

    def _hand(self, name: str) -> _Hand:
        link = Link(self.target, clock().new_id().encode())
        return _Hand(link, f"batchwright-postgres-{name}")

    async def close(self) -> None:
        """See `CheckpointStore.close`."""
        hands = [*self._readers, *([] if self._writer is None else [self._writer])]
        self._writer, self._readers = None, []
        for hand in hands:
            # Whoever waits for a server that is away waits no longer.
            hand.link.closing = True
        for hand in hands:
            try:
                with anyio.CancelScope(shield=True):
                    await hand.worker.call(hand.link.close)
            finally:
                hand.worker.stop()

    async def _read(self, work: Callable[[Db], T]) -> T:
        if not self._readers:
            raise StoreError(f"the store {self.target.name} is not open")
        hand = min(self._readers, key=lambda hand: hand.waiting)
        job = Job(work, changes=False)
        hand.waiting += 1
        try:
            return await hand.worker.call(lambda: hand.link.do(job))
        except asyncio.CancelledError:
            job.abandon()
            raise
        finally:
            hand.waiting -= 1

    async def _write(self, work: Callable[[Db], T]) -> T:
        hand = self._writer
        if hand is None:
            raise StoreError(f"the store {self.target.name} is not open")
        if self.read_only:
            raise StoreError(f"the store {self.target.name} was opened for reading only")
        job = Job(work, changes=True)
        # A cancelled caller goes when its change is made or not, not while that is open.
        return await hand.worker.finish(lambda: hand.link.do(job), job.abandon)
