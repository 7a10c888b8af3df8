"""The progress display, from events alone."""

from __future__ import annotations

import asyncio
import io
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from rich.console import Console

from batchwright import events
from batchwright.listeners._board import NOTHING_YET, Board, Watched, span
from batchwright.listeners._news import start_line
from batchwright.listeners._terminal import LiveProgress, draw
from batchwright.listeners.progress import (
    Follower,
    PlainProgress,
    Silence,
    display_for,
    show_progress,
    shown,
    standing,
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


def test_a_look_from_outside_says_who_works_and_how_to_go_on() -> None:
    """A run that nobody carries says so, drawn and in a line."""
    board = Board()
    board.take(progressed(1, in_flight=100), 0.0)
    board.take(Watched(run_id="r", owner="process 7 on a", note=""), 0.0)
    assert "at work: process 7 on a" in picture(board, 0.0)
    board.take(Watched(run_id="r", owner=None, note="to go on: batchwright resume"), 0.0)
    told = "nobody works on this run now; to go on: batchwright resume"
    assert told in picture(board, 0.0)
    assert told in standing(board, 0.0)


# -- as a listener of the library -----------------------------------------------------------------


def started(run_id: str = "r") -> events.RunStarted:
    """Return the event with which a wave begins."""
    talking = events.Talking(org="default", base_url="http://there", api_version="2026-10-21")
    return events.RunStarted(
        run_id=run_id,
        wave=1,
        items=100,
        waiting=100,
        live=0,
        policy="cost",
        store="s.db",
        talking_to=(talking,),
    )


@pytest.mark.parametrize(
    ("live", "told"),
    [(0, "100 items; talking"), (1, ", 1 sub-batch to go on"), (2, ", 2 sub-batches to go on")],
)
def test_what_is_alive_is_told_in_the_right_number(live: int, told: str) -> None:
    """The first line counts one sub-batch as one."""
    assert told in start_line(replace(started(), live=live))


def finished(run_id: str = "r") -> events.RunFinished:
    """Return the event with which a wave returns."""
    return events.RunFinished(
        run_id=run_id,
        wave=1,
        items=100,
        succeeded=98,
        quarantined=2,
        rejected=0,
        unresolved=0,
        reasons={"invalid_request_error": 2},
        elapsed=75.0,
    )


class Spy:
    """A display that writes down what is asked of it."""

    def __init__(self, *, every: float, replaces: bool) -> None:
        self.every = every
        self.replaces = replaces
        self.calls: list[str] = []

    def __call__(self, event: events.Event) -> None:
        self.calls.append(type(event).__name__)

    def refresh(self) -> None:
        self.calls.append("refresh")

    def close(self) -> None:
        self.calls.append("close")


async def test_a_log_gets_lines_from_the_library_too() -> None:
    """A listener on a stream that is no terminal writes what begins, what happens and the end."""
    out = io.StringIO()
    listener = show_progress(out)
    for event in (started(), progressed(1, in_flight=100), finished()):
        listener(event)
    first, last = (line[9:] for line in out.getvalue().splitlines())
    assert first.startswith("run 'r': 100 items; talking to http://there (API version")
    assert last == "run 'r' returned after 1 min 15 s, 100 items: 98 succeeded, 2 quarantined"


async def test_a_call_that_raised_says_so() -> None:
    """The last line of a call that ended in an exception names it; an end before any is silent."""
    out = io.StringIO()
    listener = show_progress(out)
    failed = events.RunFailed(run_id="r", error="StoreFull")
    for event in (failed, started(), failed):
        listener(event)
    lines = [line[9:] for line in out.getvalue().splitlines()]
    assert len(lines) == 2
    assert lines[1] == "run 'r' stopped: StoreFull was raised; what was stored before is safe"


async def test_the_last_event_of_many_is_drawn() -> None:
    """Drawing is bounded, yet what came last is seen without waiting for more news."""
    spies: list[Spy] = []

    def open_display(alone: bool) -> Spy:
        spies.append(Spy(every=0.02, replaces=True))
        return spies[-1]

    listener = Follower(open_display)
    for _ in range(5):
        listener(progressed(1, in_flight=100))
    (spy,) = spies
    assert spy.calls.count("refresh") == 1
    while spy.calls[-1] != "refresh":
        await asyncio.sleep(0.001)
    assert spy.calls.count("refresh") == 2
    listener(finished())
    assert spy.calls[-2:] == ["refresh", "close"]


async def test_lines_are_not_repeated_without_need() -> None:
    """A display of lines is refreshed when its time has come, and not at the end."""
    spies: list[Spy] = []

    def open_display(alone: bool) -> Spy:
        spies.append(Spy(every=3_600.0, replaces=False))
        return spies[-1]

    listener = Follower(open_display)
    for event in (started(), progressed(1, in_flight=100), finished()):
        listener(event)
    assert spies[0].calls == ["RunStarted", "Progressed", "RunFinished", "close"]


async def test_each_run_has_a_display_of_its_own() -> None:
    """Two runs at once, and a call after one that failed, do not share a display."""
    opened: list[tuple[bool, Spy]] = []

    def open_display(alone: bool) -> Spy:
        opened.append((alone, Spy(every=1.0, replaces=False)))
        return opened[-1][1]

    listener = Follower(open_display)
    listener(started("a"))
    listener(started("b"))
    assert [alone for alone, _ in opened] == [True, False]
    listener(events.IntakeProgressed(run_id="a", read=10))
    assert [len(opened), opened[0][1].calls[-1]] == [3, "close"]
    listener(finished("a"))
    listener(finished("b"))
    assert [spy.calls[-1] for _, spy in opened] == ["close"] * 3


def test_a_terminal_of_the_librarys_keeps_its_cursor() -> None:
    """Nobody tidies up after an error there, so the cursor is never left hidden."""
    out = io.StringIO()
    terminal = {"TERM": "xterm-256color"}
    console = Console(file=out, force_terminal=True, width=100, _environ=terminal)
    display = LiveProgress(console, alone=True)
    display(progressed(1, in_flight=100))
    display.refresh()
    text = out.getvalue()
    assert text.rindex("\x1b[?25h") > text.rindex("\x1b[?25l")
    display(finished())
    display.close()
    assert "98 succeeded, 2 quarantined" in out.getvalue()


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
