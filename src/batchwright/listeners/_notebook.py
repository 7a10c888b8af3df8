"""
Progress in a notebook: one display below the cell that is updated in place.

IPython is found where it runs and is never imported otherwise.
"""

from __future__ import annotations

import importlib
import sys
from collections import deque
from html import escape
from typing import Any

from batchwright._clock import clock
from batchwright.events import Event, RunFinished, RunStarted
from batchwright.listeners._board import SHOWN, BatchLine, Board, span, told_items
from batchwright.listeners._news import news_of

#: Seconds between two updates: each is a message to every open view of the notebook.
NOTEBOOK_EVERY = 1.0
#: News kept below the display; older ones are counted.
NEWS = 5

#: What each outcome looks like: legible on light and on dark pages.
_COLOURS = {
    "succeeded": "#2e9e5b",
    "quarantined": "#d64545",
    "rejected": "#c2569b",
    "unresolved": "#c98a15",
}
_CELL = "padding:.1em 1.2em .1em 0;text-align:left;border:0;background:none;white-space:nowrap"
_NUMBER = _CELL.replace("left", "right")


def in_notebook() -> bool:
    """Tell whether this process is the kernel of a notebook, and not a plain IPython shell."""
    return getattr(_shell(), "kernel", None) is not None


def _shell() -> Any:
    # Who runs in IPython has it loaded.
    ipython = sys.modules.get("IPython")
    get_ipython = getattr(ipython, "get_ipython", None)
    return get_ipython() if get_ipython is not None else None


class NotebookProgress:
    """One display of the cell in which the run began, updated in place."""

    every = NOTEBOOK_EVERY
    replaces = True

    def __init__(self) -> None:
        self._board = Board()
        self._news: deque[str] = deque(maxlen=NEWS)
        self._told = 0
        self._handle: Any = None

    def __call__(self, event: Event) -> None:
        """Take in an event."""
        self._board.take(event, clock().monotonic())
        if isinstance(event, RunStarted):
            return  # the headline says it
        if (line := news_of(event, routine=False, ends=True)) is not None:
            self._told += 1
            self._news.append(f"{clock().now().astimezone():%H:%M:%S} {line}")

    def refresh(self) -> None:
        """Show how things stand now."""
        bundle = {"text/html": self._html(), "text/plain": self._text()}
        if self._handle is None:
            display = importlib.import_module("IPython.display").display
            self._handle = display(bundle, raw=True, display_id=True)
        else:
            self._handle.update(bundle, raw=True)

    def close(self) -> None:
        """Leave the last state where it is."""

    # -- drawing ------------------------------------------------------------------------------

    def _text(self) -> str:
        counts = ", ".join(f"{count:,} {words}" for words, count in self._board.counts())
        return "\n".join([self._headline(), *([counts] if counts else []), *self._news])

    def _headline(self) -> str:
        board = self._board
        if board.progress is None:
            return f"reading items: {board.read:,}" if board.read else "starting"
        done = f"{board.share_done():.0%} of {told_items(board.progress.total)} have an outcome"
        return f"run {board.progress.run_id!r}: {done}"

    def _html(self) -> str:
        now = f"{clock().now().astimezone():%H:%M:%S}"
        state = "finished" if isinstance(self._board.ended, RunFinished) else "as of"
        headline = f"<strong>{escape(self._headline())}</strong>"
        parts = [f'<div>{headline} <span style="opacity:.7">{state} {now}</span></div>']
        if self._board.progress is not None:
            parts += [self._bar(), self._states(), self._batches(), self._note(), self._talking()]
        parts.append(self._told_news())
        # Nothing here runs or loads anything: it must look the same in a saved notebook.
        return f'<div style="line-height:1.6;max-width:64em">{"".join(parts)}</div>'

    def _bar(self) -> str:
        total = max(sum(count for _, count in self._board.counts()), 1)
        pieces = "".join(
            f'<div style="width:{100 * count / total:.3f}%;background:{_COLOURS[words]}"></div>'
            for words, count in self._board.counts()
            if words in _COLOURS
        )
        return (
            '<div style="display:flex;height:.6em;margin:.4em 0;border-radius:.3em;overflow:hidden;'
            f'background:rgba(128,128,128,.25)" aria-hidden="true">{pieces}</div>'
        )

    def _states(self) -> str:
        return " · ".join(
            f'<span style="white-space:nowrap">{_dot(words) if count else ""}{count:,} '
            f"{escape(words)}</span>"
            for words, count in self._board.counts()
        )

    def _batches(self) -> str:
        lines = self._board.batches(clock().monotonic())
        if not lines:
            return ""
        names = ("batch", "items", "status", "age", "expires in")
        head = "".join(f'<th scope="col" style="{_CELL};opacity:.7">{name}</th>' for name in names)
        rows = "".join(f"<tr>{_row(line)}</tr>" for line in lines[:SHOWN])
        more = f"<div>and {len(lines) - SHOWN} more</div>" if len(lines) > SHOWN else ""
        return (
            '<table style="border:0;border-collapse:collapse;font-size:inherit;margin:.4em 0">'
            f"<thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>{more}"
        )

    def _note(self) -> str:
        note = self._board.note()
        return f"<div><em>{escape(note)}</em></div>" if note else ""

    def _talking(self) -> str:
        started = self._board.started
        if started is None:
            return ""
        whom = "; ".join(f"{talk.base_url} (org {talk.org})" for talk in started.talking_to)
        text = f"talking to {whom}; store {started.store}; policy {started.policy}"
        return f'<div style="opacity:.7">{escape(text)}</div>'

    def _told_news(self) -> str:
        older = self._told - len(self._news)
        lines = [f"{older} earlier messages are in the log"] if older else []
        return "".join(f"<div>{escape(line)}</div>" for line in [*lines, *self._news])


def _dot(words: str) -> str:
    if words not in _COLOURS:
        return ""
    return (
        '<span aria-hidden="true" style="display:inline-block;width:.6em;height:.6em;'
        f'border-radius:50%;margin-right:.3em;background:{_COLOURS[words]}"></span>'
    )


def _row(line: BatchLine) -> str:
    cells = (
        (_CELL, f"<code>{escape(line.batch_id)}</code>"),
        (_NUMBER, f"{line.count:,}"),
        (_CELL, escape(line.status)),
        (_NUMBER, span(line.age)),
        (_NUMBER, span(line.expires_in)),
    )
    return "".join(f'<td style="{style}">{text}</td>' for style, text in cells)
