"""
One call of the runner from the command line: its display before it, its summary after it.
"""

from __future__ import annotations

import asyncio
import gc
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from batchwright import events
from batchwright._clock import clock
from batchwright._export import write_lines
from batchwright._gateway import default_client
from batchwright.cli._advice import command
from batchwright.cli._exits import Exit, Stumble, exit_of
from batchwright.cli._flow import Progressing
from batchwright.cli._options import Manner, Server, Tuning, Where
from batchwright.cli._summary import Summary, examples_of, json_of, lines_of, reasons_of
from batchwright.cli._voice import say, say_json, tell
from batchwright.errors import BatchwrightError
from batchwright.listeners.progress import display_for, shown
from batchwright.result import RunResult
from batchwright.runner import BatchRunner


@dataclass(slots=True)
class Call:
    """One wave from the command line, with its display before it and its summary after."""

    where: Where
    server: Server
    manner: Manner
    tuning: Tuning
    out: Path | None
    state: Progressing
    cancel_on_interrupt: bool = False
    #: Whether others carry the run as well, and go on where this process stops.
    together: bool = False
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

        async with shown(display), self.runner(on_event) as runner:
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
    async def runner(self, on_event: Callable[[events.Event], None]) -> AsyncIterator[BatchRunner]:
        """Open nothing yet: give the runner that the options describe, and close its client."""
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
        if self.together:
            again = command("work", self.where, base_url=self.server.base_url)
            return f"Interrupted; what this process had is for the others now.\nTo join: {again}"
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
