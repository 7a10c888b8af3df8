"""
What one reading of a batch's results saw.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from batchwright._context import RESULT_OF
from batchwright.store import Settled, Settlement

#: Types of result lines that the API documents.
LINE_TYPES = ("succeeded", "errored", "canceled", "expired")


@dataclass(slots=True)
class Tally:
    """
    Counts of one reading; a line that comes twice is counted once.

    Attributes:
        lines: Lines of any kind.
        seen: Ids of this batch, whatever became of their lines.
        doubled: How often more than once, by id.
        unknown: Some ids that are not of this batch.
        strangers: Lines with such an id.
        torn: Lines that cannot be read.
        types: Lines of this batch by type.
        results: What they meant for their items.
        verdicts: What the store said to that.
    """

    lines: int = 0
    seen: set[str] = field(default_factory=set)
    doubled: Counter[str] = field(default_factory=Counter)
    unknown: list[str] = field(default_factory=list)
    strangers: int = 0
    torn: int = 0
    types: Counter[str] = field(default_factory=Counter)
    results: Counter[str] = field(default_factory=Counter)
    verdicts: Counter[Settled] = field(default_factory=Counter)

    def merged(self, said: Sequence[Settlement], settled: Sequence[Settled]) -> None:
        """Count what lines meant, and what the store said to it."""
        self.results.update(RESULT_OF[one.state] for one in said)
        self.verdicts.update(settled)

    def facts(self, sent: int) -> dict[str, Any]:
        """Return the counts as facts of a shard in which *sent* items were sent."""
        kinds = {kind: self.types[kind] for kind in LINE_TYPES}
        return {
            "lines": {
                **kinds,
                "other": self.types.total() - sum(kinds.values()),
                "none": sent - len(self.seen),
            },
            "results": {name: self.results[name] for name in RESULT_OF.values()},
            "late": self.verdicts["late"],
            "stored_before": self.verdicts["again"],
        }
