"""
Judge a few hundred texts: a score and a reason for each, checked against a pydantic model.

The texts are docstrings of the standard library, so that the program runs as it is; put your own
in `texts()`. Run it again at any time: what has an answer is not sent again.

    export ANTHROPIC_API_KEY=…
    python examples/judge.py

Without a key, let a second terminal run `batchwright simulate` and point the SDK at it
(the simulated model echoes the text, so every verdict is rejected, and you see how that looks):

    ANTHROPIC_BASE_URL=http://127.0.0.1:8788 ANTHROPIC_API_KEY=simulator python examples/judge.py
"""

from __future__ import annotations

import argparse
import asyncio
import importlib
import inspect
from collections import Counter
from collections.abc import Iterator

from pydantic import BaseModel, Field

from batchwright import BatchRunner, Item, Polling, RunResult

MODULES = ["argparse", "asyncio", "collections", "datetime", "decimal", "email", "json", "logging"]
MODULES += ["pathlib", "random", "sqlite3", "ssl", "statistics", "string", "threading", "zipfile"]

QUESTION = """\
How clear is this piece of documentation to somebody who does not know the module?
Answer with one JSON object and nothing else: {{"score": 1 to 5, "reason": "one sentence"}}

{text}"""


class Verdict(BaseModel):
    """What the judge has to say; an answer that does not parse as this is rejected."""

    score: int = Field(ge=1, le=5)
    reason: str = Field(min_length=1)


def texts() -> Iterator[tuple[str, str]]:
    """Yield (id, text). The id comes from the thing itself, so it is the same in the next run."""
    for module_name in MODULES:
        module = importlib.import_module(module_name)
        for name, thing in sorted(vars(module).items()):
            text = inspect.getdoc(thing) if callable(thing) else None
            if text and not name.startswith("_"):
                yield f"{module_name}.{name}", text[:2_000]


def items(model: str) -> Iterator[Item]:
    """Yield one request for each text."""
    for text_id, text in texts():
        messages = [{"role": "user", "content": QUESTION.format(text=text)}]
        yield Item(text_id, {"model": model, "max_tokens": 200, "messages": messages})


def show(result: RunResult) -> None:
    """Print the scores, and everything that did not succeed with its reason."""
    verdicts = {
        outcome.id: Verdict.model_validate_json(outcome.text)
        for outcome in result.outcomes
        if outcome.status == "succeeded"
    }
    scores = Counter(verdict.score for verdict in verdicts.values())
    print("score  texts")
    for score in range(1, 6):
        print(f"{score:>5}  {scores[score]:>5}")
    print(f"\n{result.summary()}")
    for outcome in (*result.quarantined, *result.rejected, *result.unresolved):
        why = " ".join(outcome.error.message.split())[:120] if outcome.error else ""
        print(f"  {outcome.id}: {outcome.status}, {outcome.reason}: {why}")


async def main() -> int:
    """Run the judge; exit status 0 when every text has a verdict, else 3."""
    parser = argparse.ArgumentParser(description="Judge documentation texts.")
    parser.add_argument("--store", default="judge.db")
    parser.add_argument("--model", default="claude-haiku-5-5")
    parser.add_argument("--poll-interval", type=float, default=60.0, metavar="SECONDS")
    options = parser.parse_args()

    polling = Polling(interval=options.poll_interval)
    async with BatchRunner(store=options.store, validate=Verdict, polling=polling) as runner:
        result = await runner.run(items(options.model), run_id="judge")
    show(result)
    return 0 if result.complete else 3


if __name__ == "__main__":
    raise SystemExit(asyncio.run(main()))
