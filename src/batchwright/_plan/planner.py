"""
A plan: the items are read as a run would read them, and nothing is sent that costs.
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass

from anyio.lowlevel import checkpoint

from batchwright._clients import Clients
from batchwright._clock import clock
from batchwright._gateway import retirements
from batchwright._ingest import Items
from batchwright._intake import IntakeRules
from batchwright._options import Options
from batchwright._org import OrgLink
from batchwright._plan.document import report_of, shards_of
from batchwright._plan.facts import Facts
from batchwright._plan.inquiry import COUNTED, Answers, Inquiry
from batchwright._plan.past import Past, read_answers, read_past, read_sizes
from batchwright._plan.reading import Reading
from batchwright.errors import ConfigurationError, StoreAbsent
from batchwright.events import Event
from batchwright.report.plan import PlanReport
from batchwright.store import CheckpointStore
from batchwright.stores import reader_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """
    What the caller declares about the work; what batches are not for is refused.

    Attributes:
        user_waiting: Whether a person waits for the answers.
        streaming: Whether answers are needed as a stream.
        ids_from_position: Whether ids were made from positions in the input.
    """

    user_waiting: bool = False
    streaming: bool = False
    ids_from_position: bool = False

    def check(self) -> None:
        """
        Make sure that this is work for batches.

        Raises:
            ConfigurationError: It is not; the message says why, and what to use instead.
        """
        if self.user_waiting:
            raise ConfigurationError(
                "a person waits for these answers, and a batch answers after minutes or a day: "
                "ask directly with client.messages.create (workload-policy/nobody-waiting)"
            )
        if self.streaming:
            raise ConfigurationError(
                "a batch gives whole answers, all at once when it has ended, and cannot stream: "
                "use client.messages.stream (workload-policy/no-streaming)"
            )
        if self.ids_from_position:
            raise ConfigurationError(
                "ids made from positions name another question as soon as an item is added, left "
                "out or moved, and then answers that were paid for belong to nothing: take ids "
                "from your data: a key, a path, a hash of the text "
                "(custom-id-policy/never-from-positions)"
            )


class Planner:
    """One plan of one run."""

    def __init__(
        self,
        run_id: str,
        store: CheckpointStore,
        *,
        is_open: bool,
        clients: Clients,
        options: Options,
        emit: Callable[[Event], None],
    ) -> None:
        """
        Prepare a plan.

        Args:
            run_id: The run that would be run.
            store: Where it would be kept; it is only read.
            is_open: Whether *store* is open; else it, and the clients, are closed again.
            clients: The accounts.
            options: Those of the runner.
            emit: Told of the progress.
        """
        self._run_id = run_id
        self._store = store
        self._is_open = is_open
        self._clients = clients
        self._options = options
        self._emit = emit

    async def plan(self, items: Items, work: Workload, *, offline: bool) -> PlanReport:
        """
        Read *items* and tell what a run of them would be.

        Raises:
            ConfigurationError: *work* is not for batches.
            IntakeError: Nothing in *items* is an item.
            StoreError: The store cannot be read.
        """
        work.check()
        if self._is_open:
            return await self._plan(items, self._store, offline=offline)
        try:
            async with self._reader() as store:
                return await self._plan(items, store, offline=offline)
        finally:
            await self._clients.aclose()

    @contextlib.asynccontextmanager
    async def _reader(self) -> AsyncIterator[CheckpointStore | None]:
        """Open the store for reading alone, where there is one yet."""
        store = reader_of(self._store)
        if store is not None:
            try:
                await store.open()
            except StoreAbsent:
                store = None
        try:
            yield store
        finally:
            if store is not None:
                await store.close()

    async def _plan(
        self, items: Items, store: CheckpointStore | None, *, offline: bool
    ) -> PlanReport:
        orgs = self._links()
        past = await read_past(store, self._run_id, clock().now())
        if store is not None and self._options.cache:
            await read_answers(past, store, self._run_id, orgs.values())
        reading = await self._read(items, past, orgs)
        if store is not None:
            await read_sizes(past, store, reading.sizes)
        answers = Answers() if offline else await self._ask(orgs, reading)
        facts = Facts(
            run_id=self._run_id,
            options=self._options,
            orgs=list(orgs.values()),
            past=past,
            has_store=store is not None,
            reading=reading,
            answers=answers,
            offline=offline,
            retirements=retirements(),
            now=clock().now(),
        )
        shards = []
        for shard in shards_of(facts):
            shards.append(shard)
            # Each goes through thousands of items, and there may be hundreds.
            await checkpoint()
        return report_of(facts, shards)

    def _links(self) -> dict[str, OrgLink]:
        options = self._options
        return {
            label: OrgLink(
                org,
                gateway,
                run_id=self._run_id,
                polling=options.polling,
                retry=options.retry,
                emit=self._emit,
            )
            for label, (org, gateway) in self._clients.gateways().items()
        }

    async def _read(self, items: Items, past: Past, orgs: Mapping[str, OrgLink]) -> Reading:
        options = self._options
        rules = IntakeRules(
            run_id=self._run_id,
            max_bytes=options.limits.max_bytes,
            # As in a run: an item may go through any org, so the strictest version decides.
            api_version=max(org.gateway.api_version for org in orgs.values()),
        )
        reading = Reading(
            past,
            rules,
            on_changed=options.on_changed,
            max_direct=options.sync.max_bytes,
            emit=self._emit,
        )
        await reading.run(items)
        return reading

    async def _ask(self, orgs: Mapping[str, OrgLink], reading: Reading) -> Answers:
        sample = reading.sample
        first, *others = orgs.values()
        answers = await Inquiry(first).ask(sample.asked, sample.chosen(COUNTED))
        for org in others:
            # The same answers come from each; whether it is let in, each must tell by itself.
            one = await Inquiry(org).ask(list(sample.asked)[:1], ())
            answers.accounts.update(one.accounts)
        return answers
