"""
`batchwright.run`: the blocking form, for scripts without asyncio.
"""

from __future__ import annotations

import asyncio
from typing import Any

from batchwright._ingest import Items
from batchwright.errors import ConfigurationError
from batchwright.result import RunResult
from batchwright.runner import DEFAULT_RUN, BatchRunner


def run(
    items: Items, *, run_id: str = DEFAULT_RUN, collect: bool = True, **options: Any
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
