"""
`AsyncAnthropic`: the SDK's client, whose messages come through batches.

It is the SDK's own client in everything but one: `POST /v1/messages` waits for a batch.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import pydantic

from batchwright._hub import Caller, Hub, HubOptions, hub_for
from batchwright._intercept import SDK_CLASS, account_of, gathering_client, make_client
from batchwright.config import Gathering, Polling, RetryBudget, ShardLimits, SyncLimits
from batchwright.errors import ConfigurationError
from batchwright.events import Event
from batchwright.policy import DispatchPolicy
from batchwright.store import CheckpointStore
from batchwright.types import Outcome

if TYPE_CHECKING:
    from typing import Self

    import anthropic
    from anthropic import AsyncAnthropic as _Face
else:
    _Face = object

DEFAULT_STORE = "batchwright.db"
DEFAULT_RUN = "calls"
#: Options of the SDK's `with_options` that change nothing about what is asked, or by whom.
_HARMLESS = frozenset({"timeout", "max_retries", "open_telemetry", "middleware", "webhook_key"})
_HEADERS = frozenset({"default_headers", "set_default_headers"})


class AsyncAnthropic(_Face):
    """
    The SDK's `AsyncAnthropic`, whose calls of `messages.create` gather and travel in batches.

    Each call returns when its answer is durable in the store; the same call in the next process is
    answered from there. See the guide "Change one import" for what it is for, and for what not.
    """

    __slots__ = ("_caller", "_hub", "_sdk", "direct")

    def __init__(
        self,
        *,
        store: str | os.PathLike[str] | CheckpointStore | None = None,
        run_id: str | None = None,
        policy: str | DispatchPolicy | None = None,
        gathering: Gathering | None = None,
        limits: ShardLimits | None = None,
        polling: Polling | None = None,
        retry: RetryBudget = RetryBudget(),
        sync: SyncLimits = SyncLimits(),
        cache: bool | None = None,
        preflight: bool = True,
        on_event: Callable[[Event], None] | None = None,
        **sdk: Any,
    ) -> None:
        """
        Check and keep the options; nothing is opened and nothing is sent.

        What is left out is read from the environment (`BATCHWRIGHT_STORE`, `…_RUN_ID`, `…_POLICY`,
        `…_GATHER_SIZE`, `…_GATHER_QUIET`, `…_GATHER_LONGEST`, `…_MAX_REQUESTS`, `…_POLL_INTERVAL`,
        `…_CACHE`), then has its default.

        Args:
            store: Where answers are kept: as for `BatchRunner`; `batchwright.db`.
            run_id: Name of the job inside the store; `calls`.
            policy: When direct calls take over: as for `BatchRunner`; `"cost"`.
            gathering: When a group of calls leaves.
            limits: How sub-batches are cut.
            polling: How often batches are looked at, and their grace.
            retry: How often a call is tried.
            sync: Bounds of direct calls.
            cache: Whether calls take the answers of other runs in the store.
            preflight: Whether the credential is proved by a cheap call before the first create.
            on_event: Called with every event, on the event loop; it must not block.
            **sdk: What the SDK's client takes.

        Raises:
            ConfigurationError: An option is wrong, or another client of this process works on the
                run with another account or other options.
        """
        #: The SDK's own client, for calls that must be answered now.
        self.direct: anthropic.AsyncAnthropic = make_client(sdk)
        options = HubOptions(
            account=account_of(self.direct),
            api_version=str(self.direct.default_headers.get("anthropic-version")),
            run_id=run_id or _read("RUN_ID", str, DEFAULT_RUN),
            policy=policy or _read("POLICY", str, "cost"),
            gathering=gathering or _gathering(),
            limits=limits or ShardLimits(_read("MAX_REQUESTS", int, ShardLimits().max_requests)),
            polling=polling or Polling(_read("POLL_INTERVAL", float, Polling().interval)),
            retry=retry,
            sync=sync,
            cache=_read("CACHE", bool, default=False) if cache is None else cache,
            preflight=preflight,
        )
        store = store or _read("STORE", str, DEFAULT_STORE)
        self._hub: Hub = hub_for(store, options, on_event)
        self._caller = Caller(self.direct, own=sdk.get("http_client") is None)
        self._sdk = gathering_client(self.direct, self._ask)

    async def _ask(self, params: Mapping[str, Any], headers: Mapping[str, str]) -> Outcome:
        return await self._hub.ask(self._caller, params, headers)

    # -- the SDK's face -----------------------------------------------------------------------

    @property  # type: ignore[misc]
    def __class__(self) -> type:
        """Pass for the SDK's class, which libraries ask for."""
        return SDK_CLASS

    def __getattr__(self, name: str) -> Any:
        """Return what the SDK's client has."""
        return getattr(object.__getattribute__(self, "_sdk"), name)

    def __dir__(self) -> list[str]:
        """Return the names of both."""
        return sorted({*object.__dir__(self), *dir(self._sdk)})

    def __repr__(self) -> str:
        return f"<AsyncAnthropic that gathers calls for run {self._hub.options.run_id!r}>"

    def copy(self, **options: Any) -> AsyncAnthropic:
        """
        Return a client with some options changed that gathers calls with this one.

        Raises:
            ConfigurationError: The options name another account, or other headers than betas: that
                needs a client with a run of its own.
        """
        if other := sorted(set(options) - _HARMLESS - _HEADERS):
            raise ConfigurationError(
                f"{', '.join(other)} would change whom the run {self._hub.options.run_id!r} talks "
                "to; make another client with another run_id, or use client.direct.with_options"
            )
        direct = self.direct.copy(**options)
        if account_of(direct) != self._hub.options.account:
            raise ConfigurationError(
                "only the headers anthropic-beta and anthropic-user-profile-id travel with a call; "
                "give others to the client when it is made (default_headers)"
            )
        made = object.__new__(AsyncAnthropic)
        made.direct, made._hub, made._caller = direct, self._hub, self._caller
        made._sdk = gathering_client(direct, made._ask)
        return made

    def with_options(self, **options: Any) -> AsyncAnthropic:
        """Return what `copy` returns."""
        return self.copy(**options)

    # -- life ---------------------------------------------------------------------------------

    async def close(self) -> None:
        """Send what has gathered, wait for the answers of this client's calls, and close it."""
        try:
            await self._hub.settle(self._caller)
        finally:
            await self.direct.close()

    async def __aenter__(self) -> Self:
        """Return itself."""
        return self

    async def __aexit__(self, kind: object, error: object, trace: object) -> None:
        """Close it; where the block was left by an exception, wait for nothing."""
        if error is None:
            await self.close()
            return
        try:
            await self._hub.leave(self._caller)
        finally:
            await self.direct.close()


def _gathering() -> Gathering:
    plain = Gathering()
    return Gathering(
        size=_read("GATHER_SIZE", int, plain.size),
        quiet=_read("GATHER_QUIET", float, plain.quiet),
        longest=_read("GATHER_LONGEST", float, plain.longest),
    )


def _read(name: str, kind: type, default: Any) -> Any:
    """Return an option from the environment, or its default."""
    text = os.environ.get(f"BATCHWRIGHT_{name}")
    if text is None:
        return default
    try:
        return pydantic.TypeAdapter(kind).validate_python(text)
    except pydantic.ValidationError as error:
        why = error.errors()[0]["msg"]
        raise ConfigurationError(f"BATCHWRIGHT_{name} is {text!r}: {why}") from None
