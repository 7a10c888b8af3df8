"""
`load` and `work`: several processes, on one machine or many, carry one run.
"""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from batchwright.cli._advice import command
from batchwright.cli._call import Call
from batchwright.cli._exits import Exit
from batchwright.cli._files import check_files, open_items, store_file
from batchwright.cli._flow import Progressing, perform
from batchwright.cli._options import Manner, Server, Tuning, Where, taking_groups
from batchwright.cli._voice import say, say_json, tell
from batchwright.listeners._board import told_items
from batchwright.listeners.progress import display_for, shown
from batchwright.status import RunStatus


def register(app: typer.Typer) -> None:
    """Add the commands of this file to *app*."""
    for one in (load, work):
        app.command()(taking_groups(one))


def load(
    items: Annotated[
        str, typer.Argument(help="One item a line; - is stdin.", metavar="ITEMS.jsonl")
    ],
    *,
    where: Where,
    server: Server,
    manner: Manner,
    tuning: Tuning,
) -> None:
    """
    Put the items of a file into the store, and send nothing.

    Any number of `batchwright work` processes carry them then; for a store that is a file, one
    `batchwright resume` does. Loading the same items twice changes nothing.

    \b
    Examples:
      batchwright load items.jsonl --store postgresql://me@db/jobs --run-id judge-1
      make-prompts | batchwright load - --store postgresql://me@db/jobs
    """

    async def do(state: Progressing) -> Exit:
        check_files(items, store_file(where.store), None)
        source = open_items(items)
        state.on_interrupt = lambda: "Interrupted; nothing was loaded. Type the same command again."
        call = Call(where, server, manner, tuning, None, state)
        display = display_for(sys.stderr, tell, quiet=manner.quiet)
        async with shown(display), call.runner(display) as runner:
            status = await runner.load(source, where.run_id)
        _tell_loaded(status, where, manner)
        return Exit.DONE

    perform(do, manner)


def _tell_loaded(status: RunStatus, where: Where, manner: Manner) -> None:
    progress = status.progress
    shared = where.store.startswith("postgres")
    following = command("work" if shared else "resume", where)
    if manner.json:
        say_json(
            {
                "run_id": status.run_id,
                "store": where.place,
                "items": progress.total,
                "waiting": progress.waiting,
                "reasons": dict(status.reasons),
                "next": [following],
            }
        )
        return
    say(
        f"Run {status.run_id!r} in {where.place} holds {told_items(progress.total)}, "
        f"{progress.waiting:,} to send"
    )
    for reason, count in status.reasons.items():
        say(f"  {count:,} {reason}")
    say(f"Next: {following}" + ("   # as often as you like, anywhere" if shared else ""))


def work(
    *,
    wait: Annotated[
        float,
        typer.Option(
            "--wait",
            help="Seconds to wait for the run to appear.",
            min=0.0,
            envvar="BATCHWRIGHT_WAIT",
            show_envvar=False,
        ),
    ] = 60.0,
    where: Where,
    server: Server,
    manner: Manner,
    tuning: Tuning,
) -> None:
    """
    Work on a run together with other processes, on this machine or others.

    All of them name the same PostgreSQL store and the same run, which `load` or `run` has put in.
    Start as many as you like, at any time; each ends when the run is over for all. One that is
    interrupted or dies is succeeded by the others. Give all of them the same options.

    \b
    Examples:
      batchwright work --run-id judge-1 --store postgresql://me@db/jobs
      srun batchwright work --run-id judge-1 --wait 600     # one of an array
    """

    async def do(state: Progressing) -> Exit:
        store_file(where.store)
        call = Call(where, server, manner, tuning, None, state, together=True)
        return await call.carry(lambda r: r.work(where.run_id, wait=wait, collect=False))

    perform(do, manner)
