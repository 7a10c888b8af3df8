"""
The report of a run, made with what is loaded only for it.

Its models, its rules and the table of prices take some tenths of a second to import. Nobody waits
for that who only begins a run, and no loop stands still for it.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any

from batchwright._clock import clock
from batchwright._prices import are_loaded, load_prices
from batchwright._threads import call_aside
from batchwright.store import CheckpointStore

if TYPE_CHECKING:
    from batchwright.report import RunReport

_BUILD = "batchwright.report.build"


async def report_of(
    store: CheckpointStore,
    run_id: str,
    *,
    asked: Mapping[str, Any],
    open_reason: str | None = None,
    listed: int | None = None,
) -> RunReport:
    """
    Return the report of a run as it stands.

    Args:
        store: Where the run is.
        run_id: Its name; it must exist.
        asked: What would have been asked, for a run that never began.
        open_reason: What is told of items that still wait or travel.
        listed: Items listed at most; `None` takes the usual number.
    """
    if not are_loaded() or _BUILD not in sys.modules:
        await call_aside(_load)
    from batchwright.report import LISTED, build_report, read_standing  # noqa: PLC0415 - see above

    most = LISTED if listed is None else listed
    standing = await read_standing(store, run_id, listed=most, open_reason=open_reason)
    return build_report(standing, now=clock().now(), asked=asked)


def _load() -> None:
    load_prices()
    import_module(_BUILD)
