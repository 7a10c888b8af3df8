"""
How every command runs: under its signals, with its errors turned into one line and a status.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import traceback
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

import typer

from batchwright.cli._exits import Exit, exit_for, scrub, text_of
from batchwright.cli._options import Manner
from batchwright.cli._voice import say_json, set_up_logging, tell

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_SHOW_CURSOR = "\x1b[?25h"


@dataclass(slots=True)
class Progressing:
    """What a command has done so far, for the words at an early end."""

    #: Whether a wave has begun, so that something may have been sent.
    sent: bool = False
    #: What to tell when a signal ends the command.
    on_interrupt: Callable[[], str] = field(default=lambda: "interrupted; nothing was sent")


Work = Callable[[Progressing], Awaitable[Exit]]


def perform(work: Work, manner: Manner) -> None:
    """
    Run a command's work to its end and leave with its exit status.

    Raises:
        typer.Exit: Always.
    """
    state = Progressing()
    try:
        set_up_logging(verbose=manner.verbose, log_file=manner.log_file)
        code = asyncio.run(_guarded(work, state))
    except Exception as error:
        code = _explain(error, state, manner)
    if code is Exit.INTERRUPTED:
        text = state.on_interrupt()
        tell(text)
        if manner.json:
            say_json({"exit": code, "interrupted": True, "message": text})
    raise typer.Exit(code)


def _explain(error: Exception, state: Progressing, manner: Manner) -> Exit:
    code, text = exit_for(error, sent=state.sent), text_of(error)
    if manner.verbose:
        tell(scrub("".join(traceback.format_exception(error))))
    tell(f"error: {text}")
    if manner.json:
        say_json({"exit": code, "error": {"type": type(error).__name__, "message": text}})
    return code


async def _guarded(work: Work, state: Progressing) -> Exit:
    """Run *work*; the first signal cancels it, a second one leaves at once."""
    loop = asyncio.get_running_loop()
    task: asyncio.Task[Any] | None = asyncio.current_task()
    assert task is not None, "a coroutine runs in a task"
    caught: list[signal.Signals] = []

    def on_signal(number: signal.Signals) -> None:
        if caught:
            _leave()
        caught.append(number)
        task.cancel()

    for number in _SIGNALS:
        loop.add_signal_handler(number, on_signal, number)
    try:
        return await work(state)
    except asyncio.CancelledError:
        if not caught:
            raise
        return Exit.INTERRUPTED


def _leave() -> None:
    # What was recorded is durable at every moment, so there is nothing to wait for.
    if sys.stderr.isatty():
        tell(_SHOW_CURSOR)
    os._exit(Exit.INTERRUPTED)
