"""
`run`, `resume`, `cancel`, `switch` and `recover`: one process carries a run.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from batchwright.cli._call import Call
from batchwright.cli._exits import Exit
from batchwright.cli._files import check_files, check_out, known_store, open_items, store_file
from batchwright.cli._flow import Progressing, perform
from batchwright.cli._options import Manner, Server, Tuning, Where, taking_groups
from batchwright.errors import ConfigurationError

_CancelOnInterrupt = Annotated[
    bool,
    typer.Option(
        "--cancel-on-interrupt",
        help="On Ctrl-C cancel the live batches too. Without it they go on, and resume reads them.",
        envvar="BATCHWRIGHT_CANCEL_ON_INTERRUPT",
        show_envvar=False,
    ),
]
_Out = Annotated[
    Path | None,
    typer.Option("--out", "-o", help="Write one line per item here.", metavar="OUT.jsonl"),
]


def register(app: typer.Typer) -> None:
    """Add the commands of this file to *app*."""
    for one in (run, resume, cancel, switch, recover):
        app.command()(taking_groups(one))


def run(
    items: Annotated[
        str, typer.Argument(help="One item a line; - is stdin.", metavar="ITEMS.jsonl")
    ],
    *,
    out: _Out = None,
    cancel_on_interrupt: _CancelOnInterrupt = False,
    where: Where,
    server: Server,
    manner: Manner,
    tuning: Tuning,
) -> None:
    """
    Bring every item of a file to an outcome, or go on with what an earlier run began.

    Each line holds {"custom_id": "doc-1", "params": {"model": …, "max_tokens": …, "messages": …}};
    "id" is taken for "custom_id" too. Only what has no answer yet is sent: after Ctrl-C, a crash
    or a full disk, type the same command again.

    \b
    Examples:
      batchwright run items.jsonl --out out.jsonl
      batchwright run items.jsonl.gz --out out.jsonl --store judge.db --run-id judge-1
      make-prompts | batchwright run - --out out.jsonl
      batchwright run items.jsonl --out out.jsonl --max-requests 2000 --poll-interval 30
      batchwright run items.jsonl --quiet --json > summary.json
    """

    async def work(state: Progressing) -> Exit:
        check_files(items, store_file(where.store), out)
        # Before the store: a wrong name must not leave an empty one behind.
        source = open_items(items)
        call = Call(where, server, manner, tuning, out, state, cancel_on_interrupt)
        return await call.carry(lambda r: r.run(source, run_id=where.run_id, collect=False))

    perform(work, manner)


def resume(
    *,
    resubmit: Annotated[
        list[str],
        typer.Option(
            "--resubmit",
            help="Send items anew that ended so; may be given again.",
            metavar="REASON",
        ),
    ] = [],  # noqa: B006 - typer copies it
    adopt: Annotated[
        list[str],
        typer.Option(
            "--adopt",
            help="Say which batch a create without an answer made; may be given again.",
            metavar="BATCH=SUB-BATCH",
        ),
    ] = [],  # noqa: B006 - typer copies it
    out: _Out = None,
    cancel_on_interrupt: _CancelOnInterrupt = False,
    where: Where,
    server: Server,
    manner: Manner,
    tuning: Tuning,
) -> None:
    """
    Go on with a run from its store, without the items.

    \b
    Examples:
      batchwright resume
      batchwright resume --run-id judge-1 --store judge.db --out out.jsonl
      batchwright resume --resubmit exhausted --max-attempts 5
      batchwright resume --resubmit overdue,archived     # may be paid for a second time
      batchwright resume --adopt msgbatch_01AbC=3        # sub-batch 3 is that batch
    """

    async def work(state: Progressing) -> Exit:
        check_out(out, ("the store", known_store(where.store)))
        reasons = [word.strip() for text in resubmit for word in text.split(",") if word.strip()]
        call = Call(where, server, manner, tuning, out, state, cancel_on_interrupt)
        return await call.carry(
            lambda r: r.resume(where.run_id, resubmit=reasons, adopt=_adopted(adopt), collect=False)
        )

    perform(work, manner)


def _adopted(pairs: list[str]) -> dict[str, int]:
    """Read BATCH=SUB-BATCH pairs."""
    found: dict[str, int] = {}
    for pair in pairs:
        batch_id, _, number = pair.partition("=")
        if not batch_id or not number.isdecimal():
            raise ConfigurationError(
                f"--adopt takes BATCH=SUB-BATCH, as in msgbatch_01AbC=3, not {pair!r}; "
                "`batchwright status` names the sub-batches in doubt"
            )
        found[batch_id] = int(number)
    return found


def cancel(*, where: Where, server: Server, manner: Manner, tuning: Tuning) -> None:
    """
    Cancel the live batches of a run, keep every answer they still give, and end it.

    Items without an answer end as "canceled"; they are sent again only by
    `batchwright resume --resubmit canceled`.

    \b
    Examples:
      batchwright cancel
      batchwright cancel --run-id judge-1 --store judge.db
    """

    async def work(state: Progressing) -> Exit:
        known_store(where.store)
        call = Call(where, server, manner, tuning, None, state)
        return await call.carry(lambda r: r.cancel(where.run_id, collect=False))

    perform(work, manner)


def switch(
    *, out: _Out = None, where: Where, server: Server, manner: Manner, tuning: Tuning
) -> None:
    """
    Move the rest of a run to direct calls now, at full price.

    Live batches are canceled and read first; what they answered is not asked again. Where another
    process owns the run, it is asked to do so; otherwise this command does it.

    \b
    Examples:
      batchwright switch
      batchwright switch --run-id judge-1 --store judge.db --out out.jsonl
    """

    async def work(state: Progressing) -> Exit:
        check_out(out, ("the store", known_store(where.store)))
        call = Call(where, server, manner, tuning, out, state)
        return await call.carry(lambda r: r.switch(where.run_id, collect=False))

    perform(work, manner)


def recover(
    items: Annotated[
        str, typer.Argument(help="The items of the run; - is stdin.", metavar="ITEMS.jsonl")
    ],
    *,
    out: _Out = None,
    where: Where,
    server: Server,
    manner: Manner,
    tuning: Tuning,
) -> None:
    """
    Rebuild a lost store from the batches of the last 29 days that the API still keeps.

    Nothing is sent. The same items and the same --run-id are needed: both are part of the ids by
    which the answers are recognised. Batches that still run cannot be looked into: they are named;
    recover again when they have ended, before resume, or their items may be paid for twice.

    \b
    Examples:
      batchwright recover items.jsonl
      batchwright recover items.jsonl --store judge.db --run-id judge-1 --out out.jsonl
    """

    async def work(state: Progressing) -> Exit:
        check_files(items, store_file(where.store), out)
        source = open_items(items)
        call = Call(where, server, manner, tuning, out, state)
        return await call.carry(lambda r: r.recover(source, where.run_id, collect=False))

    perform(work, manner)
