"""
Add columns to a table: what each review is about, and in which mood it was written.

IN.csv has a column of ids and a column of texts. OUT.csv has all its columns and rows, and beside
them `topic`, `mood` and `problem`, which says why where there is no answer. Rows and answers are
joined by id, so the table may be sorted, filtered or longer the next time: only rows without an
answer are sent.

    export ANTHROPIC_API_KEY=…
    python examples/enrich.py reviews.csv enriched.csv --id review_id --text body

The answers follow a schema, and pydantic checks them. Needs pandas.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
from pathlib import Path
from typing import Literal

import anthropic
import pandas as pd
from pydantic import BaseModel, Field

from batchwright import BatchRunner, IntakeError, Polling, items_from_dataframe, to_dataframe

PROMPT = "Say what this review is about, in one to three words, and its mood.\n\n"


class Facts(BaseModel):
    """What is added to a row."""

    topic: str = Field(min_length=1)
    mood: Literal["pleased", "neutral", "annoyed"]


def enriched(table: pd.DataFrame, answers: pd.DataFrame, key: str) -> pd.DataFrame:
    """Return *table* with the new columns; every row of it stays."""
    good = answers[answers["status"] == "succeeded"]
    facts = pd.DataFrame(
        [Facts.model_validate_json(text).model_dump() for text in good["text"]],
        columns=list(Facts.model_fields),
        index=good.index,
    )
    reasons = answers["reason"].where(answers["status"] != "succeeded")
    ids = answers["id"].rename(key)
    added = pd.concat([ids, facts, reasons.rename("problem")], axis=1)
    return table.merge(added, on=key, how="left")


async def main() -> int:
    """Enrich the table; exit status 0 when every row has its answer, else 3; 2 on bad input."""
    parser = argparse.ArgumentParser(description="Add topic and mood to a CSV file of reviews.")
    parser.add_argument("table", type=Path, metavar="IN.csv")
    parser.add_argument("out", type=Path, metavar="OUT.csv")
    parser.add_argument("--id", default="id", help="column of the ids (default: id)")
    parser.add_argument("--text", default="text", help="column of the texts (default: text)")
    parser.add_argument("--store", default="enrich.db")
    parser.add_argument("--model", default="claude-haiku-5-5")
    parser.add_argument("--poll-interval", type=float, default=60.0, metavar="SECONDS")
    options = parser.parse_args()
    if not options.table.is_file():
        parser.error(f"there is no file {options.table}")

    # As text: 007 stays 007, and an empty field stays empty.
    table = pd.read_csv(options.table, dtype="string")
    schema = anthropic.transform_schema(Facts)
    try:
        items = items_from_dataframe(
            table,
            id=options.id,
            prompt=f"{PROMPT}{{{options.text}}}",
            params={
                "model": options.model,
                "max_tokens": 200,
                "output_config": {"format": {"type": "json_schema", "schema": schema}},
            },
        )
        runner = BatchRunner(
            store=options.store,
            validate=Facts,
            polling=Polling(interval=options.poll_interval),
        )
        result = await runner.run(items, run_id="enrich")
    except IntakeError as error:
        print(f"{options.table}: {error}", file=sys.stderr)
        return 2

    frame = enriched(table, to_dataframe(result, "pandas"), options.id)
    frame.to_csv(options.out, index=False)
    print(f"{len(frame)} rows in {options.out}: {result.summary()}")
    print(frame["mood"].value_counts().to_string())
    return 0 if result.complete else 3


if __name__ == "__main__":
    raise SystemExit(asyncio.run(main()))
