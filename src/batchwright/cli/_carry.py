"""
`run`, `resume` and `cancel`: the commands that talk to the API.
"""

from __future__ import annotations

import asyncio
import gc
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from batchwright import events
from batchwright._clock import clock
from batchwright._export import write_lines
from batchwright._gateway import default_client
from batchwright.cli._advice import command
from batchwright.cli._exits import Exit, Stumble, exit_of
from batchwright.cli._files import check_files, check_out, known_store, open_items, store_file
from batchwright.cli._flow import Progressing, perform
from batchwright.cli._options import Manner, Server, Tuning, Where, taking_groups
from batchwright.cli._summary import Summary, examples_of, json_of, lines_of, reasons_of
from batchwright.cli._voice import say, say_json, tell
from batchwright.errors import BatchwrightError, ConfigurationError
from batchwright.listeners.progress import display_for, shown
from batchwright.result import RunResult
from batchwright.runner import BatchRunner

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
        call = _Call(where, server, manner, tuning, out, state, cancel_on_interrupt)
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
        call = _Call(where, server, manner, tuning, out, state, cancel_on_interrupt)
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
        call = _Call(where, server, manner, tuning, None, state)
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
        call = _Call(where, server, manner, tuning, out, state)
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
        call = _Call(where, server, manner, tuning, out, state)
        return await call.carry(lambda r: r.recover(source, where.run_id, collect=False))

    perform(work, manner)


@dataclass(slots=True)
class _Call:
    """One wave from the command line, with its display before it and its summary after."""

    where: Where
    server: Server
    manner: Manner
    tuning: Tuning
    out: Path | None
    state: Progressing
    cancel_on_interrupt: bool = False
    live: int | None = None
    canceled: str = ""

    async def carry(self, go: Callable[[BatchRunner], Awaitable[RunResult | None]]) -> Exit:
        """Conduct the wave, write the results, tell the summary; `None` is left to another."""
        began = clock().monotonic()
        # What has been imported stays: going through it again and again in full collections holds
        # the loop up by 100 ms each. A process of its own may say so; a library may not.
        gc.freeze()
        self.state.on_interrupt = self._interrupted
        display = display_for(sys.stderr, tell, quiet=self.manner.quiet)

        def on_event(event: events.Event) -> None:
            self._note(event)
            display(event)

        async with shown(display), self._runner(on_event) as runner:
            try:
                result = await go(runner)
            except asyncio.CancelledError:
                if self.cancel_on_interrupt and self.state.sent:
                    await self._request_cancel(runner)
                raise
        if result is None:
            return self._left_to_owner()
        summary = await self._summary(result, clock().monotonic() - began)
        self._tell(summary, exit_of(result))
        return exit_of(result)

    def _left_to_owner(self) -> Exit:
        """Say that the process which owns the run was asked, and will do it."""
        said = "the process that owns this run was asked to switch; it does so at its next look"
        if self.manner.json:
            say_json({"run_id": self.where.run_id, "asked_owner": True})
        else:
            say(f"{said}. How far it is: {command('status', self.where)}")
        return Exit.DONE

    @asynccontextmanager
    async def _runner(self, on_event: Callable[[events.Event], None]) -> AsyncIterator[BatchRunner]:
        options = self.tuning.runner_options()
        url = self.server.base_url
        client = default_client(base_url=url) if url else None
        try:
            yield BatchRunner(client=client, store=self.where.store, on_event=on_event, **options)
        finally:
            if client is not None:
                await client.close()

    async def _request_cancel(self, runner: BatchRunner) -> None:
        """Cancel what is alive; a second signal leaves at once, with the state as it is."""
        tell("Interrupted; asking the API to cancel the live batches …")
        try:
            said = await runner.request_cancel(self.where.run_id)
        except BatchwrightError as error:
            self.canceled = f"The batches go on, since they could not be canceled: {error}"
            return
        parts = [_being_canceled(len(said.asked))]
        parts += [f"{batch_id} is not: {why}" for batch_id, why in said.refused.items()]
        parts += [f"{said.in_doubt} in doubt, its id is not known"] if said.in_doubt else []
        told = "; ".join(part for part in parts if part) or "no batch was alive"
        anew = command("resume", self.where, "--resubmit canceled", base_url=self.server.base_url)
        self.canceled = (
            f"Cancel: {told}. What they still give is read by resume; what was canceled is sent "
            f"anew only by: {anew}"
        )

    def _note(self, event: events.Event) -> None:
        match event:
            case events.RunStarted():
                self.state.sent = True
            case events.RunInterrupted():
                self.live = event.live
            case _:
                pass

    def _interrupted(self) -> str:
        if not self.state.sent:
            return "Interrupted before anything was sent. Type the same command to begin anew."
        more = [f"--out {self.out}"] if self.out else []
        again = command("resume", self.where, *more, base_url=self.server.base_url)
        out = f"{self.live} batches go on" if self.live != 1 else "1 batch goes on"
        live = f" {out} at the server; resume collects them." if self.live else ""
        if self.canceled:
            live = f"\n{self.canceled}"
        return f"Interrupted; the state is saved.{live}\nTo go on: {again}"

    async def _summary(self, result: RunResult, elapsed: float) -> Summary:
        return Summary(
            where=self.where,
            report=result.report,
            counts=result.counts,
            reasons=reasons_of(result),
            examples=examples_of(result),
            stopped=result.stopped,
            out=str(self.out) if self.out else None,
            written=await self._write(result),
            elapsed=elapsed,
            base_url=self.server.base_url,
        )

    async def _write(self, result: RunResult) -> int | None:
        if self.out is None:
            return None
        try:
            return await write_lines(aiter(result), self.out)
        except (OSError, BatchwrightError) as error:
            again = command("export", self.where, "--out OUT.jsonl")
            raise Stumble(
                f"the run is over and its results are safe in {self.where.place}, but {self.out} "
                f"could not be written: {error}. Write them elsewhere: {again}",
                Exit.FAILED,
            ) from error

    def _tell(self, summary: Summary, code: Exit) -> None:
        if self.manner.json:
            say_json(json_of(summary, code))
            return
        for line in lines_of(summary):
            say(line)


def _being_canceled(count: int) -> str:
    if not count:
        return ""
    return f"{count} batches are being canceled" if count != 1 else "1 batch is being canceled"
