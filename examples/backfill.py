"""
Fill in a summary for every row of a large file, without holding file or answers in memory.

ROWS.jsonl has one `{"id": …, "text": …}` a line. The answers go to OUT.jsonl, one line per row, in
the order of the rows; the file appears when it is whole. Run the same command again after a crash,
or the next night with more rows: only rows without an answer are sent.

It is to be done within eight hours: batches do it at half price while they are projected to be in
time, and direct calls do the rest where they are not.

    export ANTHROPIC_API_KEY=…
    python examples/backfill.py ROWS.jsonl OUT.jsonl
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
from collections.abc import AsyncIterator
from pathlib import Path

from batchwright import BatchRunner, Deadline, Item, Polling


async def items(rows: Path, model: str) -> AsyncIterator[Item]:
    """Yield one request per row; an asynchronous generator could as well read a database."""
    with rows.open(encoding="utf-8") as lines:
        for line in lines:
            row = json.loads(line)
            prompt = f"Summarize in one sentence:\n\n{row['text']}"
            yield Item(
                str(row["id"]),
                {
                    "model": model,
                    "max_tokens": 300,
                    "messages": [{"role": "user", "content": prompt}],
                },
                metadata={"characters": len(row["text"])},
            )


async def main() -> int:
    """Run the backfill; exit status 0 when every row has its summary, else 3."""
    parser = argparse.ArgumentParser(description="Summarize every row of a JSONL file.")
    parser.add_argument("rows", type=Path, help="JSONL with an id and a text on each line")
    parser.add_argument("out", type=Path, help="JSONL that is written, a line per row")
    parser.add_argument("--within", type=float, default=8.0, metavar="HOURS")
    parser.add_argument("--store", default="backfill.db")
    parser.add_argument("--model", default="claude-haiku-5-5")
    parser.add_argument("--poll-interval", type=float, default=60.0, metavar="SECONDS")
    options = parser.parse_args()
    if not options.rows.is_file():
        parser.error(f"there is no file {options.rows}")

    runner = BatchRunner(
        store=options.store,
        policy=Deadline(options.within * 3600),
        polling=Polling(interval=options.poll_interval),
    )
    result = await runner.run(items(options.rows, options.model), run_id="backfill", collect=False)
    written = result.to_jsonl(options.out)

    print(f"{written} lines in {options.out}: {result.summary()}")
    async for outcome in result:
        if outcome.status == "succeeded" and outcome.truncated:
            print(f"cut off at max_tokens: {outcome.id}", file=sys.stderr)
    return 0 if result.complete else 3


if __name__ == "__main__":
    raise SystemExit(asyncio.run(main()))
