"""
Events as log lines under `batchwright`: one a line, with its ids, and never a prompt or a key.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import fields

from batchwright import events
from batchwright.events import Event

log: logging.Logger = logging.getLogger("batchwright")

_QUIET = (events.Progressed, events.IntakeProgressed, events.BatchPolled, events.ItemsMerged)
_LOUD = (
    events.ShardRefused,
    events.ShardHeld,
    events.CreateUnknown,
    events.CreateSettled,
    events.CallRetried,
    events.PollFailed,
    events.StatusUnknown,
    events.ResultsReread,
    events.Anomaly,
    events.BatchSkipped,
    events.OrgPaused,
    events.ValidatorBroke,
    events.PolicyBroke,
    events.WaveLooksWedged,
    events.RunInterrupted,
)
_ALARMS = (events.DeadlineExceeded, events.ShardFailed)


def level_of(event: Event) -> int:
    """Return the log level of *event*."""
    if isinstance(event, _ALARMS):
        return logging.ERROR
    if isinstance(event, _LOUD):
        return logging.WARNING
    return logging.DEBUG if isinstance(event, _QUIET) else logging.INFO


def log_event(event: Event) -> None:
    """Write *event* as one line; `extra` holds its name (`action`) and its ids."""
    level = level_of(event)
    if not log.isEnabledFor(level):
        return
    action = type(event).__name__
    values = {field.name: getattr(event, field.name) for field in fields(event)}
    text = " ".join(
        f"{name}={_shown(value)}" for name, value in values.items() if value is not None
    )
    ids = {
        f"batchwright_{name}": values[name]
        for name in ("run_id", "shard", "batch_id")
        if name in values
    }
    log.log(level, "%s %s", action, text, extra={"action": action, **ids})


def _shown(value: object) -> str:
    if isinstance(value, float):
        return f"{value:.3f}"
    text = str(value)
    return repr(text) if " " in text else text


def teller(on_event: Callable[[Event], None] | None) -> Callable[[Event], None]:
    """Return what logs each event and hands it to *on_event*."""

    def tell(event: Event) -> None:
        log_event(event)
        if on_event is None:
            return
        try:
            on_event(event)
        except Exception:
            # Whoever looks on must not stop what it looks at: batches are alive, and paid for.
            log.exception("on_event raised while it was told %s", type(event).__name__)

    return tell
