"""The table that the benchmarks print."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

HEAD = ("row", "what", "figure", "target", "")


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """
    One line of the table.

    Attributes:
        row: Name of the row it belongs to.
        what: What was measured.
        figure: What came out.
        target: What it is to be, empty where nothing is asked of it.
        met: Whether it is.
    """

    row: str
    what: str
    figure: str
    target: str = ""
    met: bool = True

    def cells(self) -> tuple[str, ...]:
        """Return the cells of the line."""
        verdict = ("met" if self.met else "missed") if self.target else ""
        return (self.row, self.what, self.figure, self.target, verdict)

    def without_target(self) -> Line:
        """Return the line for a size at which its target means nothing."""
        return replace(self, target="")


def at_most(row: str, what: str, figure: float, most: float, form: str = "{:.2f}") -> Line:
    """Return a line whose figure must not be above *most*."""
    told = f"at most {form.format(most)}"
    return Line(row=row, what=what, figure=form.format(figure), target=told, met=figure <= most)


def at_least(row: str, what: str, figure: float, least: float, form: str = "{:.2f}") -> Line:
    """Return a line whose figure must not be below *least*."""
    told = f"at least {form.format(least)}"
    return Line(row=row, what=what, figure=form.format(figure), target=told, met=figure >= least)


def markdown(lines: Iterable[Line]) -> str:
    """Return the table as Markdown that can also be read as it is."""
    return _table([HEAD, *(line.cells() for line in lines)])


def _table(rows: Sequence[tuple[str, ...]]) -> str:
    widths = [max(len(row[place]) for row in rows) for place in range(len(HEAD))]
    told = [_line(row, widths) for row in rows]
    told.insert(1, "|" + "|".join("-" * (width + 2) for width in widths) + "|")
    return "\n".join(told)


def _line(row: tuple[str, ...], widths: Sequence[int]) -> str:
    cells = (cell.ljust(width) for cell, width in zip(row, widths, strict=True))
    return "| " + " | ".join(cells) + " |"
