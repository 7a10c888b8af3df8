"""
`BatchRunner`: from items to outcomes.

It opens what is needed, takes the run over, reads the items, conducts a wave, and hands back what
became of each item. Nothing here is bound to an event loop before it runs.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Self

from batchwright._canary import ABOVE
from batchwright._clients import Clients
from batchwright._feed import Feed
from batchwright._ingest import Items
from batchwright._judge import Validate, make_judge
from batchwright._options import Options, check_choices, check_run_id
from batchwright._session import Session
from batchwright.config import Org, Polling, RetryBudget, ShardLimits, SyncLimits
from batchwright.errors import ConfigurationError, RunLocked
from batchwright.events import Event
from batchwright.listeners.logging import teller
from batchwright.policy import DispatchPolicy, resolve_policy
from batchwright.result import RunResult
from batchwright.shared import SharedStore
from batchwright.status import CancelsRequested, RunStatus
from batchwright.store import CheckpointStore, OnChanged
from batchwright.stores import name_of, open_store
from batchwright.stream import OutcomeStream
from batchwright.types import ON_REQUEST, Outcome

if TYPE_CHECKING:
    from anthropic import AsyncAnthropic

    from batchwright.report import PlanReport, RunReport

DEFAULT_RUN = "default"


class BatchRunner:
    """
    Runs any number of requests through the Message Batches API.

    Each item ends with exactly one recorded outcome. Use it as `async with BatchRunner(…) as
    runner`, or without: then each call opens what it needs and closes it again.
    """

    def __init__(
        self,
        *,
        orgs: Sequence[Org] | None = None,
        client: AsyncAnthropic | None = None,
        store: str | os.PathLike[str] | CheckpointStore = "batchwright.db",
        policy: str | DispatchPolicy = "cost",
        limits: ShardLimits = ShardLimits(),
        polling: Polling = Polling(),
        retry: RetryBudget = RetryBudget(),
        sync: SyncLimits = SyncLimits(),
        validate: Validate | None = None,
        on_changed: OnChanged = "error",
        retry_rejected: bool = False,
        canary: int | None = None,
        cache: bool = False,
        preflight: bool = True,
        on_event: Callable[[Event], None] | None = None,
    ) -> None:
        """
        Check and keep the options; nothing is opened and nothing is sent.

        Args:
            orgs: The accounts to use, each with its own client.
            client: Shorthand for one org; without both the SDK's environment is read.
            store: A path, `sqlite:///…`, `postgresql://…`, `memory://`, or a `CheckpointStore`.
            policy: `"cost"`, `"balanced"`, `"latency"`, `"batch"`, `"sync"`, or a
                `DispatchPolicy`.
            limits: How sub-batches are cut.
            polling: How often batches are looked at, and their grace.
            retry: How often an item, and a call, is tried.
            sync: Bounds of the sync path.
            validate: Refuses an answer by returning `False` or raising `ValueError`; a pydantic
                model parses the answer's text as JSON.
            on_changed: What a known id with another question means: `"error"`, `"rerun"` or
                `"keep"`.
            retry_rejected: Whether a rejected answer is tried again within the budget.
            canary: Before a first wave of more items than this, one item of each shape (at most
                five) goes ahead by direct call, so that a mistake made in all of them shows at
                once; `None` means 1,000, 0 never.
            cache: Whether items take the answers that earlier runs in this store hold to the same
                questions (`via="cache"`); nothing is sent for them.
            preflight: Whether the credential is proved by a cheap call before the first create.
            on_event: Called with every event, on the event loop; it must not block.

        Raises:
            ConfigurationError: An option is wrong.
        """
        clients = Clients(orgs, client)
        check_choices(on_changed, canary)
        self._clients = clients
        self._store_spec = store
        self._store = open_store(store)
        self._policy_name = policy if isinstance(policy, str) else type(policy).__name__
        self._emit = teller(on_event)
        self._entered = 0
        self._options = Options(
            policy=resolve_policy(policy),
            policy_name=self._policy_name,
            limits=limits,
            polling=polling,
            retry=retry,
            sync=sync,
            judge=make_judge(validate),
            on_changed=on_changed,
            retry_rejected=retry_rejected,
            preflight=preflight,
            canary=ABOVE if canary is None else canary,
            cache=cache,
            store_name=name_of(store),
        )

    # -- life ---------------------------------------------------------------------------------

    async def __aenter__(self) -> Self:
        """Open the store, so that several calls share it."""
        await self._open()
        return self

    async def __aexit__(self, *_: object) -> None:
        """Close what was opened."""
        await self._close()

    async def _open(self) -> None:
        if self._entered == 0:
            await self._store.open()
        self._entered += 1

    async def _close(self) -> None:
        self._entered -= 1
        if self._entered:
            return
        try:
            await self._clients.aclose()
        finally:
            await self._store.close()

    @contextlib.asynccontextmanager
    async def _session(self, run_id: str) -> AsyncIterator[Session]:
        """Open what one call needs, and close it again unless the runner was entered."""
        check_run_id(run_id)
        await self._open()
        try:
            yield Session(
                run_id=run_id,
                store=self._store,
                reopen=self._reopen,
                reopened=self._is_reopened,
                gateways=self._clients.gateways,
                options=self._options,
                emit=self._emit,
            )
        finally:
            await self._close()

    def _reopen(self) -> CheckpointStore:
        """Return a store for reading after this runner has closed its own."""
        return open_store(self._store_spec) if self._is_reopened else self._store

    @property
    def _is_reopened(self) -> bool:
        spec = self._store_spec
        return isinstance(spec, str | os.PathLike) and not str(spec).startswith("memory:")

    # -- running ------------------------------------------------------------------------------

    async def run(
        self, items: Items, *, run_id: str = DEFAULT_RUN, collect: bool = True
    ) -> RunResult:
        """
        Bring every item to an outcome, or go on with what an earlier call began.

        A second call on the same store sends only what has no answer and is not in flight.

        Args:
            items: `Item`s, `(id, params)` pairs, or the API's `{"custom_id", "params"}` dicts, from
                an iterable or an asynchronous one; read once.
            run_id: Name of the job inside the store.
            collect: Keep all answers in memory; otherwise read them from the result by `async for`
                or `to_jsonl`.

        Raises:
            IntakeError: The items cannot be taken; nothing was sent.
            RunLocked: Another live process owns the run; nothing was sent.
            StoreError: The store cannot be used.
        """
        async with self._session(run_id) as session:
            return await session.run(items, collect=collect)

    async def load(self, items: Items, run_id: str = DEFAULT_RUN) -> RunStatus:
        """
        Read the items into the store and send nothing; `work`, `resume` or `run` sends them.

        Args:
            items: As in `run`.
            run_id: Name of the job.

        Raises:
            IntakeError: The items cannot be taken; none of them was.
            RunLocked: Another live process owns the run, or works on it.
        """
        async with self._session(run_id) as session:
            return await session.load(items)

    async def work(
        self, run_id: str = DEFAULT_RUN, *, wait: float = 60.0, collect: bool = False
    ) -> RunResult:
        """
        Work on a run together with any number of other processes, on any number of machines.

        All of them share a PostgreSQL store. Each claims sub-batches, sends, watches and reads
        them, or asks their items directly; one at a time conducts. Any of them may join late, be
        interrupted or die: the others take over what it had. The call returns when the run is over
        for all, or when the accounts of this process are stopped and others can go on.

        Args:
            run_id: Name of the job; its items are put in by `load` or by `run`.
            wait: Seconds to wait for the run to appear. Once somebody reads items into it, it is
                waited for as long as that takes.
            collect: As in `run`.

        Raises:
            ConfigurationError: No such run, or a store that only one process can work on.
            StoreError: The store cannot be used.
        """
        if not isinstance(self._store, SharedStore):
            raise ConfigurationError(
                "several processes can work on a run in a PostgreSQL database "
                f"(store='postgresql://…'), not in {self._options.store_name}"
            )
        async with self._session(run_id) as session:
            return await session.work(wait, collect=collect)

    async def resume(
        self,
        run_id: str = DEFAULT_RUN,
        *,
        resubmit: Sequence[str] = (),
        adopt: Mapping[str, int] | None = None,
        collect: bool = True,
    ) -> RunResult:
        """
        Go on with a run from the store alone, without the items.

        Args:
            run_id: Name of the job.
            resubmit: Reasons of unresolved items to send anew, each with a fresh budget:
                `exhausted`, `overdue`, `ambiguous`, `archived`, `not_found`, `foreign`,
                `canceled`. They may be paid for a second time.
            adopt: Batch ids by hand: which batch on the server a create without an answer made,
                as `{batch id: number of the sub-batch}`. Its first result line must prove it.
            collect: As in `run`.

        Raises:
            ConfigurationError: No such run, or an unknown reason.
            IntakeError: The run's items were never read to the end.
            RunLocked: Another live process owns the run.
        """
        reasons = frozenset([resubmit] if isinstance(resubmit, str) else resubmit)
        if unknown := reasons - ON_REQUEST:
            raise ConfigurationError(
                f"resubmit does not take {', '.join(sorted(map(repr, unknown)))}; it takes "
                f"{', '.join(sorted(ON_REQUEST))}"
            )
        async with self._session(run_id) as session:
            return await session.resume(resubmit=reasons, adopt=adopt, collect=collect)

    async def cancel(self, run_id: str = DEFAULT_RUN, *, collect: bool = True) -> RunResult:
        """
        Cancel the run's live batches, keep every answer they still give, and end the run.

        Items without an answer end as `unresolved: canceled`, and are sent again only by
        `resume(resubmit=["canceled"])`.

        Raises:
            ConfigurationError: No such run.
            RunLocked: Another live process owns the run; stop it first.
        """
        async with self._session(run_id) as session:
            return await session.resume(cancel=True, collect=collect)

    async def request_cancel(
        self,
        run_id: str = DEFAULT_RUN,
        *,
        timeout: float = 20.0,  # noqa: ASYNC109 - it bounds several calls
    ) -> CancelsRequested:
        """
        Ask the server to cancel the run's live batches, and return at once; for interruptions.

        `cancel` does the same and waits for what they still give. After this one `resume` collects
        it; the items that were canceled wait for `resume(resubmit=["canceled"])`.

        Args:
            run_id: Name of the job.
            timeout: Seconds for all of it; batches that were not reached are named.

        Raises:
            ConfigurationError: No such run.
            RunLocked: Another live process owns the run; stop it first.
        """
        async with self._session(run_id) as session:
            return await session.request_cancel(timeout)

    async def recover(
        self, items: Items, run_id: str = DEFAULT_RUN, *, collect: bool = True
    ) -> RunResult:
        """
        Rebuild a lost store from the workspace's batches of the last 29 days; send nothing.

        The answers that the API still keeps are found by their `custom_id`s, which hold a code of
        run id, item id and question: all three must be what they were. Items for which nothing was
        found end as `unresolved: interrupted`; `resume` sends them. Batches that still run cannot
        be looked into: they are named in `result.stopped`. Wait for them and call `recover` again
        before `resume`, or their items may be paid for twice.

        Args:
            items: The items of the run, as in `run`.
            run_id: The name that the run had.
            collect: As in `run`.

        Raises:
            IntakeError: The items cannot be taken.
            RunLocked: Another live process owns the run.
        """
        async with self._session(run_id) as session:
            return await session.recover(items, collect=collect)

    async def switch(self, run_id: str = DEFAULT_RUN, *, collect: bool = True) -> RunResult | None:
        """
        Move the remainder of a run to direct calls now.

        Where another live process owns the run, a wish is left for it in the store, which it
        takes up within a polling interval; the answer is `None` then. Otherwise this call carries
        the switch out and returns the result.

        Raises:
            ConfigurationError: No such run.
        """
        async with self._session(run_id) as session:
            await session.wish("switch")
            try:
                return await session.resume(collect=collect)
            except RunLocked:
                return None

    async def status(self, run_id: str = DEFAULT_RUN) -> RunStatus:
        """
        Return what stands, from the store alone; no request is made and no lease is needed.

        Raises:
            ConfigurationError: No such run.
        """
        async with self._session(run_id) as session:
            return await session.status()

    async def plan(
        self,
        items: Items,
        *,
        run_id: str = DEFAULT_RUN,
        user_waiting: bool = False,
        streaming: bool = False,
        ids_from_position: bool = False,
        offline: bool = False,
    ) -> PlanReport:
        """
        Return what a run of *items* would send, cost and take; nothing is sent that costs.

        The store is only read, and not created. With a key the API is asked what is free: about
        the models, and for the tokens of a few dozen requests.

        Args:
            items: As in `run`.
            run_id: The run that would be run.
            user_waiting: Declare that a person waits for the answers.
            streaming: Declare that answers are needed as a stream.
            ids_from_position: Declare that ids were made from positions.
            offline: Ask the API nothing; the estimate is rougher.

        Raises:
            ConfigurationError: The work is not for batches.
            IntakeError: Nothing in *items* is an item.
            StoreError: The store cannot be read.
        """
        from batchwright._plan import Planner, Workload  # noqa: PLC0415 - few runs are planned

        work = Workload(
            user_waiting=user_waiting, streaming=streaming, ids_from_position=ids_from_position
        )
        planner = Planner(
            check_run_id(run_id),
            self._store,
            is_open=self._entered > 0,
            clients=self._clients,
            options=self._options,
            emit=self._emit,
        )
        return await planner.plan(items, work, offline=offline)

    def stream(self, items: Items, *, run_id: str = DEFAULT_RUN) -> OutcomeStream:
        """
        Return an asynchronous iterator of outcomes, each once, as soon as it is durable and final.

        What stays unresolved comes at the end. Leaving the iteration stops the run with its state
        saved; close it with `async with` or `aclose()` when leaving early.
        """

        async def drive(deliver: Any) -> None:
            async with self._session(run_id) as session:
                await session.stream(items, deliver)

        return OutcomeStream(drive)

    async def _feed(self, feed: Feed, run_id: str) -> None:
        """Carry calls as they come; see `_feed`."""
        async with self._session(run_id) as session:
            await session.feed(feed)

    async def report(self, run_id: str = DEFAULT_RUN) -> RunReport:
        """
        Return the `RunReport` of a run as it stands, from the store alone.

        Raises:
            ConfigurationError: No such run.
        """
        async with self._session(run_id) as session:
            return await session.report()

    async def outcomes(self, run_id: str = DEFAULT_RUN) -> AsyncIterator[Outcome]:
        """Yield the outcomes of a run as they stand, in input order, from the store alone."""
        async with self._session(run_id) as session:
            async for outcome in session.outcomes():
                yield outcome
