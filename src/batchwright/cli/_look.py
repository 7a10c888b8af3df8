"""
`status`, `export` and `report`: what the store knows; no key, no network, no lease.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from batchwright._export import whole_file, write_lines
from batchwright.cli._exits import Exit, Stumble
from batchwright.cli._files import check_out, known_store
from batchwright.cli._flow import Progressing, perform
from batchwright.cli._options import Manner, Where, taking_groups
from batchwright.cli._standing import json_of_standing, lines_of_standing, read_standing
from batchwright.cli._voice import say, say_json
from batchwright.report import RunReport
from batchwright.runner import BatchRunner


def register(app: typer.Typer) -> None:
    """Add the commands of this file to *app*."""
    for one in (status, export, report):
        app.command()(taking_groups(one))


def status(*, where: Where, manner: Manner) -> None:
    """
    Show how far a run is, from its store alone; also while another process works on it.

    \b
    Examples:
      batchwright status
      batchwright status --run-id judge-1 --store judge.db
      watch -n 60 batchwright status
      batchwright status --json | jq .progress
    """

    async def work(_: Progressing) -> Exit:
        known_store(where.store)
        standing = await read_standing(where)
        if manner.json:
            say_json(json_of_standing(standing))
        else:
            for line in lines_of_standing(standing):
                say(line)
        return Exit.DONE

    perform(work, manner)


def export(
    *,
    out: Annotated[
        Path, typer.Option("--out", "-o", help="Write one line per item here.", metavar="OUT.jsonl")
    ],
    partial: Annotated[
        bool, typer.Option("--partial", help="Also while items have no outcome yet.")
    ] = False,
    where: Where,
    manner: Manner,
) -> None:
    """
    Write the results of a run from its store: one line per item, in input order.

    \b
    Examples:
      batchwright export --out out.jsonl
      batchwright export --out so-far.jsonl --partial
      batchwright export --out out.jsonl --run-id judge-1 --store judge.db
    """

    async def work(_: Progressing) -> Exit:
        check_out(out, ("the store", known_store(where.store)))
        async with BatchRunner(store=where.store) as runner:
            progress = (await runner.status(where.run_id)).progress
            still = progress.waiting + progress.in_flight
            if still and not partial:
                raise Stumble(
                    f"{still:,} of {progress.total:,} items have no outcome yet; "
                    "--partial writes what there is"
                )
            written = await write_lines(runner.outcomes(where.run_id), out)
        if manner.json:
            say_json({"exit": 0, "out": str(out), "written": written, "open": still})
        elif not manner.quiet:
            say(f"{out}: {written:,} lines" + (f", {still:,} without an outcome" if still else ""))
        return Exit.DONE

    perform(work, manner)


def report(
    *,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="Write it here.", metavar="REPORT.json")
    ] = None,
    html: Annotated[
        Path | None,
        typer.Option("--html", help="Write it as a page for a browser.", metavar="PAGE.html"),
    ] = None,
    where: Where,
    manner: Manner,
) -> None:
    """
    Print the report of a run as JSON: outcomes, reasons, tokens, batches, options.

    With --html it becomes a page that needs nothing but itself: numbers, a timeline, costs, and
    what did not succeed with a filter. It holds no prompts and no answers.

    \b
    Examples:
      batchwright report
      batchwright report --out report.json
      batchwright report --html report.html
      batchwright report | jq '.tokens'
    """

    async def work(_: Progressing) -> Exit:
        store = ("the store", known_store(where.store))
        check_out(out, store)
        check_out(html, store, *([("the report", out)] if out else []), flag="--html")
        made = await BatchRunner(store=where.store).report(where.run_id)
        if out is None and html is None:
            say(made.model_dump_json(indent=2))
            return Exit.DONE
        _write_report(made, out, html, manner)
        return Exit.DONE

    perform(work, manner)


def _write_report(made: RunReport, out: Path | None, html: Path | None, manner: Manner) -> None:
    texts: dict[Path, str] = {}
    if out is not None:
        texts[out] = made.model_dump_json(indent=2) + "\n"
    if html is not None:
        # Only here: no other command draws.
        from batchwright.report.page import render_html  # noqa: PLC0415

        texts[html] = render_html(made)
    for path, text in texts.items():
        with whole_file(path) as file:
            file.write(text.encode())
    if manner.json:
        say_json({"exit": 0, "out": _named(out), "html": _named(html)})
    elif not manner.quiet:
        for path in texts:
            say(f"{'page' if path == html else 'report'} written to {path}")


def _named(path: Path | None) -> str | None:
    return None if path is None else str(path)
