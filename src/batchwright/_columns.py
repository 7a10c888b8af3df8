"""
Outcomes column by column, and the frames that pandas and polars make of them; neither is imported.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from typing import Any

from batchwright._lines import tokens_of
from batchwright.types import Outcome, text_of

#: Columns of `to_dataframe` that hold text, and those that hold whole numbers.
_TEXTS = (
    "id",
    "status",
    "reason",
    "via",
    "org",
    "text",
    "stop_reason",
    "error_type",
    "error_message",
)
_NUMBERS = ("attempts", "input_tokens", "output_tokens")
#: The columns in their order.
COLUMNS = (
    "id",
    "status",
    "reason",
    "via",
    "org",
    "attempts",
    "text",
    "stop_reason",
    "input_tokens",
    "output_tokens",
    "error_type",
    "error_message",
)


class Columns:
    """Outcomes column by column; no answer is held but its text."""

    def __init__(self) -> None:
        self.known: dict[str, list[Any]] = {name: [] for name in COLUMNS}
        self._metadata: dict[str, list[Any]] = {}
        self._count = 0

    def take(self, outcome: Outcome) -> None:
        """Add a row."""
        answer = outcome.answer
        tokens = None if answer is None else tokens_of(answer)
        error = outcome.error
        row = {
            "id": outcome.id,
            "status": outcome.status,
            "reason": outcome.reason,
            "via": outcome.via,
            "org": outcome.org,
            "attempts": outcome.attempts,
            "text": None if answer is None else text_of(answer),
            "stop_reason": None if answer is None else answer.get("stop_reason"),
            "input_tokens": None if tokens is None else tokens.input,
            "output_tokens": None if tokens is None else tokens.output,
            "error_type": None if error is None else error.type,
            "error_message": None if error is None else error.message,
        }
        for name, values in self.known.items():
            values.append(row[name])
        about = outcome.metadata
        if about is not None:
            self._take_metadata(about if isinstance(about, Mapping) else {"metadata": about})
        self._count += 1

    def _take_metadata(self, about: Mapping[str, Any]) -> None:
        for key, value in about.items():
            values = self._metadata.setdefault(key, [])
            values.extend([None] * (self._count - len(values)))
            values.append(value)

    def metadata(self) -> Iterator[tuple[str, list[Any]]]:
        """Yield the columns of the metadata, each as long as the others."""
        taken = set(COLUMNS)
        for key, values in self._metadata.items():
            name = key
            while name in taken:
                name = f"metadata_{name}"
            taken.add(name)
            yield name, values + [None] * (self._count - len(values))


def pandas_frame(pandas: Any, columns: Columns) -> Any:
    """Return a `pandas.DataFrame`; *pandas* is the library."""
    kinds = {**dict.fromkeys(_TEXTS, "string"), **dict.fromkeys(_NUMBERS, "Int64")}
    known = {
        name: pandas.Series(values, dtype=kinds[name]) for name, values in columns.known.items()
    }
    return pandas.DataFrame(known | {n: _inferred(pandas, v) for n, v in columns.metadata()})


def _inferred(pandas: Any, values: list[Any]) -> Any:
    """Return a column whose whole numbers stay whole where some are missing."""
    kinds = {type(value) for value in values if value is not None}
    if len(kinds) == 1 and kinds <= {str, int, float, bool}:
        # Before version 3, numbers beyond 63 bits have no type of their own there.
        with contextlib.suppress(OverflowError):
            return pandas.array(values)
    return pandas.Series(values, dtype="object")


def polars_frame(polars: Any, columns: Columns) -> Any:
    """Return a `polars.DataFrame`; *polars* is the library."""
    kinds = {
        **dict.fromkeys(_TEXTS, polars.String),
        **dict.fromkeys(_NUMBERS, polars.Int64),
    }
    known = [
        polars.Series(name, values, dtype=kinds[name]) for name, values in columns.known.items()
    ]
    about = [polars.Series(name, values, strict=False) for name, values in columns.metadata()]
    return polars.DataFrame([*known, *about])
