"""The progress display, from events alone."""

from __future__ import annotations

import asyncio
import io
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from rich.console import Console

from batchwright import events
from batchwright.listeners._board import NOTHING_YET, Board, span
from batchwright.listeners.progress import (
    LiveProgress,
    PlainProgress,
    Silence,
    display_for,
    draw,
    shown,
)

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)


def live(number: int, minutes: float) -> events.LiveBatch:
    """Return a live batch of some age."""
    created = NOW - timedelta(minutes=minutes)
    return events.LiveBatch(
        shard=number,
        org="default",
        batch_id=f"msgbatch_{number}",
        count=100,
        status="in_progress",
        created_at=created,
        expires_at=created + timedelta(hours=24),
    )


def progressed(batches: int = 0, **states: int) -> events.Progressed:
    """Return an event in which every item is in some state."""
    names = ("waiting", "in_flight", "succeeded", "quarantined", "rejected", "unresolved")
    counts = {name: states.get(name, 0) for name in names}
    return events.Progressed(
        run_id="r",
        total=sum(counts.values()),
        live=tuple(live(n, n) for n in range(1, batches + 1)),
        now=NOW,
        **counts,
    )


def picture(board: Board, at: float) -> str:
    """Return what a board looks like."""
    console = Console(file=io.StringIO(), width=100, color_system=None)
    console.print(draw(board, at))
    text = console.file.getvalue()  # type: ignore[attr-defined]
    assert isinstance(text, str)
    return text


def test_states_sum_to_the_total() -> None:
    """All six states are shown, also those that are zero."""
    board = Board()
    board.take(progressed(waiting=5, in_flight=3, succeeded=2), 0.0)
    assert sum(count for _, count in board.counts()) == 10
    text = picture(board, 0.0)
    assert "5 waiting · 3 in flight · 2 succeeded · 0 quarantined · 0 rejected" in text
    assert "20% of 10 items" in text


def test_zeros_are_explained_while_batches_are_out() -> None:
    """Nothing succeeded is the normal look of a running batch."""
    board = Board()
    board.take(progressed(1, in_flight=100), 0.0)
    assert NOTHING_YET in " ".join(picture(board, 0.0).split())
    board.take(progressed(1, in_flight=50, succeeded=50), 0.0)
    assert NOTHING_YET not in " ".join(picture(board, 0.0).split())


def test_ages_move_on_between_events() -> None:
    """A line per live batch, oldest first, with age and time to expiry."""
    board = Board()
    board.take(progressed(2, in_flight=200), 100.0)
    first, second = board.batches(160.0)
    assert (first.batch_id, first.age) == ("msgbatch_2", 180.0)
    assert second.expires_in == 24 * 3600 - 120


def test_the_servers_clock_counts() -> None:
    """What a look told beats the machine's own clock."""
    board = Board()
    board.take(progressed(1, in_flight=100), 0.0)
    polled = events.BatchPolled(
        run_id="r",
        shard=1,
        org="default",
        batch_id="msgbatch_1",
        status="canceling",
        age=500.0,
        expires_in=1000.0,
    )
    board.take(polled, 10.0)
    (line,) = board.batches(12.0)
    assert (line.status, line.age, line.expires_in) == ("canceling", 502.0, 998.0)


def test_a_server_clock_that_is_ahead_makes_no_nonsense() -> None:
    """Before the first look a batch is new and has its 24 hours."""
    board = Board()
    board.take(replace(progressed(in_flight=100), live=(live(1, -9e3),)), 0.0)
    (line,) = board.batches(0.0)
    assert (line.age, line.expires_in) == (0.0, 86_400.0)


def test_at_most_ten_batches_are_listed() -> None:
    """The others are counted."""
    board = Board()
    board.take(progressed(13, in_flight=1300), 0.0)
    text = picture(board, 0.0)
    assert text.count("msgbatch_") == 10
    assert "and 3 more" in text


def test_plain_lines() -> None:
    """A log gets what happened, and one line about everything when asked."""
    lines: list[str] = []
    display = PlainProgress(lines.append)
    display.refresh()
    display(events.IntakeProgressed(run_id="r", read=2000))
    display.refresh()
    display(progressed(2, in_flight=200))
    display(events.OrgPaused(run_id="r", org="default", reason="billing"))
    display.refresh()
    assert [line[9:] for line in lines[:2]] == [
        "2,000 items read, nothing sent yet",
        "org default is stopped, nothing more is sent through it: billing",
    ]
    assert "200 items: 0 waiting, 200 in flight, 0 succeeded" in lines[2]
    assert "2 live batches, the oldest 2 min 00 s old" in lines[2]
    assert NOTHING_YET in lines[2]


def test_live_display_gives_the_cursor_back() -> None:
    """It draws in place and leaves the terminal as it was."""
    out = io.StringIO()
    terminal = {"TERM": "xterm-256color"}
    display = LiveProgress(Console(file=out, force_terminal=True, width=100, _environ=terminal))
    display(progressed(1, in_flight=100))
    display(events.OrgPaused(run_id="r", org="default", reason="billing"))
    display.refresh()
    display.close()
    text = out.getvalue()
    assert "msgbatch_1" in text
    assert "billing" in text
    assert text.rindex("\x1b[?25h") > text.rindex("\x1b[?25l")


def test_a_terminal_that_is_gone_does_not_end_the_run() -> None:
    """Errors of the screen stay with the screen."""

    class Gone(io.StringIO):
        def write(self, _: str) -> int:
            raise OSError(5, "Input/output error")

    display = LiveProgress(Console(file=Gone(), force_terminal=True))
    display(progressed(1, in_flight=100))
    display.refresh()
    display.close()


def test_the_display_suits_its_stream() -> None:
    """Lines where there is no terminal, nothing when quiet."""
    assert isinstance(display_for(io.StringIO(), print), PlainProgress)
    assert isinstance(display_for(io.StringIO(), print, quiet=True), Silence)


async def test_errors_of_the_run_pass_through_as_they_are() -> None:
    """No exception group is made on the way."""
    with pytest.raises(KeyError):
        async with shown(Silence()):
            await asyncio.sleep(0)
            raise KeyError("x")


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (None, "?"),
        (0, "0 s"),
        (0.25, "0.2 s"),
        (42, "42 s"),
        (61, "1 min 01 s"),
        (3599, "59 min"),
        (86_400, "24 h 00 min"),
        (29 * 86_400, "29 d 0 h"),
        (-30, "30 s ago"),
    ],
)
def test_spans(seconds: float | None, text: str) -> None:
    """Two units at most."""
    assert span(seconds) == text
