"""
The demo: a run of real prompts through a simulated API, and the proof that all came back.
"""

from __future__ import annotations

import contextlib
import os
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from batchwright import events
from batchwright._clock import clock
from batchwright._custom_ids import make_custom_id
from batchwright._gateway import default_client
from batchwright.cli._demo_faults import Fault, script, spoil, told, went_as_meant
from batchwright.cli._demo_items import demo_items
from batchwright.cli._exits import Exit
from batchwright.cli._files import store_file
from batchwright.cli._flow import Progressing
from batchwright.cli._options import Manner, Where
from batchwright.cli._summary import Summary, examples_of, json_of, lines_of
from batchwright.cli._voice import say, say_json, tell
from batchwright.config import Polling, RetryBudget, ShardLimits
from batchwright.listeners.progress import display_for, shown
from batchwright.result import RunResult
from batchwright.runner import BatchRunner
from batchwright.simulator import Simulator, WorldSettings, expected_text
from batchwright.simulator.fates import stem_of
from batchwright.types import Item, Outcome

RUN = "demo"
#: Simulated seconds per second: a batch of some minutes takes a second or two.
SPEED = 200.0
#: Sub-batches the items are cut into.
BATCHES = 8


async def run_demo(
    count: int, store: Path | None, seed: int, manner: Manner, state: Progressing
) -> Exit:
    """Run it, tell the summary and what became of the faults; return the exit status."""
    state.on_interrupt = lambda: "the demo was interrupted"
    items, faulty = spoil(demo_items(count))
    with _store(store) as path, _clean_environment():
        where = Where(store=str(path), run_id=RUN)
        began = clock().monotonic()
        result = await _carry(items, faulty, where, seed, manner)
        summary = Summary(
            where=where,
            report=result.report,
            counts=result.counts,
            reasons=result.reasons(),
            examples=examples_of(result),
            stopped=result.stopped,
            elapsed=clock().monotonic() - began,
        )
    wrong = _wrong(items, faulty, result, seed)
    code = Exit.FAILED if wrong else Exit.DONE
    if manner.json:
        say_json({**json_of(summary, code), **_faults_json(faulty, result, wrong)})
        return code
    for line in lines_of(summary):
        if not line.startswith(("Next:", "Store:")):
            say(line)
    _tell_end(faulty, result, wrong, store)
    return code


async def _carry(
    items: Sequence[Item], faulty: Mapping[str, Fault], where: Where, seed: int, manner: Manner
) -> RunResult:
    simulator = Simulator(seed=seed, speed=SPEED, settings=WorldSettings(duration=(100.0, 500.0)))
    stems = {item_id: stem_of(make_custom_id(RUN, item_id, b"")) for item_id in faulty}
    script(simulator, faulty, stems)
    display = display_for(sys.stderr, tell, quiet=manner.quiet)
    async with simulator, shown(display):
        # Its own server and key, whatever the environment holds.
        client = default_client(base_url=simulator.url, api_key=simulator.api_key)
        try:
            return await _runner(client, len(items), where, display).run(items, run_id=RUN)
        finally:
            await client.close()


def _runner(client: Any, count: int, where: Where, on_event: events.Listener) -> BatchRunner:
    return BatchRunner(
        client=client,
        store=where.store,
        limits=ShardLimits(max_requests=max(count // BATCHES, 1)),
        polling=Polling(interval=0.2),
        retry=RetryBudget(backoff=0.2, max_backoff=1.0),
        on_event=on_event,
    )


@contextlib.contextmanager
def _store(wanted: Path | None) -> Iterator[Path]:
    """Give the store's file: the one wanted, or one that is gone afterwards."""
    if wanted is not None:
        path = store_file(str(wanted))
        assert path is not None, "a Path names a file"
        yield path
        return
    with tempfile.TemporaryDirectory(prefix="batchwright-demo-") as folder:
        yield Path(folder) / "demo.db"


@contextlib.contextmanager
def _clean_environment() -> Iterator[None]:
    """Keep settings for the real API, and proxies, away from the simulated one."""
    held = {
        name: value
        for name, value in os.environ.items()
        if name.startswith("ANTHROPIC_") or name.lower().endswith("_proxy")
    }
    for name in held:
        del os.environ[name]
    try:
        yield
    finally:
        os.environ.update(held)


# -- what became of it ----------------------------------------------------------------------------


def _wrong(
    items: Sequence[Item], faulty: Mapping[str, Fault], result: RunResult, seed: int
) -> list[str]:
    """Return the ids of items that did not get what is theirs."""
    outcomes = result.outcomes.by_id
    return [
        item.id
        for item in items
        if not _is_right(item, faulty.get(item.id), outcomes[item.id], seed)
    ]


def _is_right(item: Item, fault: Fault | None, outcome: Outcome, seed: int) -> bool:
    if fault is not None and not went_as_meant(fault, outcome):
        return False
    if outcome.status != "succeeded":
        return fault is not None
    return outcome.refused or outcome.text == expected_text(item.params, seed)


def _tell_end(
    faulty: Mapping[str, Fault], result: RunResult, wrong: Sequence[str], store: Path | None
) -> None:
    say()
    say("Faults on purpose, and what became of them:")
    for item_id, fault in faulty.items():
        say(f"  {told(fault, result[item_id])}")
    say("  one create was refused (529), one poll lost, one result stream cut: all tried again")
    say()
    if wrong:
        say(f"WRONG: {len(wrong):,} items did not get their own answer: {', '.join(wrong[:5])}")
    else:
        answers = result.counts["succeeded"]
        say(f"Checked: each of the {answers:,} answers is the one to its own question.")
    if store is not None:
        say(f"Look at it: batchwright status --run-id {RUN} --store {store}")
    say("With a key of your own: batchwright run items.jsonl --out out.jsonl")


def _faults_json(
    faulty: Mapping[str, Fault], result: RunResult, wrong: Sequence[str]
) -> dict[str, Any]:
    return {
        "next": [],
        "checked": not wrong,
        "wrong": list(wrong),
        "faults": [
            {
                "id": item_id,
                "what": fault.what,
                "status": result[item_id].status,
                "reason": result[item_id].reason,
                "attempts": result[item_id].attempts,
            }
            for item_id, fault in faulty.items()
        ],
    }
