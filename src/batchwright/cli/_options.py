"""
The options that commands share, each in one place, and how a command takes a group of them.
"""

from __future__ import annotations

import dataclasses
import functools
import inspect
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, get_type_hints

import typer

from batchwright.config import Polling, RetryBudget, ShardLimits, SyncLimits
from batchwright.stores import name_of

_SHARDS, _POLLING, _RETRY, _SYNC = ShardLimits(), Polling(), RetryBudget(), SyncLimits()

DEFAULT_STORE = "batchwright.db"
DEFAULT_RUN = "default"


def _flag(name: str, text: str, **more: Any) -> Any:
    env = "BATCHWRIGHT_" + name.lstrip("-").replace("-", "_").upper()
    return typer.Option(name, help=text, envvar=env, show_envvar=False, **more)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Where:
    """Which run, and in which store."""

    store: Annotated[
        str,
        _flag(
            "--store",
            "Where the run is kept: a file, or a database as postgresql://USER@HOST/DATABASE.",
            metavar="STORE",
        ),
    ] = DEFAULT_STORE
    run_id: Annotated[
        str, _flag("--run-id", "Name of the run inside the store.", metavar="NAME")
    ] = DEFAULT_RUN

    @property
    def place(self) -> str:
        """The store as it may be shown: without a password."""
        return name_of(self.store)

    def flags(self) -> str:
        """Return these options as they would be typed, without those that are defaults."""
        parts = []
        if self.run_id != DEFAULT_RUN:
            parts.append(f"--run-id {shlex.quote(self.run_id)}")
        if self.store != DEFAULT_STORE:
            parts.append(f"--store {shlex.quote(self.place)}")
        return " ".join(parts)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Manner:
    """How much is said, and in which form."""

    json: Annotated[
        bool, _flag("--json", "Print one JSON object to stdout, and nothing else there.")
    ] = False
    quiet: Annotated[bool, _flag("--quiet", "No progress; only the summary.")] = False
    verbose: Annotated[bool, _flag("--verbose", "Log to stderr; show where errors arose.")] = False
    log_file: Annotated[
        Path | None, _flag("--log-file", "Add log lines to this file.", metavar="FILE")
    ] = None


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Server:
    """What is talked to."""

    base_url: Annotated[
        str | None,
        _flag("--base-url", "Talk to this server. [default: ANTHROPIC_BASE_URL]", metavar="URL"),
    ] = None


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Tuning:
    """Everything else that a runner lets its user turn."""

    policy: Annotated[
        str,
        _flag(
            "--policy",
            "cost, balanced, latency, batch or sync: when direct calls take over.",
            metavar="NAME",
        ),
    ] = "cost"
    max_requests: Annotated[int, _flag("--max-requests", "Most requests in one sub-batch.")] = (
        _SHARDS.max_requests
    )
    max_bytes: Annotated[int, _flag("--max-bytes", "Most bytes in one sub-batch.")] = (
        _SHARDS.max_bytes
    )
    max_live: Annotated[int | None, _flag("--max-live", "Most batches alive at once.")] = (
        _SHARDS.max_live
    )
    concurrency: Annotated[int, _flag("--concurrency", "Most uploads at once.")] = (
        _SHARDS.concurrency
    )
    sync_concurrency: Annotated[int, _flag("--sync-concurrency", "Most direct calls at once.")] = (
        _SYNC.concurrency
    )
    sync_rpm: Annotated[
        int | None, _flag("--sync-rpm", "Direct calls a minute. [default: as the API allows]")
    ] = _SYNC.rpm
    poll_interval: Annotated[
        float, _flag("--poll-interval", "Seconds between two looks at a batch.")
    ] = _POLLING.interval
    grace: Annotated[
        float, _flag("--grace", "Seconds a batch may take beyond the end of its 24 hours.")
    ] = _POLLING.grace
    max_attempts: Annotated[int, _flag("--max-attempts", "Tries of one item, over all runs.")] = (
        _RETRY.max_attempts
    )
    call_attempts: Annotated[int, _flag("--call-attempts", "Tries of one API call.")] = (
        _RETRY.call_attempts
    )
    backoff: Annotated[
        float, _flag("--backoff", "Seconds before the second try; then it doubles.")
    ] = _RETRY.backoff
    max_backoff: Annotated[
        float, _flag("--max-backoff", "Most seconds between two tries of our own.")
    ] = _RETRY.max_backoff
    on_changed: Annotated[
        str,
        _flag("--on-changed", "A known id with another question: error, rerun or keep."),
    ] = "error"
    retry_rejected: Annotated[
        bool, _flag("--retry-rejected", "Ask again where an answer was rejected.")
    ] = False
    cache: Annotated[
        bool, _flag("--cache", "Take the answers of earlier runs to the same questions.")
    ] = False
    preflight: Annotated[
        bool,
        typer.Option("--preflight/--no-preflight", help="Prove the key by a free call first."),
    ] = True

    def runner_options(self) -> dict[str, Any]:
        """Return the keyword arguments of `BatchRunner` that these are."""
        return {
            "policy": self.policy,
            "limits": ShardLimits(
                max_requests=self.max_requests,
                max_bytes=self.max_bytes,
                max_live=self.max_live,
                concurrency=self.concurrency,
            ),
            "sync": SyncLimits(concurrency=self.sync_concurrency, rpm=self.sync_rpm),
            "polling": Polling(interval=self.poll_interval, grace=self.grace),
            "retry": RetryBudget(
                max_attempts=self.max_attempts,
                call_attempts=self.call_attempts,
                backoff=self.backoff,
                max_backoff=self.max_backoff,
            ),
            "on_changed": self.on_changed,
            "retry_rejected": self.retry_rejected,
            "cache": self.cache,
            "preflight": self.preflight,
        }


def taking_groups(command: Callable[..., None]) -> Callable[..., None]:
    """
    Let a command take option groups.

    Each parameter that is annotated with one of the dataclasses above is replaced by the options
    in it, and filled with them when the command is called.
    """
    signature = inspect.signature(command, eval_str=True)
    groups: dict[str, Any] = {
        name: parameter.annotation
        for name, parameter in signature.parameters.items()
        if dataclasses.is_dataclass(parameter.annotation)
    }

    @functools.wraps(command)
    def called(**given: Any) -> None:
        made = {
            name: kind(**{field.name: given.pop(field.name) for field in dataclasses.fields(kind)})
            for name, kind in groups.items()
        }
        command(**given, **made)

    parameters = _parameters(signature, groups)
    called.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
    called.__annotations__ = {p.name: p.annotation for p in parameters} | {"return": None}
    return called


def _parameters(signature: inspect.Signature, groups: dict[str, Any]) -> list[inspect.Parameter]:
    kind = inspect.Parameter.KEYWORD_ONLY
    own = [p.replace(kind=kind) for name, p in signature.parameters.items() if name not in groups]
    for group in groups.values():
        hints = get_type_hints(group, include_extras=True)
        own += [
            inspect.Parameter(field.name, kind, default=field.default, annotation=hints[field.name])
            for field in dataclasses.fields(group)
        ]
    return own
