"""
`batchwright.run`: the blocking form, for scripts without asyncio.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, TypedDict, Unpack

from batchwright._ingest import Items
from batchwright._judge import Validate
from batchwright.config import Org, Polling, RetryBudget, ShardLimits, SyncLimits
from batchwright.errors import ConfigurationError
from batchwright.events import Event
from batchwright.policy import DispatchPolicy
from batchwright.result import RunResult
from batchwright.runner import DEFAULT_RUN, BatchRunner
from batchwright.store import CheckpointStore, OnChanged

if TYPE_CHECKING:
    from anthropic import AsyncAnthropic


class RunnerOptions(TypedDict, total=False):
    """The options of `BatchRunner`, so that a type checker sees a misspelt one."""

    orgs: Sequence[Org] | None
    client: AsyncAnthropic | None
    store: str | os.PathLike[str] | CheckpointStore
    policy: str | DispatchPolicy
    limits: ShardLimits
    polling: Polling
    retry: RetryBudget
    sync: SyncLimits
    validate: Validate | None
    on_changed: OnChanged
    retry_rejected: bool
    canary: int | None
    cache: bool
    preflight: bool
    on_event: Callable[[Event], None] | None


def run(
    items: Items,
    *,
    run_id: str = DEFAULT_RUN,
    collect: bool = True,
    **options: Unpack[RunnerOptions],
) -> RunResult:
    """
    Run *items* and wait for the result; for scripts.

    *options* are those of `BatchRunner`.

    Raises:
        ConfigurationError: It was called inside a running event loop; the message says what to
            await instead.
    """
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        pass
    else:
        raise ConfigurationError(
            "batchwright.run() blocks and cannot be called inside a running event loop (a notebook "
            "has one): write `await batchwright.BatchRunner(...).run(items)` instead"
        )
    runner = BatchRunner(**options)
    return asyncio.run(runner.run(items, run_id=run_id, collect=collect))
