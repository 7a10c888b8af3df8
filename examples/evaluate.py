"""
An eval in the manner of Inspect: a dataset, a solver of several turns, a scorer, and a log.

The task is to name the weekday of a date. The solver asks, lets the model check its answer in a
second turn, and the scorer looks at the last line. Every turn of all samples is one run, so all of
it goes through batches; each sample is asked as often as `--epochs` says. Interrupt it and run it
again, raise `--epochs` or `--limit`: only what has no answer is sent.

    export ANTHROPIC_API_KEY=…
    python examples/evaluate.py --limit 50 --epochs 3 --log weekdays.json
"""

from __future__ import annotations

import argparse
import asyncio
import json
import re
import statistics
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from datetime import date, timedelta
from pathlib import Path
from typing import Any

from batchwright import BatchRunner, Item, Polling

DAYS = ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"]


# -- what an eval is made of ----------------------------------------------------------------------


@dataclass(frozen=True)
class Sample:
    """One question: `id` comes from the question, so it is the same in every run."""

    id: str
    input: str
    target: str


@dataclass
class State:
    """One sample in one epoch, on its way through the turns of the solver."""

    sample: Sample
    epoch: int
    messages: list[dict[str, str]] = field(default_factory=list)
    problem: str | None = None
    tokens: int = 0
    correct: bool | None = None

    @property
    def id(self) -> str:
        """Several samples of one question are several items, each with an id of its own."""
        return f"{self.sample.id}#{self.epoch}"

    @property
    def answer(self) -> str:
        """What the model said last."""
        return self.messages[-1]["content"]


#: A turn says what to ask next, from what was said so far.
Turn = Callable[[State], str]
Scorer = Callable[[State], bool]


@dataclass(frozen=True)
class Task:
    """What is asked, how, and what counts as right."""

    name: str
    dataset: Sequence[Sample]
    solver: Sequence[Turn]
    scorer: Scorer


async def evaluate(task: Task, runner: BatchRunner, model: str, epochs: int) -> list[State]:
    """Return every sample of every epoch with its score; `correct` is `None` without an answer."""
    states = [State(sample, epoch + 1) for epoch in range(epochs) for sample in task.dataset]
    for number, turn in enumerate(task.solver, 1):
        await generate(runner, states, turn, model, f"{task.name}-{model}-turn-{number}")
    for state in states:
        if state.problem is None:
            state.correct = task.scorer(state)
    return states


async def generate(
    runner: BatchRunner, states: Sequence[State], turn: Turn, model: str, run_id: str
) -> None:
    """Take one turn with all samples that are still in the game."""
    playing = [state for state in states if state.problem is None]
    for state in playing:
        state.messages.append({"role": "user", "content": turn(state)})
    items = [
        Item(s.id, {"model": model, "max_tokens": 500, "messages": s.messages}) for s in playing
    ]
    result = await runner.run(items, run_id=run_id)
    for state in playing:
        outcome = result[state.id]
        if outcome.status == "succeeded" and outcome.text and not outcome.truncated:
            state.messages.append({"role": "assistant", "content": outcome.text})
            state.tokens += outcome.usage.output_tokens if outcome.usage else 0
        else:
            state.problem = outcome.reason or outcome.stop_reason


# -- this eval ------------------------------------------------------------------------------------


def weekdays(limit: int) -> Iterator[Sample]:
    """Yield questions about dates that are spread over three centuries."""
    for number in range(limit):
        day = date(1800, 1, 1) + timedelta(days=number * 997)
        yield Sample(f"{day}", f"What weekday was {day:%B %d, %Y}?", DAYS[day.weekday()])


def ask(state: State) -> str:
    """Ask, with room to think."""
    return f"{state.sample.input} Think step by step."


def check(_: State) -> str:
    """Ask for a second look and for an answer that a program can read."""
    return "Check your calculation. End with one line: ANSWER: <weekday>"


def last_line(state: State) -> bool:
    """Compare the answer in the last line with the target."""
    found = re.findall(r"ANSWER:\s*(\w+)", state.answer)
    return bool(found) and found[-1].lower() == state.sample.target.lower()


def summary_of(states: Sequence[State]) -> dict[str, Any]:
    """Return accuracy and its standard error over samples, each the mean of its epochs."""
    scored: dict[str, list[bool]] = {}
    for state in states:
        if state.correct is not None:
            scored.setdefault(state.sample.id, []).append(state.correct)
    means = [statistics.fmean(values) for values in scored.values()]
    error = statistics.stdev(means) / len(means) ** 0.5 if len(means) > 1 else None
    return {
        "accuracy": statistics.fmean(means) if means else None,
        "stderr": error,
        "scored": sum(len(values) for values in scored.values()),
        "without_answer": sum(state.correct is None for state in states),
        "output_tokens": sum(state.tokens for state in states),
    }


async def main() -> int:
    """Run the eval; exit status 0 when every sample was scored, else 3."""
    parser = argparse.ArgumentParser(description="Evaluate how well a model knows weekdays.")
    parser.add_argument("--limit", type=int, default=100, help="questions (default: 100)")
    parser.add_argument("--epochs", type=int, default=1, help="times each is asked (default: 1)")
    parser.add_argument("--log", type=Path, default=Path("weekdays.json"))
    parser.add_argument("--store", default="evaluate.db")
    parser.add_argument("--model", default="claude-haiku-5-5")
    parser.add_argument("--poll-interval", type=float, default=60.0, metavar="SECONDS")
    options = parser.parse_args()

    task = Task("weekdays", list(weekdays(options.limit)), [ask, check], last_line)
    polling = Polling(interval=options.poll_interval)
    async with BatchRunner(store=options.store, polling=polling) as runner:
        states = await evaluate(task, runner, options.model, options.epochs)

    results = summary_of(states)
    samples = [asdict(state) for state in states]
    log = {"task": task.name, "model": options.model, "results": results, "samples": samples}
    options.log.write_text(json.dumps(log, indent=1))
    for name, value in results.items():
        print(f"{name:>15}  {value:.3f}" if isinstance(value, float) else f"{name:>15}  {value}")
    print(f"every sample with its messages: {options.log}")
    return 3 if results["without_answer"] else 0


if __name__ == "__main__":
    raise SystemExit(asyncio.run(main()))
