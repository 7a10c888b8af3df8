"""
What a validator finds: which rule is broken, where, and how.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """
    One breach of a rule.

    Attributes:
        rule: Id of the rule.
        place: Where in the document, such as `batches[3].ended_at`; `$` is the whole.
        problem: What is wrong there.
    """

    rule: str
    place: str
    problem: str

    def __str__(self) -> str:
        return f"{self.place}: {self.problem} ({self.rule})"


def place_of(path: Iterable[str | int]) -> str:
    """Return *path* as it is written: `batches[3].ended_at`."""
    text = ""
    for part in path:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else part
    return text or "$"
