"""
`watch`: what `run` shows, from a second terminal.
"""

from __future__ import annotations

import sys
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Annotated

import typer

from batchwright._clock import clock
from batchwright.cli._advice import command
from batchwright.cli._exits import Exit
from batchwright.cli._files import reader
from batchwright.cli._flow import Progressing, perform
from batchwright.cli._options import Manner, Where, taking_groups
from batchwright.cli._standing import Standing, json_of_standing, lines_of_standing, read_standing
from batchwright.cli._voice import say, say_json, tell
from batchwright.errors import StoreBusy
from batchwright.events import Event
from batchwright.listeners._board import Board, Watched
from batchwright.listeners._looks import told_by
from batchwright.listeners._news import news_of
from batchwright.listeners._terminal import drawn
from batchwright.listeners.progress import Display, display_for, shown
from batchwright.runner import BatchRunner
from batchwright.status import RunStatus

#: Seconds between two looks at the store.
LOOK_EVERY = 1.0


def register(app: typer.Typer) -> None:
    """Add the command of this file to *app*."""
    app.command()(taking_groups(watch))


def watch(
    *,
    once: Annotated[bool, typer.Option("--once", help="Look once, print it, and end.")] = False,
    where: Where,
    manner: Manner,
) -> None:
    """
    Show how a run goes while another process works on it; only reads its store.

    It ends when the run has: with status 0 if all items succeeded, else with 3. Ctrl-C ends only
    the watching, with status 130. While nobody works on an unfinished run it says so, and waits
    for somebody to go on.

    \b
    Examples:
      batchwright watch
      batchwright watch --run-id judge-1 --store judge.db
      batchwright watch --once
      batchwright watch --quiet && batchwright export --out out.jsonl    # once it is complete
      batchwright watch > watch.log                                      # a line a minute
    """

    async def work(state: Progressing) -> Exit:
        state.on_interrupt = lambda: (
            "stopped watching; the run itself is as it was. To look again: "
            + command("watch", where)
        )
        if once:
            return await _look_once(where, manner)
        # With --json stdout is for the one object at the end.
        stream, write = (sys.stderr, tell) if manner.json else (sys.stdout, say)
        async with shown(display_for(stream, write, quiet=manner.quiet)) as display:
            await _follow(where, display)
        standing = await read_standing(where)
        _tell(standing, manner)
        progress = standing.status.progress
        return Exit.DONE if progress.succeeded == progress.total else Exit.INCOMPLETE

    perform(work, manner)


async def _look_once(where: Where, manner: Manner) -> Exit:
    if manner.json:
        say_json(json_of_standing(await read_standing(where)))
        return Exit.DONE
    board, now = Board(), clock().monotonic()
    async with aclosing(_events(where)) as looks:
        async for _, event in looks:
            board.take(event, now)
            if (line := news_of(event)) is not None:
                say(line)
            if isinstance(event, Watched):
                break
    say(drawn(board, now, sys.stdout))
    return Exit.DONE


async def _follow(where: Where, display: Display) -> None:
    """Hand on what looks at the store tell, until the run has ended."""
    said: Watched | None = None
    async with aclosing(_events(where)) as looks:
        async for status, event in looks:
            display(event)
            if not isinstance(event, Watched):
                continue
            if event != said:
                display.refresh()
            said = event
            if _is_over(status):
                return


async def _events(where: Where) -> AsyncGenerator[tuple[RunStatus, Event]]:
    """Yield what happens to a run as far as its store tells; each look ends with `Watched`."""
    before: RunStatus | None = None
    async with BatchRunner(store=reader(where.store)) as runner:
        while True:
            try:
                status = await runner.status(where.run_id)
            except StoreBusy:
                if before is None:
                    raise
            else:
                for event in told_by(before, status, where.place):
                    yield status, event
                yield (
                    status,
                    Watched(run_id=status.run_id, owner=status.owner, note=_note(where, status)),
                )
                before = status
            await clock().sleep(LOOK_EVERY)


def _is_over(status: RunStatus) -> bool:
    progress = status.progress
    still = progress.waiting + progress.in_flight
    return status.owner is None and status.intake_complete and not still


def _note(where: Where, status: RunStatus) -> str:
    """Return what to add to who works on the run."""
    if status.owner is not None:
        return "" if status.intake_complete else "its items are being read, nothing is sent yet"
    if _is_over(status):
        return "it has ended"
    (step, *_) = Standing(where, status, {}, (), clock().now()).next
    return f"to go on: {step.partition('   #')[0]}"


def _tell(standing: Standing, manner: Manner) -> None:
    if manner.json:
        say_json(json_of_standing(standing))
        return
    for line in lines_of_standing(standing):
        say(line)
