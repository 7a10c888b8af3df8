"""
Progress for people: one display that is kept up to date, in a notebook or on a terminal, and a line
a minute elsewhere.

All see nothing but events. The one on a terminal needs `rich`, which the extra `cli` brings.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib.util
import logging
import sys
from collections.abc import AsyncIterator, Callable
from typing import IO, Protocol

from batchwright._clock import clock
from batchwright.events import Event, RunFailed, RunFinished, RunInterrupted
from batchwright.listeners._board import Board, span, told_items
from batchwright.listeners._news import news_of
from batchwright.listeners._notebook import NotebookProgress, in_notebook

_log = logging.getLogger("batchwright")

#: Seconds between two lines where there is no terminal.
PLAIN_EVERY = 60.0


class Display(Protocol):
    """
    Something that shows events as they come.

    `every`: seconds between two refreshes. `replaces`: a refresh takes the place of what was shown
    before, so that one too many does no harm.
    """

    every: float
    replaces: bool

    def __call__(self, event: Event) -> None:
        """Take in an event."""

    def refresh(self) -> None:
        """Show how things stand now, with ages moved on."""

    def close(self) -> None:
        """Leave the terminal as it was."""


class Silence:
    """Shows nothing."""

    every = PLAIN_EVERY
    replaces = True

    def __call__(self, event: Event) -> None:
        """Take in an event."""

    def refresh(self) -> None:
        """Show nothing."""

    def close(self) -> None:
        """Do nothing."""


class PlainProgress:
    """
    Lines for a log: what happens, and once a minute how things stand.

    *alone*: nobody else tells how the run ends, so a line here does.
    """

    replaces = False

    def __init__(
        self, write: Callable[[str], None], *, every: float = PLAIN_EVERY, alone: bool = False
    ) -> None:
        self.every = every
        self._out = write
        self._alone = alone
        self._board = Board()

    def __call__(self, event: Event) -> None:
        """Take in an event."""
        self._board.take(event, clock().monotonic())
        if (line := news_of(event, ends=self._alone)) is not None:
            self._write(line)

    def refresh(self) -> None:
        """Write one line about everything."""
        board = self._board
        if board.progress is not None:
            self._write(standing(board, clock().monotonic()))
        elif (owned := board.owned()) is not None:
            self._write(owned)
        elif board.read:
            self._write(f"{told_items(board.read)} read, nothing sent yet")

    def close(self) -> None:
        """Do nothing: a log needs no tidying."""

    def _write(self, line: str) -> None:
        self._out(f"{clock().now().astimezone():%H:%M:%S} {line}")


def standing(board: Board, at: float) -> str:
    """Return how things stand in one line."""
    assert board.progress is not None, "asked only once something is known"
    states = ", ".join(f"{count:,} {words}" for words, count in board.counts())
    text = f"{told_items(board.progress.total)}: {states}"
    batches = board.batches(at)
    if batches:
        left = [line.expires_in for line in batches if line.expires_in is not None]
        first = f", the first expires in {span(min(left))}" if left else ""
        live = "1 live batch" if len(batches) == 1 else f"{len(batches)} live batches, the oldest"
        text += f"; {live} {span(batches[0].age)} old{first}"
    if (owned := board.owned()) is not None:
        text += f"; {owned}"
    note = board.note()
    return f"{text} ({note})" if note else text


def display_for(
    stream: IO[str], write: Callable[[str], None], *, quiet: bool = False, alone: bool = False
) -> Display:
    """
    Return the display that suits *stream*; on anything but a terminal *write* gets lines.

    So it does on a terminal where `rich` is not installed. For *alone* see `PlainProgress`.
    """
    if quiet:
        return Silence()
    if stream.isatty() and importlib.util.find_spec("rich") is not None:
        # Only now: the library itself does without it.
        from batchwright.listeners._terminal import LiveProgress, console_on  # noqa: PLC0415

        return LiveProgress(console_on(stream), alone=alone)
    return PlainProgress(write, alone=alone)


@contextlib.asynccontextmanager
async def shown(display: Display) -> AsyncIterator[Display]:
    """Keep *display* moving within the block, and close it after."""
    # A bare task and no group: errors of the run pass through as they are, and an error of the
    # display ends the display only.
    ticker = asyncio.create_task(_tick(display))
    try:
        yield display
    finally:
        ticker.cancel()
        await asyncio.wait([ticker])
        if not ticker.cancelled() and (error := ticker.exception()) is not None:
            _log.error("the progress display broke", exc_info=error)
        display.close()


async def _tick(display: Display) -> None:
    while True:
        await clock().sleep(display.every)
        display.refresh()


# -- for the library ------------------------------------------------------------------------------


def show_progress(stream: IO[str] | None = None) -> Callable[[Event], None]:
    """
    Return a listener that shows how runs go: `BatchRunner(on_event=show_progress())`.

    In a notebook that is one display below the cell, on a terminal one that is drawn in place (with
    `rich`, which the extra `cli` brings), and elsewhere a line for what happens and a line a minute
    for how things stand. It is moved on by what the runner tells, at least once per polling
    interval. Each run gets a display of its own.

    Warnings of the log, which Python prints where logging was not set up, are left to the display.

    Args:
        stream: Where it goes; `None` is the notebook, else standard error.
    """

    def open_display(alone: bool) -> Display:
        if stream is None and in_notebook():
            return NotebookProgress()
        out = sys.stderr if stream is None else stream

        def write(line: str) -> None:
            print(line, file=out, flush=True)

        return display_for(out, write, alone=True) if alone else PlainProgress(write, alone=True)

    if not _log.handlers:
        _log.addHandler(logging.NullHandler())
    return Follower(open_display)


class Follower:
    """
    A listener with a display for each run, from its first event to its last.

    *open_display* is told whether no other display is open: a terminal holds one that is drawn.
    """

    def __init__(self, open_display: Callable[[bool], Display]) -> None:
        self._open_display = open_display
        self._shown: dict[str, _Shown] = {}

    def __call__(self, event: Event) -> None:
        """Take in an event."""
        shown = self._shown.get(event.run_id)
        if shown is not None and shown.board.begins_anew(event):
            # The call before this one was left in a way of which no event tells.
            self._shown.pop(event.run_id).end()
            shown = None
        if shown is None:
            if isinstance(event, RunFailed):
                return  # its display has ended, and the caller gets the error
            shown = self._shown[event.run_id] = _Shown(self._open_display(not self._shown))
        shown.take(event)
        if isinstance(event, RunFinished | RunInterrupted | RunFailed):
            self._shown.pop(event.run_id).end()


class _Shown:
    """One display, refreshed by the events themselves."""

    def __init__(self, display: Display) -> None:
        self.board = Board()
        self._display = display
        self._drawn_at = float("-inf") if display.replaces else clock().monotonic()
        self._again: asyncio.TimerHandle | None = None

    def take(self, event: Event) -> None:
        """Hand an event on, and refresh when it is time."""
        now = clock().monotonic()
        self.board.take(event, now)
        self._display(event)
        wait = self._drawn_at + self._display.every - now
        if wait <= 0:
            self._refresh()
        elif self._display.replaces and self._again is None:
            # The last event of many must not stay unseen until the next look at a batch.
            self._again = asyncio.get_running_loop().call_later(wait, self._refresh)

    def end(self) -> None:
        """Show the last state and let go."""
        if self._display.replaces:
            self._refresh()
        self._display.close()

    def _refresh(self) -> None:
        if self._again is not None:
            self._again.cancel()
            self._again = None
        self._drawn_at = clock().monotonic()
        self._display.refresh()
