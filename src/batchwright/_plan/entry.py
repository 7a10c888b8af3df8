"""
One entry of the caller's items: an item, or what is wrong with it, and where it stands.
"""

from __future__ import annotations

from dataclasses import dataclass

from batchwright.types import Item


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """
    One entry of the input.

    Attributes:
        position: In the input, from 0.
        line: In the file, from 1, where it is one.
        item: The item, `None` where it is none.
        fault: Why it is none.
    """

    position: int
    line: int | None = None
    item: Item | None = None
    fault: str = ""


class PositionWatch:
    """Tells whether ids only count the items up, however they are decorated."""

    def __init__(self) -> None:
        self._start: int | None = None
        self._stem = ""
        self._seen = 0
        self._counts_up = True

    def take(self, item_id: str) -> None:
        """Take in the next id."""
        if not self._counts_up:
            return
        stem = item_id.rstrip("0123456789")
        digits = item_id[len(stem) :]
        if self._start is None:
            self._start, self._stem = (int(digits) if digits.isdecimal() else -1), stem
        # Ids that count from elsewhere, such as keys of a database, are ids.
        self._counts_up = (
            self._start in {0, 1}
            and stem == self._stem
            and digits.isdecimal()
            and int(digits) == self._start + self._seen
        )
        self._seen += 1

    @property
    def suspicious(self) -> bool:
        """Whether all ids so far, more than one, counted up from 0 or 1."""
        return self._counts_up and self._seen > 1
