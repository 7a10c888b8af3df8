"""
When everything would be done by either path, and which path the policy begins with: pure.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from batchwright._plan.estimate import Range
from batchwright._plan.facts import Facts
from batchwright._plan.models import ModelPlan
from batchwright._plan.past import Known
from batchwright._prices import premium
from batchwright._projection import project_batch, project_sync
from batchwright.policy import Projection, Switch, WaveSnapshot

#: Requests that live batches of an account may hold at least: the queue of the lowest tier.
LEAST_QUEUE: Final = 200_000
#: Seconds that a direct call takes before the first token, and tokens a second after it: hopeful
#: and cautious.
QUICK: Final = (1.0, 150.0)
USUAL: Final = (2.0, 70.0)
SLOW: Final = (5.0, 30.0)
#: The API ends plain direct calls after so many seconds.
LONGEST: Final = 600.0

#: Sources of projections in the words of a plan.
_SAID: Final = {"the SLA": "the 24 hours that the API takes at most"}


@dataclass(frozen=True, slots=True)
class Times:
    """The times of one plan."""

    facts: Facts
    models: Sequence[ModelPlan]

    @property
    def batch(self) -> Range:
        """Seconds until the last batch has ended."""
        facts = self.facts
        projected = project_batch(facts.past.live, facts.to_send, store=facts.past.ages)
        least, most, note = self._rounds()
        likely = projected.likely
        return Range(
            low=_times(projected.low, least),
            likely=_times(likely, least) if likely is not None else None,
            high=_times(projected.high, most),
            source=_SAID.get(projected.source, projected.source) + note,
        )

    def _rounds(self) -> tuple[int, int, str]:
        """Return how often the queue must empty, at least and at most, and the words for it."""
        facts, limits = self.facts, self.facts.options.limits
        known = [limits.max_live * limits.max_requests] if limits.max_live is not None else []
        queues = [org.max_queued for org in facts.orgs]
        if None not in queues:
            known.append(sum(queue or 0 for queue in queues))
        room = min(known, default=LEAST_QUEUE * len(facts.orgs))
        rounds = max(math.ceil(facts.to_send / room), 1)
        note = f", in {rounds} rounds of {room:,} requests" if rounds > 1 else ""
        if known:
            return rounds, rounds, note
        return 1, rounds, f"{note} where the account holds no more at once" if note else ""

    @property
    def sync(self) -> Range:
        """Seconds until the last direct call is answered."""
        facts = self.facts
        if facts.past.rpm is not None:
            return _range(self._engines_view())
        if facts.to_send <= 0:
            return Range(low=0.0, likely=0.0, high=0.0, source="nothing to send")
        outputs = [model.outputs.times(1.0 / model.items) for model in self.models if model.items]
        low = self._at(QUICK, [output.low for output in outputs])
        likely = self._at(USUAL, [output.likely for output in outputs])
        high = self._at(SLOW, [output.high for output in outputs])
        width = facts.options.sync.concurrency * len(facts.orgs)
        return Range(
            low=low.low if low else None,
            likely=likely.low if likely else None,
            high=high.high if high else None,
            source=f"{width} calls at once of an assumed length; limits of the account not known",
        )

    def _at(self, pace: tuple[float, float], outputs: Sequence[float | None]) -> Projection | None:
        """Return the projection for calls of the longest of *outputs* tokens each."""
        known = [tokens for tokens in outputs if tokens is not None]
        if len(known) < len(outputs) or not known:
            return None
        first, speed = pace
        facts, limits = self.facts, self.facts.options.sync
        orgs = len(facts.orgs)
        return project_sync(
            facts.to_send,
            configured_rpm=limits.rpm * orgs if limits.rpm is not None else None,
            latency=min(first + max(known) / speed, LONGEST),
            concurrency=limits.concurrency * orgs,
        )

    def _engines_view(self) -> Projection:
        """Return what a run would project before its first call."""
        facts, limits = self.facts, self.facts.options.sync
        orgs = len(facts.orgs)
        return project_sync(
            facts.to_send + self._in_flight,
            stored=facts.past.rpm,
            configured_rpm=limits.rpm * orgs if limits.rpm is not None else None,
            concurrency=limits.concurrency * orgs,
        )

    @property
    def _in_flight(self) -> int:
        return sum(batch.count for batch in self.facts.past.live)

    def route(self) -> tuple[str, str]:
        """Return the path that the policy begins with, and its reason."""
        snapshot = self._snapshot()
        try:
            verdict = self.facts.options.policy.decide(snapshot)
        except Exception as error:
            return "batch", f"the policy broke: {error!r}"
        return ("sync" if isinstance(verdict, Switch) else "batch"), verdict.reason

    def _snapshot(self) -> WaveSnapshot:
        """Return what a run would show the policy before it sends anything."""
        facts = self.facts
        info = facts.past.info
        remaining = facts.to_send + self._in_flight
        extra = premium(remaining, info.spent if info is not None else (), at=facts.now)
        return WaveSnapshot(
            now=facts.now,
            started_at=facts.now,
            total=remaining + facts.reading.sums.known[Known.ANSWERED],
            waiting=facts.to_send,
            in_flight=self._in_flight,
            answered=facts.reading.sums.known[Known.ANSWERED],
            batches=tuple(facts.past.live),
            batch_finish=project_batch(facts.past.live, facts.to_send, store=facts.past.ages),
            sync_finish=self._engines_view(),
            premium=extra.usd,
            premium_ratio=extra.ratio,
            moment="start",
            tick=facts.options.polling.interval,
        )


def _range(projected: Projection) -> Range:
    return Range(
        low=projected.low,
        likely=projected.likely,
        high=projected.high,
        source=projected.source,
    )


def _times(value: float | None, factor: int) -> float | None:
    return None if value is None else value * factor
