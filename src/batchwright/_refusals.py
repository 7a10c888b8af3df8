"""
Refused items counted by their reason: one mistake made in many items is one mistake.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from batchwright.errors import MassRefusal
from batchwright.store import NewItem

#: More than half refused for one reason is one mistake, once there are more than so many.
MASS_REFUSAL_ABOVE = 10
#: Kinds of refusals that are told apart; what is named in a message may differ in every item.
KINDS = 1_000
OTHER = "for other reasons"


@dataclass(slots=True)
class Refusals:
    """
    The refused items of one reading.

    Attributes:
        counts: How many, by kind.
        first: The first of each kind: its message and its id.
    """

    counts: Counter[str] = field(default_factory=Counter)
    first: dict[str, tuple[str, str]] = field(default_factory=dict)

    def count(self, row: NewItem) -> None:
        """Count *row*, which was refused."""
        assert row.refusal is not None, "only refused items are counted"
        kind = kind_of(row.refusal.message)
        if kind not in self.counts and len(self.counts) >= KINDS:
            kind = OTHER
        self.counts[kind] += 1
        self.first.setdefault(kind, (row.refusal.message, row.id))

    def verdict(self, passed: int) -> MassRefusal | None:
        """Return why a reading of *passed* items stops, or `None` where it goes on."""
        for kind, count in self.counts.most_common(2):
            if kind != OTHER and count > MASS_REFUSAL_ABOVE and count * 2 > passed:
                message, example = self.first[kind]
                return MassRefusal(message, count, passed, example)
        return None


def kind_of(message: str) -> str:
    """Return what refusals of one kind have in common: they differ in numbers and names."""
    return message.partition(":")[0].partition(" is ")[0][:120]
