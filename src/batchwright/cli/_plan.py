"""
`plan`: what a run would send, cost and take, before it is started.
"""

from __future__ import annotations

import gc
import sys
from typing import Annotated, cast

import typer

from batchwright._gateway import default_client
from batchwright._ingest import Items
from batchwright.cli._exits import Exit
from batchwright.cli._files import check_files, open_entries, store_file
from batchwright.cli._flow import Progressing, perform
from batchwright.cli._options import Manner, Server, Tuning, Where, taking_groups
from batchwright.cli._plan_lines import lines_of_plan
from batchwright.cli._voice import say, tell
from batchwright.listeners.progress import display_for, shown
from batchwright.report.plan import PlanReport
from batchwright.runner import BatchRunner


def register(app: typer.Typer) -> None:
    """Add the command of this file to *app*."""
    app.command()(taking_groups(plan))


def plan(
    items: Annotated[
        str, typer.Argument(help="One item a line; - is stdin.", metavar="ITEMS.jsonl")
    ],
    *,
    offline: Annotated[
        bool, typer.Option("--offline", help="Ask the API nothing; the estimate is rougher.")
    ] = False,
    user_waiting: Annotated[
        bool, typer.Option("--user-waiting", help="Say that a person waits for the answers.")
    ] = False,
    streaming: Annotated[
        bool, typer.Option("--streaming", help="Say that answers are needed as a stream.")
    ] = False,
    ids_from_position: Annotated[
        bool, typer.Option("--ids-from-position", help="Say that ids were made from positions.")
    ] = False,
    where: Where,
    server: Server,
    manner: Manner,
    tuning: Tuning,
) -> None:
    """
    Tell what a run would send, cost and take, and what is wrong with its items; send nothing.

    It takes the options of `run`. The store is only read: what it holds already is not planned
    again. With a key the tokens of a few dozen requests are counted, which is free; without one
    the estimate is rough. --user-waiting, --streaming and --ids-from-position declare work that is
    not for batches, and are refused with the reason.

    \b
    Examples:
      batchwright plan items.jsonl
      batchwright plan items.jsonl --store judge.db --run-id judge-1
      batchwright plan items.jsonl && batchwright run items.jsonl --out out.jsonl
      batchwright plan items.jsonl --json > plan.json
      batchwright plan items.jsonl --offline

    \b
    Exit status: 0 all is well; 2 the run would stop before it sends anything; 3 some items would
    not be sent or are known to fail; 4 the account is refused.
    """

    async def work(_: Progressing) -> Exit:
        check_files(items, store_file(where.store), None)
        made = await _make(
            items,
            where,
            server,
            manner,
            tuning,
            offline=offline,
            user_waiting=user_waiting,
            streaming=streaming,
            ids_from_position=ids_from_position,
        )
        if manner.json:
            say(made.model_dump_json(indent=2))
        else:
            for line in lines_of_plan(made, items, where, server.base_url):
                say(line)
        return exit_of_plan(made)

    perform(work, manner)


async def _make(
    items: str, where: Where, server: Server, manner: Manner, tuning: Tuning, **declared: bool
) -> PlanReport:
    # As for a run: what has been imported is left out of full collections.
    gc.freeze()
    display = display_for(sys.stderr, tell, quiet=manner.quiet)
    url = server.base_url
    client = default_client(base_url=url) if url else None
    try:
        async with shown(display):
            runner = BatchRunner(
                client=client, store=where.store, on_event=display, **tuning.runner_options()
            )
            entries = cast("Items", open_entries(items))
            return await runner.plan(entries, run_id=where.run_id, **declared)
    finally:
        if client is not None:
            await client.close()


def exit_of_plan(plan: PlanReport) -> Exit:
    """Return the exit status of a plan."""
    if any(stop.kind != "account" for stop in plan.stops):
        return Exit.USAGE
    if plan.stops:
        return Exit.ACCOUNT
    return Exit.DONE if plan.sound else Exit.INCOMPLETE
