"""
`simulate` and `demo`: the API on this machine, alone and with a run through it.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Annotated, Any

import typer

from batchwright.cli._exits import Exit, Stumble
from batchwright.cli._flow import Progressing, perform
from batchwright.cli._options import Manner, taking_groups
from batchwright.cli._voice import say, say_json


def register(app: typer.Typer) -> None:
    """Add the commands of this file to *app*."""
    for one in (simulate, demo):
        app.command()(taking_groups(one))


def _share(text: str) -> Any:
    return typer.Option(help=text, min=0.0, max=1.0)


def simulate(
    *,
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="Port to listen on; 0 takes a free one.")] = 8788,
    speed: Annotated[
        float, typer.Option(help="Simulated seconds per second; batches take 1 to 10 minutes.")
    ] = 60.0,
    seed: Annotated[int, typer.Option(help="Decides ids, durations and answers.")] = 0,
    errors: Annotated[float, _share("Share of requests that end errored.")] = 0.0,
    expired: Annotated[float, _share("Share of requests that expire.")] = 0.0,
    truncated: Annotated[float, _share("Share of answers that are cut off.")] = 0.0,
    refused: Annotated[float, _share("Share of answers in which the model declines.")] = 0.0,
    overloaded: Annotated[float, _share("Share of calls answered with 529.")] = 0.0,
    faults: Annotated[
        str,
        typer.Option(
            help="Faults of calls: ROUTE:FAULT[:SHARE], separated by commas.", metavar="FAULTS"
        ),
    ] = "",
    key: Annotated[
        list[str], typer.Option(help="Take only this key; may be given again.", metavar="KEY")
    ] = [],  # noqa: B006 - typer copies it
    manner: Manner,
) -> None:
    """
    Serve a local Message Batches API, to try a pipeline without a key and without paying.

    It prints what to set in the shell that shall talk to it, and runs until Ctrl-C.

    \b
    Examples:
      batchwright simulate
      batchwright simulate --port 9000 --speed 600 --seed 7
      batchwright simulate --errors 0.01 --expired 0.01 --overloaded 0.05
      batchwright simulate --faults "create:lost:0.2, results:cut, retrieve:502, *:slow:0.05"

    \b
    Faults: a status from 400 to 599, or lost, reset, refused, hang, slow, drip, cut, cut-clean,
    garbled, html, too-large, gzip, no-type, odd-status. Routes: create, retrieve, list, cancel,
    delete, results, models, message, *.
    """
    # The server's packages are loaded by the two commands that serve, and by no other.
    from batchwright.simulator import Chance, Error, Simulator, WorldSettings  # noqa: PLC0415
    from batchwright.simulator.grammar import parse_faults  # noqa: PLC0415

    async def work(state: Progressing) -> Exit:
        state.on_interrupt = lambda: "stopped"
        if speed <= 0:
            raise Stumble(f"--speed must be above zero, not {speed}")
        settings = WorldSettings(
            error_rate=errors,
            expire_rate=expired,
            truncate_rate=truncated,
            refusal_rate=refused,
            keys=dict.fromkeys(key, "default") if key else None,
        )
        try:
            scripted = parse_faults(faults)
        except ValueError as error:
            raise Stumble(f"--faults: {error}") from None
        if overloaded:
            scripted.append(Chance("*", Error(529), overloaded))
        simulator = Simulator(
            seed=seed, speed=speed, host=host, port=port, settings=settings, faults=scripted
        )
        return await _serve(simulator, key[0] if key else simulator.api_key, manner)

    perform(work, manner)


async def _serve(simulator: Any, key: str, manner: Manner) -> Exit:
    """Serve until a signal comes."""
    try:
        await simulator.__aenter__()
    except OSError as error:
        raise Stumble(f"cannot listen there: {error.strerror or error}; try --port 0") from None
    try:
        _greet(simulator.url, key, manner)
        await asyncio.get_running_loop().create_future()
    except asyncio.CancelledError:
        return Exit.DONE
    finally:
        await simulator.__aexit__(None, None, None)
    raise AssertionError("nothing completes that future")


def _greet(url: str, key: str, manner: Manner) -> None:
    if manner.json:
        say_json({"base_url": url, "api_key": key})
        return
    say(f"# the simulated Message Batches API runs at {url}; Ctrl-C ends it")
    say("# in the shell that shall talk to it:")
    say(f"export ANTHROPIC_BASE_URL={url} ANTHROPIC_API_KEY={key}")
    say("# and to talk to the real API again:")
    say("#   unset ANTHROPIC_BASE_URL ANTHROPIC_API_KEY")


def demo(
    *,
    items: Annotated[int, typer.Option(help="How many prompts to run.", min=20, max=100_000)] = (
        3_000
    ),
    store: Annotated[
        Path | None, typer.Option(help="Keep the store here, to look at it later.", metavar="FILE")
    ] = None,
    seed: Annotated[int, typer.Option(help="Decides durations and answers.")] = 0,
    manner: Manner,
) -> None:
    """
    See it work: thousands of real prompts through a simulated API, with faults on purpose.

    It needs no key and no network, and takes some seconds. The prompts are the docstrings of
    Python's standard library.

    \b
    Examples:
      batchwright demo
      batchwright demo --items 10000
      batchwright demo --store demo.db      # then: batchwright status --run-id demo --store demo.db
    """
    from batchwright.cli._demo import run_demo  # noqa: PLC0415 - as above

    async def work(state: Progressing) -> Exit:
        return await run_demo(items, store, seed, manner, state)

    perform(work, manner)
