"""
Progress for people: a live display on a terminal, a line a minute elsewhere.

Both see nothing but events. They need `rich` only for the live one.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Callable
from typing import IO, Protocol

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from batchwright._clock import clock
from batchwright.events import Event, IntakeProgressed
from batchwright.listeners._board import SHOWN, Board, span, told_items
from batchwright.listeners._news import news_of

_log = logging.getLogger("batchwright")

#: Seconds between two drawings of the live display.
LIVE_EVERY = 0.25
#: Seconds between two lines where there is no terminal.
PLAIN_EVERY = 60.0


class Display(Protocol):
    """Something that shows events as they come."""

    every: float

    def __call__(self, event: Event) -> None:
        """Take in an event."""

    def refresh(self) -> None:
        """Show how things stand now, with ages moved on."""

    def close(self) -> None:
        """Leave the terminal as it was."""


class Silence:
    """Shows nothing."""

    every = PLAIN_EVERY

    def __call__(self, event: Event) -> None:
        """Take in an event."""

    def refresh(self) -> None:
        """Show nothing."""

    def close(self) -> None:
        """Do nothing."""


class PlainProgress:
    """Lines for a log: what happens, and once a minute how things stand."""

    def __init__(self, write: Callable[[str], None], *, every: float = PLAIN_EVERY) -> None:
        self.every = every
        self._out = write
        self._board = Board()

    def __call__(self, event: Event) -> None:
        """Take in an event."""
        self._board.take(event, clock().monotonic())
        if (line := news_of(event)) is not None:
            self._write(line)

    def refresh(self) -> None:
        """Write one line about everything."""
        board = self._board
        if board.progress is None:
            if board.read:
                self._write(f"{told_items(board.read)} read, nothing sent yet")
            return
        self._write(standing(board, clock().monotonic()))

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
        text += f"; {len(batches)} live batches, the oldest {span(batches[0].age)} old{first}"
    note = board.note()
    return f"{text} ({note})" if note else text


class LiveProgress:
    """A display that is drawn again and again in place, with news above it."""

    every = LIVE_EVERY

    def __init__(self, console: Console) -> None:
        self._board = Board()
        # Drawn by us alone: the display's own refreshing would start a thread.
        self._live = Live(
            console=console,
            auto_refresh=False,
            transient=True,
            redirect_stdout=False,
            redirect_stderr=False,
        )
        self._gone = False
        self._guarded(self._live.start)

    def __call__(self, event: Event) -> None:
        """Take in an event."""
        self._board.take(event, clock().monotonic())
        if (line := news_of(event, routine=False)) is not None:
            self._guarded(lambda: self._live.console.print(Text(line, style="dim")))
        if isinstance(event, IntakeProgressed):
            self.refresh()

    def refresh(self) -> None:
        """Draw how things stand now."""
        picture = draw(self._board, clock().monotonic())
        self._guarded(lambda: self._live.update(picture, refresh=True))

    def close(self) -> None:
        """Take the display away and give the cursor back."""
        self._guarded(self._live.stop)

    def _guarded(self, work: Callable[[], None]) -> None:
        """Do *work* unless the terminal is gone: that must not end the run."""
        if self._gone:
            return
        try:
            work()
        except (OSError, SystemExit):
            self._gone = True


def draw(board: Board, at: float) -> RenderableType:
    """Return the picture of a board as of *at*."""
    if board.progress is None:
        return Text(f"reading items: {board.read:,}" if board.read else "starting")
    parts: list[RenderableType] = [_bar(board), _states(board)]
    batches = board.batches(at)
    if batches:
        parts.append(_batches(board, at))
    if len(batches) > SHOWN:
        parts.append(Text(f"and {len(batches) - SHOWN} more"))
    if (note := board.note()) is not None:
        parts.append(Text(note, style="italic"))
    return Group(*parts)


def _bar(board: Board) -> RenderableType:
    assert board.progress is not None, "checked by draw"
    grid = Table.grid(padding=(0, 1))
    grid.add_row(
        ProgressBar(total=1.0, completed=board.share_done(), width=40),
        Text(f"{board.share_done():.0%} of {told_items(board.progress.total)} have an outcome"),
    )
    return grid


_STYLES = {"succeeded": "green", "quarantined": "red", "rejected": "red", "unresolved": "yellow"}


def _states(board: Board) -> RenderableType:
    text = Text()
    for words, count in board.counts():
        if text:
            text.append(" · ")
        text.append(f"{count:,} {words}", style=_STYLES.get(words, "") if count else "")
    return text


def _batches(board: Board, at: float) -> RenderableType:
    table = Table(box=None, pad_edge=False, header_style="dim")
    table.add_column("batch", no_wrap=True)
    table.add_column("items", justify="right")
    table.add_column("status", no_wrap=True)
    table.add_column("age", justify="right", no_wrap=True)
    table.add_column("expires in", justify="right", no_wrap=True)
    for line in board.batches(at)[:SHOWN]:
        table.add_row(
            line.batch_id, f"{line.count:,}", line.status, span(line.age), span(line.expires_in)
        )
    return table


def display_for(stream: IO[str], write: Callable[[str], None], *, quiet: bool = False) -> Display:
    """Return the display that suits *stream*; on anything but a terminal *write* gets lines."""
    if quiet:
        return Silence()
    if stream.isatty():
        return LiveProgress(Console(file=stream))
    return PlainProgress(write)


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
