"""
Everything that a plan is made of, gathered: what was read, remembered and asked.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from batchwright._options import Options
from batchwright._org import OrgLink
from batchwright._plan.inquiry import Answers
from batchwright._plan.past import Known, Past
from batchwright._plan.reading import Reading


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """
    What a plan is made of.

    Attributes:
        run_id: The run that would be run.
        options: Those of the runner.
        orgs: The accounts.
        past: What the store knows.
        has_store: Whether there is a store yet.
        reading: What was read.
        answers: What the API said.
        offline: Whether it was not to be asked.
        retirements: What the installed SDK knows of the end of models.
        now: The present.
    """

    run_id: str
    options: Options
    orgs: Sequence[OrgLink]
    past: Past
    has_store: bool
    reading: Reading
    answers: Answers
    offline: bool
    retirements: Mapping[str, str]
    now: datetime

    @property
    def to_send(self) -> int:
        """How many items the sub-batches would hold."""
        return self.past.waiting + sum(map(len, self.reading.sizes.values()))

    @property
    def others(self) -> int:
        """How many items of the run, not passed now, wait and go along."""
        sums = self.reading.sums
        return self.past.waiting - sums.known[Known.WAITING] - sums.changed_waiting

    @property
    def canary(self) -> int:
        """How many items would go ahead by direct call."""
        before = self.past.info.items if self.past.info is not None else 0
        many = 0 < self.options.canary < self.reading.sums.passed
        return len(self.reading.shapes) if many and not before else 0
