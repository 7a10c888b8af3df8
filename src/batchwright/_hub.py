"""
What the clients of a process that work on the same run share: numbers, groups, and the run at work.

There is one for each run of each store, for as long as the process lives: calls that are alike are
numbered over all of them, and only one of them at a time can own the run.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final

import anyio
from anyio.lowlevel import checkpoint

from batchwright._custom_ids import make_custom_id
from batchwright._feed import Feed
from batchwright._gateway import working_copy
from batchwright._gather import Call, Gatherer
from batchwright._intake import IntakeRules, encode_item
from batchwright._options import check_run_id
from batchwright._samples import Samples
from batchwright.config import Gathering, Polling, RetryBudget, ShardLimits, SyncLimits
from batchwright.errors import ConfigurationError
from batchwright.events import Event
from batchwright.policy import DispatchPolicy, resolve_policy
from batchwright.runner import BatchRunner
from batchwright.store import CheckpointStore, NewItem
from batchwright.stores import MemoryStore, name_of, open_store
from batchwright.types import Item, ItemError, Outcome

if TYPE_CHECKING:
    from anthropic import AsyncAnthropic

_log = logging.getLogger("batchwright")

#: After so many groups of a single call, one after the other, it is said that this is slow.
SINGLES: Final = 3

#: Seconds for which work that nobody waits for may end by itself.
LINGER: Final = 2.0

_CLOSED: Final = Outcome(
    id="",
    custom_id="",
    status="unresolved",
    reason="closed",
    error=ItemError(
        type="closed",
        message="the client was closed before the answer came; the same call takes it later",
    ),
)


@dataclass(frozen=True, kw_only=True)
class HubOptions:
    """What all clients of one run must agree on."""

    account: tuple[Any, ...] = field(repr=False)
    api_version: str
    run_id: str
    policy: str | DispatchPolicy
    gathering: Gathering
    limits: ShardLimits
    polling: Polling
    retry: RetryBudget
    sync: SyncLimits
    cache: bool
    preflight: bool


@dataclass(slots=True, eq=False)
class Caller:
    """
    One client that calls.

    Attributes:
        client: The SDK's own, which is closed with it.
        own: Whether its connections are the SDK's, and not given to it by somebody else.
        calls: Its calls that wait.
    """

    client: AsyncAnthropic
    own: bool
    calls: set[Call] = field(default_factory=set)


class Hub:
    """One run, as the clients of this process use it."""

    def __init__(
        self,
        store: CheckpointStore,
        options: HubOptions,
        on_event: Callable[[Event], None] | None,
    ) -> None:
        """
        Prepare; nothing is opened before the first group leaves.

        Args:
            store: Where the run lives.
            options: How it is carried.
            on_event: Called with every event.

        Raises:
            ConfigurationError: An option is wrong.
        """
        check_run_id(options.run_id)
        resolve_policy(options.policy)
        self.options = options
        self._store = store
        self._caller: Caller | None = None
        self._on_event = on_event
        self._samples = Samples()
        self._rules = IntakeRules(
            run_id=options.run_id,
            max_bytes=options.limits.max_bytes,
            api_version=options.api_version,
        )
        self._loop: asyncio.AbstractEventLoop | None = None
        self._feed = Feed()
        self._gatherer = Gatherer(options.gathering, self._leave)
        self._work: asyncio.Task[None] | None = None
        self._idle = False
        self._singles = 0

    # -- calls --------------------------------------------------------------------------------

    async def ask(
        self, caller: Caller, params: Mapping[str, Any], headers: Mapping[str, str]
    ) -> Outcome:
        """
        Return the outcome of one call, once it is durable.

        Raises:
            BatchwrightError: The run cannot be carried.
        """
        self._belong()
        self._caller = caller
        row = encode_item(Item("", params, headers=headers or None), 0, self._rules)
        if row.refusal is not None:
            return Outcome(
                id="",
                custom_id="",
                status="quarantined",
                reason=row.reason,
                error=row.refusal,
            )
        number = self._samples.take(row.digest)
        call = Call(self._named(row, number), asyncio.get_running_loop().create_future())
        caller.calls.add(call)
        answered = False
        try:
            self._gatherer.add(call)
            outcome = await call.answer
            answered = outcome.status in {"succeeded", "rejected"}
        finally:
            caller.calls.discard(call)
            if not answered:
                self._samples.give_back(row.digest, number)
        return outcome

    def _named(self, row: NewItem, number: int) -> NewItem:
        item_id = f"{row.digest.hex()}-{number}"
        custom_id = make_custom_id(self.options.run_id, item_id, row.digest)
        return replace(row, id=item_id, custom_id=custom_id)

    async def settle(self, caller: Caller) -> None:
        """Let what has gathered leave at once, and return when *caller* has all its answers."""
        self._belong()
        self._gatherer.flush()
        while caller.calls:
            await asyncio.wait([call.answer for call in caller.calls])
            # Whoever called takes it from there.
            await checkpoint()
        await self._stop_if_idle(LINGER)

    async def leave(self, caller: Caller) -> None:
        """Wait for nothing: tell the calls of *caller* that their client was closed."""
        self._belong()
        for call in list(caller.calls):
            if not call.answer.done():
                call.answer.set_result(_CLOSED)
        await self._stop_if_idle(0.0)

    async def _stop_if_idle(self, linger: float) -> None:
        """End the work where nobody waits for it; what is on the server goes on there."""
        work = self._work
        if work is None or self._feed.is_wanted():
            return
        with anyio.move_on_after(linger):
            # Most often it has only to put its books away.
            await asyncio.wait([work])
        if work.done() or self._feed.is_wanted():
            return
        self._idle = True
        work.cancel()
        # Waited for and not awaited: its being cancelled is not ours.
        await asyncio.wait([work])

    # -- work ---------------------------------------------------------------------------------

    def _belong(self) -> None:
        """Begin anew where another event loop runs than before."""
        loop = asyncio.get_running_loop()
        if self._loop is loop:
            return
        if self._loop is not None and self._loop.is_running():
            raise ConfigurationError(
                f"run {self.options.run_id!r} is used by two event loops at once; give each a "
                "run_id of its own"
            )
        self._loop = loop
        self._feed = Feed(cache=self.options.cache)
        self._gatherer = Gatherer(self.options.gathering, self._leave)
        self._work = None

    def _leave(self, calls: list[Call]) -> None:
        """Send a group on its way."""
        self._mind_singles(len(calls))
        self._feed.put(calls)
        if self._work is None or self._work.done():
            self._work = asyncio.create_task(self._carry())

    def _mind_singles(self, count: int) -> None:
        self._singles = self._singles + 1 if count == 1 else 0
        if self._singles == SINGLES:
            _log.warning(
                "run %s: calls come one at a time, and each waits for a batch of its own; start "
                "them together (asyncio.gather), or ask directly (client.direct) where somebody "
                "waits for the answer",
                self.options.run_id,
            )

    async def _carry(self) -> None:
        """Carry the run while somebody waits for it."""
        feed = self._feed
        try:
            while feed.is_wanted():
                caller = self._caller
                assert caller is not None, "somebody has called"
                async with working_copy(caller.client, own_transport=caller.own) as client:
                    await self._runner(client)._feed(feed, self.options.run_id)
        except Exception as error:
            if not feed.is_wanted():
                _log.exception("run %s stopped, and nobody waits for it", self.options.run_id)
            feed.fail(error)
        finally:
            self._ended(feed)

    def _ended(self, feed: Feed) -> None:
        """Begin again for calls that came while it was ended as idle; else nobody may wait."""
        idle, self._idle = self._idle, False
        self._work = None
        if idle and feed.is_wanted():
            self._work = asyncio.create_task(self._carry())
        else:
            feed.drop(_CLOSED)

    def _runner(self, client: Any) -> BatchRunner:
        options = self.options
        return BatchRunner(
            client=client,
            store=self._store,
            policy=options.policy,
            limits=options.limits,
            polling=options.polling,
            retry=options.retry,
            sync=options.sync,
            cache=options.cache,
            preflight=options.preflight,
            on_event=self._on_event,
        )


_hubs: dict[tuple[str, str], Hub] = {}


def hub_for(
    store: str | os.PathLike[str] | CheckpointStore,
    options: HubOptions,
    on_event: Callable[[Event], None] | None,
) -> Hub:
    """
    Return what the clients of a run share; made by the first of them.

    Raises:
        ConfigurationError: Another client of this process uses the run otherwise.
    """
    key = _key_of(store)
    if key is None:
        return Hub(open_store(store), options, on_event)
    hub = _hubs.get((key, options.run_id))
    if hub is None:
        hub = _hubs[key, options.run_id] = Hub(open_store(store), options, on_event)
    elif hub.options != options:
        raise ConfigurationError(
            f"run {options.run_id!r} in {name_of(store)} is used by another client of this process "
            "with another account or other options; give this one a run_id of its own"
        )
    return hub


def _key_of(store: str | os.PathLike[str] | CheckpointStore) -> str | None:
    """Return what names a store; `None` for one that is nobody else's."""
    opened = open_store(store)
    if opened is store:
        return f"object {id(store)}"
    if isinstance(opened, MemoryStore):
        return None
    return str(getattr(opened, "path", store))
