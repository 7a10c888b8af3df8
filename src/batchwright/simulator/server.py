"""The simulator as a server: on the running loop, or on a thread of its own."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager
from types import TracebackType
from typing import Self, TypedDict

from batchwright.simulator._listener import Listener
from batchwright.simulator._threaded import ThreadedListener
from batchwright.simulator._time import ScaledClock, WorldClock
from batchwright.simulator.fates import Fate, Selector
from batchwright.simulator.hooks import Chance, Hook, Rule, Script, What, Where
from batchwright.simulator.http import Application
from batchwright.simulator.settings import WorldSettings
from batchwright.simulator.traffic import (
    CreateRecord,
    MessageRecord,
    RequestRecord,
    TrafficLog,
)
from batchwright.simulator.world import World

#: A key that the simulator takes and nobody could mistake for a real one.
API_KEY = "sk-ant-api03-simulator-not-a-real-key"


class ClientOptions(TypedDict):
    """What a client needs to talk to a simulator."""

    base_url: str
    api_key: str


class Simulator:
    """A local Message Batches API over real HTTP.

    ```python
    async with Simulator(speed=600) as sim:
        client = anthropic.AsyncAnthropic(**sim.client_options())
    ```

    `async with` serves on the running event loop; plain `with` on a thread with its own loop,
    for blocking code and for measurements that the server must not disturb. Opened again, it
    serves the same world under the same URL.

    Args:
        seed: Decides ids, durations, orders and answers.
        speed: World seconds per real second; not used when a clock is given.
        clock: World time, such as a `ManualClock`.
        host: Address to listen on.
        port: Port to listen on; 0 takes a free one.
        settings: The switches of the world.
        hooks: Pairs as for `on`.
        faults: Faults that strike a share of the calls.
    """

    def __init__(
        self,
        *,
        seed: int = 0,
        speed: float = 1.0,
        clock: WorldClock | None = None,
        host: str = "127.0.0.1",
        port: int = 0,
        settings: WorldSettings | None = None,
        hooks: Iterable[Hook] = (),
        faults: Iterable[Chance] = (),
    ) -> None:
        self.world: World = World(seed, clock=clock or ScaledClock(speed), settings=settings)
        self.script: Script = Script(seed, hooks, faults)
        self.log: TrafficLog = TrafficLog()
        self.app: Application = Application(self.world, self.script, self.log)
        self.api_key = API_KEY
        self._address = (host, port)
        self._listener: Listener | ThreadedListener | None = None

    # --- address -------------------------------------------------------------------------

    @property
    def url(self) -> str:
        """Base URL for clients."""
        if self._listener is None:
            raise RuntimeError("the simulator is not open: use `async with` or `with`")
        host, port = self._listener.address
        return f"http://{f'[{host}]' if ':' in host else host}:{port}"

    def client_options(self) -> ClientOptions:
        """Return `base_url` and `api_key` for a client's constructor."""
        return ClientOptions(base_url=self.url, api_key=self.api_key)

    # --- script --------------------------------------------------------------------------

    def on(self, where: Where, what: What, times: int | None = None) -> Rule:
        """Script what happens to certain calls.

        Args:
            where: `create`, `list`, `retrieve`, `cancel`, `delete`, `results`, `models`,
                `message`, `count_tokens`, `*`, or a predicate on the `Call`.
            what: An action; a list with one action for each call in turn (None: the normal
                answer; after its end, too); or a callable on the `Call` that returns an
                action, or None to leave the call to the next rule.
            times: How many calls it acts on; None is all.

        Returns:
            The rule, whose `hits` can be read and which `off` takes out again.
        """
        return self.script.on(where, what, times)

    def off(self, rule: Rule | None = None) -> None:
        """Take a rule out of the script, or all rules and random faults."""
        if rule is None:
            self.script.clear()
        else:
            self.script.remove(rule)

    def fate_for(self, selector: Selector, fate: Fate | Sequence[Fate]) -> None:
        """Lay down what becomes of certain requests; see `World.fate_for`."""
        self.world.fate_for(selector, fate)

    # --- what was received ---------------------------------------------------------------

    @property
    def requests(self) -> list[RequestRecord]:
        """All requests in the order of arrival."""
        return list(self.log.records)

    @property
    def creates(self) -> list[CreateRecord]:
        """All creates in the order of arrival."""
        return [record for record in self.log.records if isinstance(record, CreateRecord)]

    @property
    def messages(self) -> list[MessageRecord]:
        """All direct calls of the Messages API in the order of arrival."""
        return [record for record in self.log.records if isinstance(record, MessageRecord)]

    def calls(self, route: str) -> list[RequestRecord]:
        """Return the requests of one route in the order of arrival."""
        return [record for record in self.log.records if record.route == route]

    def peak_concurrency(self, route: str = "*") -> int:
        """Return the largest number of requests of a route that were open at once."""
        return self.log.peak(route)

    @property
    def peak_requests(self) -> int:
        """The largest number of requests that were open at once."""
        return self.log.peak()

    @property
    def peak_creates(self) -> int:
        """The largest number of creates that were open at once."""
        return self.log.peak("create")

    @property
    def failures(self) -> list[Exception]:
        """Errors of the simulator itself, each answered with a 500."""
        return self.app.failures

    # --- opening and closing -------------------------------------------------------------

    async def __aenter__(self) -> Self:
        """Serve on the running loop."""
        self._refuse_second_opening()
        listener = Listener(self.app, *self._address)
        await listener.open()
        self._listener, self._address = listener, listener.address
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close all connections and stop."""
        listener, self._listener = self._listener, None
        assert isinstance(listener, Listener), "opened by `async with`"
        await listener.close()

    def __enter__(self) -> Self:
        """Serve on a thread of its own."""
        self._refuse_second_opening()
        listener = ThreadedListener(self.app, *self._address)
        listener.open()
        self._listener, self._address = listener, listener.address
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close all connections and stop the thread."""
        listener, self._listener = self._listener, None
        assert isinstance(listener, ThreadedListener), "opened by `with`"
        listener.close()

    async def serve_forever(self) -> None:
        """Serve until cancelled: the command line's way."""
        async with self:
            await asyncio.get_running_loop().create_future()

    @asynccontextmanager
    async def down(self) -> AsyncIterator[None]:
        """Be unreachable within the block: open connections break, new ones are refused.

        Afterwards the same world is served again under the same URL.
        """
        await self.__aexit__(None, None, None)
        try:
            yield
        finally:
            await self.__aenter__()

    def _refuse_second_opening(self) -> None:
        if self._listener is not None:
            raise RuntimeError("the simulator is already open")
