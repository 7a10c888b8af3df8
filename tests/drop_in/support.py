"""Helpers: a client that gathers quickly, and batches that are held at the server."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterable
from pathlib import Path
from typing import Any

from tests.support import EAGER, FAST, params

from batchwright import AsyncAnthropic, Gathering, _hub
from batchwright.simulator import Call, Mutate, Simulator
from batchwright.simulator.hooks import Rule

#: A group leaves a moment after its last call.
QUICK = Gathering(quiet=0.05)


@contextlib.asynccontextmanager
async def client_on(
    sim: Simulator, store: str | Path | Any = "memory://", **options: Any
) -> AsyncIterator[AsyncAnthropic]:
    """Open a client whose calls go to *sim* in batches."""
    given = {"gathering": QUICK, "polling": FAST, "retry": EAGER, **sim.client_options()}
    # On the simulator's clock hours pass, and the default policy would probe direct calls.
    given["policy"] = "batch"
    async with AsyncAnthropic(store=store, **{**given, **options}) as client:
        yield client


def next_process() -> None:
    """Forget what only this process knows, as if another one began."""
    _hub._hubs.clear()


async def ask(client: AsyncAnthropic, text: str, **more: Any) -> Any:
    """Return the answer to *text*."""
    return await client.messages.create(**params(text, **more))


async def ask_all(client: AsyncAnthropic, texts: Iterable[str]) -> list[Any]:
    """Return the answers to *texts*, asked at once."""
    return list(await asyncio.gather(*(ask(client, text) for text in texts)))


def questions(count: int) -> list[str]:
    """Return *count* questions."""
    return [f"question {n}" for n in range(count)]


def batch_sizes(sim: Simulator) -> list[int]:
    """Return how many requests each registered batch holds."""
    return [len(create.custom_ids) for create in sim.creates if create.registered]


class Hold:
    """Lets chosen batches look unfinished until they are let go."""

    def __init__(self, sim: Simulator, *numbers: int) -> None:
        """Hold the batches with these numbers, from 1 in the order of their creates."""
        self._sim = sim
        self._numbers = numbers
        self._rules: list[Rule] = [
            sim.on(self._is_held, Mutate(self._change)),
            sim.on("list", Mutate(self._change_page)),
        ]

    def let_go(self) -> None:
        """Show the batches as they are."""
        for rule in self._rules:
            self._sim.off(rule)

    def _held(self) -> set[str | None]:
        made = [create.batch_id for create in self._sim.creates if create.registered]
        return {made[number - 1] for number in self._numbers if number <= len(made)}

    def _is_held(self, call: Call) -> bool:
        return call.route == "retrieve" and call.batch_id in self._held()

    def _change(self, reply: Any) -> Any:
        _unfinish(reply.body)
        return reply

    def _change_page(self, reply: Any) -> Any:
        for batch in reply.body.get("data", []):
            if batch["id"] in self._held():
                _unfinish(batch)
        return reply


def _unfinish(batch: dict[str, Any]) -> None:
    total = sum(batch["request_counts"].values())
    batch["processing_status"] = "in_progress"
    batch["ended_at"] = batch["results_url"] = None
    batch["request_counts"] = dict.fromkeys(batch["request_counts"], 0) | {"processing": total}
