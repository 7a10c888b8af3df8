"""
The commands, put together.
"""

from __future__ import annotations

import signal
import sys
from typing import Annotated

import typer

import batchwright
from batchwright.cli import _carry as carry
from batchwright.cli import _local as local
from batchwright.cli import _look as look
from batchwright.cli import _plan as plan
from batchwright.cli import _together as together
from batchwright.cli import _validate as validate
from batchwright.cli import _watch as watch
from batchwright.cli._exits import Exit
from batchwright.cli._voice import say, tell

app = typer.Typer(
    name="batchwright",
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)


def _version(wanted: bool) -> None:
    if wanted:
        say(f"batchwright {batchwright.__version__}")
        raise typer.Exit


@app.callback()
def _main(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Say which version.")
    ] = False,
) -> None:
    """
    Carry any number of Claude requests through the Message Batches API.

    \b
    Examples:
      batchwright demo                                # try it: no key, no network
      batchwright plan items.jsonl                    # what will it cost, what is wrong?
      batchwright run items.jsonl --out out.jsonl     # run; run again to go on
      batchwright status                              # how far is it?
      batchwright watch                               # look on, from another terminal
      batchwright resume                              # go on without the items

    Every option of a command can also be set as an environment variable: --run-id is
    BATCHWRIGHT_RUN_ID.

    \b
    Exit status:
      0    all items succeeded
      2    bad usage or bad input; nothing was sent
      3    finished with quarantined, rejected or unresolved items
      4    stopped by a fault of the account
      5    another live process owns the run
      130  interrupted; the state is saved
    """


for _group in (carry, together, plan, look, watch, validate, local):
    _group.register(app)


def start() -> None:
    """Run the command line and leave with its exit status."""
    # Until a command has its own way to stop, nothing is under way that could be lost.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        app()
    except KeyboardInterrupt:
        tell("interrupted")
        sys.exit(Exit.INTERRUPTED)
