"""
The live display on a terminal; the only listener that needs `rich`.
"""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import IO

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from batchwright._clock import clock
from batchwright.events import Event, IntakeProgressed
from batchwright.listeners._board import SHOWN, Board, span, told_items
from batchwright.listeners._news import news_of

#: Seconds between two drawings.
LIVE_EVERY = 0.25
#: Columns of a picture that goes to no terminal.
PLAIN_WIDTH = 100


def console_on(stream: IO[str]) -> Console:
    """Return a console that draws on *stream*."""
    return Console(file=stream)


class LiveProgress:
    """
    A display that is drawn again and again in place, with news above it.

    *alone*: nobody else tells how the run ends, nor tidies the terminal up after an error; so the
    end is told here, and the cursor is never hidden.
    """

    every = LIVE_EVERY
    replaces = True

    def __init__(self, console: Console, *, alone: bool = False) -> None:
        self._board = Board()
        self._alone = alone
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
        if alone:
            self._guarded(lambda: console.show_cursor(show=True))

    def __call__(self, event: Event) -> None:
        """Take in an event."""
        self._board.take(event, clock().monotonic())
        if (line := news_of(event, routine=False, ends=self._alone)) is not None:
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

    def _guarded(self, work: Callable[[], object]) -> None:
        """Do *work* unless the terminal is gone: that must not end the run."""
        if self._gone:
            return
        try:
            work()
        except (OSError, SystemExit):
            self._gone = True


def drawn(board: Board, at: float, stream: IO[str]) -> str:
    """Return the picture of a board as text for *stream*, with colours where it is a terminal."""
    text = io.StringIO()
    terminal = stream.isatty()
    width = None if terminal else PLAIN_WIDTH
    picture = draw(board, at, bar=terminal)
    Console(file=text, force_terminal=terminal, width=width).print(picture)
    return text.getvalue().rstrip("\n")


def draw(board: Board, at: float, *, bar: bool = True) -> RenderableType:
    """Return the picture of a board as of *at*; *bar* needs colours to be seen."""
    if board.progress is None:
        return Text(_before(board))
    parts: list[RenderableType] = [_done(board, bar=bar), _states(board)]
    batches = board.batches(at)
    if batches:
        parts.append(_batches(board, at))
    if len(batches) > SHOWN:
        parts.append(Text(f"and {len(batches) - SHOWN} more"))
    if (note := board.note()) is not None:
        parts.append(Text(note, style="italic"))
    if (owned := board.owned()) is not None:
        parts.append(Text(owned, style="dim" if board.watched and board.watched.owner else "bold"))
    return Group(*parts)


def _before(board: Board) -> str:
    return board.owned() or (f"reading items: {board.read:,}" if board.read else "starting")


def _done(board: Board, *, bar: bool) -> RenderableType:
    assert board.progress is not None, "checked by draw"
    text = Text(f"{board.share_done():.0%} of {told_items(board.progress.total)} have an outcome")
    if not bar:
        return text
    grid = Table.grid(padding=(0, 1))
    grid.add_row(ProgressBar(total=1.0, completed=board.share_done(), width=40), text)
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
