"""What several test files share: items, a runner on a simulator, events kept in order."""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import anthropic
import pytest

from batchwright import BatchRunner, Polling, RetryBudget, SyncLimits
from batchwright.errors import StoreError
from batchwright.events import Event, ShardSubmitted
from batchwright.report import validate
from batchwright.simulator import Simulator, expected_text

#: Fast, and below the server's hint on purpose.
FAST = Polling(interval=0.02, grace=1_800.0)
EAGER = RetryBudget(backoff=0.01, max_backoff=0.05)
#: Direct calls that no limit of requests holds back, for tests that are not about pace.
UNPACED = SyncLimits(rpm=1_000_000)


def params(text: str, **more: Any) -> dict[str, Any]:
    """Return a request that asks *text*."""
    return {
        "model": "claude-haiku-4-5",
        "max_tokens": 64,
        "messages": [{"role": "user", "content": text}],
        **more,
    }


def items(count: int, prefix: str = "doc") -> list[tuple[str, dict[str, Any]]]:
    """Return *count* items whose ids and questions differ."""
    return [(f"{prefix}-{i}", params(f"question {i} of {prefix}")) for i in range(count)]


class Heard(list[Event]):
    """Events as they came; callable, so that it can be given as `on_event`."""

    def __call__(self, event: Event) -> None:
        self.append(event)

    def of(self, kind: type[Event]) -> list[Any]:
        """Return the events of one kind."""
        return [event for event in self if isinstance(event, kind)]

    async def until(self, kind: type[Event]) -> None:
        """Return once an event of one kind was heard."""
        while not self.of(kind):
            await asyncio.sleep(0.001)


@contextlib.asynccontextmanager
async def runner_on(
    sim: Simulator, store: str | Path = "memory://", *, api_key: str | None = None, **options: Any
) -> AsyncIterator[BatchRunner]:
    """Open a fast runner that talks to *sim*."""
    given = sim.client_options()
    if api_key is not None:
        given["api_key"] = api_key
    options = {"polling": FAST, "retry": EAGER, **options}
    async with anthropic.AsyncAnthropic(**given) as client:
        async with BatchRunner(client=client, store=store, **options) as runner:
            yield runner
            await judge_reports(runner)


async def judge_reports(runner: BatchRunner) -> None:
    """Check that the report of every run keeps its contract, whatever a test did to the run."""
    store = runner._store
    try:
        infos = [await store.read_run(run_id) for run_id in await store.list_runs()]
        # What was only written by hand, or not begun, never said what was asked.
        begun = [info.run_id for info in infos if info is not None and "talked_to" in info.facts]
        reports = [await runner.report(run_id) for run_id in begun]
    except StoreError:
        # A store that a test broke tells nothing any more.
        return
    for report in reports:
        findings = "; ".join(map(str, validate(report.model_dump_json().encode())))
        assert not findings, findings


async def run_interrupted(
    runner: BatchRunner, asked: list[tuple[str, dict[str, Any]]], heard: Heard
) -> None:
    """Run *asked*, and cancel the task as soon as a sub-batch is on the server."""
    task = asyncio.create_task(runner.run(asked))
    await heard.until(ShardSubmitted)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


def sent(sim: Simulator) -> Counter[str]:
    """Return how often each custom_id was in a create that the server registered."""
    return Counter(
        custom_id for create in sim.creates if create.registered for custom_id in create.custom_ids
    )


def assert_own_answers(result: Any, asked: list[tuple[str, dict[str, Any]]], seed: int = 0) -> None:
    """Check that every item has the answer to its own question."""
    wrong = [
        item_id
        for item_id, body in asked
        if result.messages[item_id].content[0].text != expected_text(body, seed)
    ]
    assert wrong == []


def assert_conserved(result: Any, passed: int) -> None:
    """Check that every item passed has exactly one outcome."""
    ids = [outcome.id for outcome in result.outcomes]
    assert len(ids) == len(set(ids)) == passed
    assert sum(result.counts.values()) == passed
