"""
Rows of a data frame as plain dicts, whether pandas or polars holds it; neither is imported.
"""

from __future__ import annotations

import difflib
import math
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Protocol, TypeAlias

from batchwright.errors import IntakeError

#: One row: values by column name; `None` where there is none.
Row: TypeAlias = dict[str, Any]


class DataFrame(Protocol):
    """A `pandas.DataFrame` or a `polars.DataFrame`."""

    @property
    def columns(self) -> Any:
        """The names of the columns."""


class Table:
    """A frame, read row by row; nothing of it is copied as a whole."""

    def __init__(self, frame: Any) -> None:
        """
        Look at what *frame* is.

        Raises:
            IntakeError: It is no data frame of a kind that is known.
        """
        self._frame = frame
        self._is_polars = hasattr(frame, "iter_rows")
        if not self._is_polars and not hasattr(frame, "itertuples"):
            lazy = "; collect() it first" if hasattr(frame, "collect") else ""
            raise IntakeError(
                f"a pandas or polars DataFrame is needed, not a {type(frame).__name__}{lazy}"
            )
        self.names: list[Any] = list(frame.columns)

    def check(self, name: object, option: str) -> None:
        """
        Make sure that there is one column *name*, which *option* asked for.

        Raises:
            IntakeError: There is not; the message names the columns there are.
        """
        if self.names.count(name) == 1:
            return
        if name in self.names:
            raise IntakeError(f"{option}: there are several columns {name!r}; rename them")
        index = getattr(self._frame, "index", None)
        if name is not None and name in list(getattr(index, "names", ())):
            raise IntakeError(
                f"{option}: {name!r} is the index and not a column; pass frame.reset_index()"
            )
        near = difflib.get_close_matches(str(name), map(str, self.names), n=1)
        hint = f"; did you mean {near[0]!r}?" if near else ""
        raise IntakeError(
            f"{option}: there is no column {name!r}; the columns are "
            f"{', '.join(map(repr, self.names)) or 'none'}{hint}"
        )

    def rows(self, names: Sequence[str] | None = None) -> Iterator[Row]:
        """Yield the rows in order, with all columns or only *names*."""
        wanted = list(dict.fromkeys(self.names if names is None else names))
        if not wanted:
            yield from ({} for _ in range(len(self._frame)))
            return
        for values in self._tuples(wanted):
            yield dict(zip(wanted, map(_plain, values), strict=True))

    def _tuples(self, names: list[str]) -> Iterator[tuple[Any, ...]]:
        if self._is_polars:
            yield from self._frame.select(names).iter_rows()
        else:
            yield from zip(*(_present(self._frame[name]) for name in names), strict=True)


def _present(column: Any) -> Iterator[Any]:
    """Yield the values of a pandas column, `None` for each of the ways it has to miss one."""
    there: Iterable[bool] = column.notna()
    return (value if known else None for value, known in zip(column, there, strict=True))


def _plain(value: Any) -> Any:
    return None if isinstance(value, float) and math.isnan(value) else value
