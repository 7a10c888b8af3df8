"""
Exit statuses, and which of them an exception amounts to.
"""

from __future__ import annotations

import re
from enum import IntEnum

from batchwright.errors import BatchwrightError, RunLocked
from batchwright.result import RunResult

_KEY = re.compile(r"sk-[A-Za-z0-9_\-]{4,}")


class Exit(IntEnum):
    """What the process says when it ends."""

    #: Every item succeeded, or the command did what it was asked.
    DONE = 0
    #: Something unforeseen, or the store failed after work had begun; `validate`: a broken rule.
    FAILED = 1
    #: Bad usage or bad input; nothing was sent.
    USAGE = 2
    #: Finished, with quarantined, rejected or unresolved items.
    INCOMPLETE = 3
    #: Stopped by a fault of the account: key, permission, billing.
    ACCOUNT = 4
    #: Another live process owns the run.
    LOCKED = 5
    #: Interrupted by a signal; the state is saved.
    INTERRUPTED = 130


class Stumble(Exception):
    """A command cannot do what was asked; *args[0]* says why, `exit` how the process ends."""

    def __init__(self, message: str, exit: Exit = Exit.USAGE) -> None:  # noqa: A002 - its name
        self.exit = exit
        super().__init__(message)


def exit_of(result: RunResult) -> Exit:
    """Return the exit status of a wave that returned."""
    if result.complete:
        return Exit.DONE
    # One stopped account among several matters only where it left something undone.
    stopped = any(reason == "account" for reason, _ in result.stopped)
    if stopped and result.reasons().get("account", 0) + result.reasons().get("interrupted", 0):
        return Exit.ACCOUNT
    return Exit.INCOMPLETE


def exit_for(error: Exception, *, sent: bool) -> Exit:
    """Return the exit status of a command that raised, after or before anything was *sent*."""
    if isinstance(error, Stumble):
        return error.exit
    if isinstance(error, RunLocked):
        return Exit.LOCKED
    if isinstance(error, BatchwrightError) and not sent:
        return Exit.USAGE
    return Exit.FAILED


def text_of(error: Exception) -> str:
    """Return what to tell about *error*, in one line and without a key."""
    if isinstance(error, BatchwrightError | Stumble):
        text = str(error)
    else:
        text = f"unexpected {type(error).__name__}: {error} (--verbose shows where)"
    return scrub(" ".join(text.split()))


def scrub(text: str) -> str:
    """Return *text* without API keys."""
    return _KEY.sub("sk-…", text)
