"""
What stands now, and what was counted, as OpenTelemetry metrics.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import TypeAlias

from opentelemetry.metrics import Meter

from batchwright.events import (
    BatchEnded,
    BatchPolled,
    CallRetried,
    Event,
    ItemsMerged,
    Progressed,
    RunFinished,
    RunInterrupted,
    RunStarted,
    SwitchDecided,
)

_SETTLED = ("succeeded", "quarantined", "rejected", "unresolved")
_STATES = ("waiting", "in_flight", *_SETTLED)

#: What a number was last told as, by run and by what it counts; differences are recorded.
_Told: TypeAlias = dict[str, Mapping[str, int]]


class Meters:
    """The instruments, kept up to date by events."""

    def __init__(self, meter: Meter) -> None:
        self._items = meter.create_up_down_counter(
            "batchwright.items", "{item}", "Items of a run by where they stand."
        )
        self._live = meter.create_up_down_counter(
            "batchwright.batches.live", "{batch}", "Batches that have not ended."
        )
        self._oldest = meter.create_gauge(
            "batchwright.batches.oldest", "s", "Age of the oldest batch that has not ended."
        )
        self._calls = meter.create_counter(
            "batchwright.calls.retried", "{call}", "API calls that failed and were tried again."
        )
        self._retried = meter.create_counter(
            "batchwright.items.retried", "{item}", "Items that wait for another try."
        )
        self._switches = meter.create_counter(
            "batchwright.switches", "{switch}", "Waves whose remainder moved to direct calls."
        )
        self._states: _Told = {}
        self._batches: _Told = {}
        #: Ages of live batches as of the latest look, by the server's clock; by run.
        self._ages: dict[str, dict[str, float]] = {}

    def take(self, event: Event) -> None:
        """Take in an event."""
        self._count(event)
        match event:
            case RunStarted():
                for talk in event.talking_to:
                    about = {"batchwright.run_id": event.run_id, "batchwright.org": talk.org}
                    self._live.add(0, about)
            case BatchPolled():
                self._ages.setdefault(event.run_id, {})[event.batch_id] = event.age
                self._tell_oldest(event.run_id)
            case BatchEnded():
                self._ages.get(event.run_id, {}).pop(event.batch_id, None)
                self._tell_oldest(event.run_id)
            case Progressed():
                self._tell_states(event.run_id, {s: getattr(event, s) for s in _STATES})
                self._count_live(event.run_id, Counter(batch.org for batch in event.live))
                self._keep_ages(event)
            case RunFinished():
                self._tell_states(event.run_id, {s: getattr(event, s) for s in _SETTLED})
                self._nothing_live(event.run_id)
            case RunInterrupted():
                # They live on at the server, but nobody here knows how they fare.
                self._nothing_live(event.run_id)
            case _:
                pass

    def _count(self, event: Event) -> None:
        run = {"batchwright.run_id": event.run_id}
        match event:
            case ItemsMerged(again=again) if again:
                self._retried.add(again, run)
            case CallRetried(org=org, call=call):
                self._calls.add(1, {"batchwright.org": org, "batchwright.call": call})
            case SwitchDecided():
                self._switches.add(1, run)
            case _:
                pass

    def _tell_states(self, run_id: str, now: Mapping[str, int]) -> None:
        before = self._states.get(run_id, {})
        self._states[run_id] = now
        for state in _STATES:
            if change := now.get(state, 0) - before.get(state, 0):
                attributes = {"batchwright.run_id": run_id, "batchwright.state": state}
                self._items.add(change, attributes)

    def _keep_ages(self, event: Progressed) -> None:
        """Forget batches that are waited for no more, such as one that was given up."""
        live = {batch.batch_id for batch in event.live}
        ages = self._ages.get(event.run_id, {})
        self._ages[event.run_id] = {name: age for name, age in ages.items() if name in live}
        self._tell_oldest(event.run_id)

    def _tell_oldest(self, run_id: str) -> None:
        oldest = max(self._ages.get(run_id, {}).values(), default=0.0)
        self._oldest.set(oldest, {"batchwright.run_id": run_id})

    def _nothing_live(self, run_id: str) -> None:
        self._count_live(run_id, {})
        self._ages.pop(run_id, None)
        self._tell_oldest(run_id)

    def _count_live(self, run_id: str, now: Mapping[str, int]) -> None:
        before = self._batches.get(run_id, {})
        self._batches[run_id] = now
        for org in sorted({*before, *now}):
            if change := now.get(org, 0) - before.get(org, 0):
                attributes = {"batchwright.run_id": run_id, "batchwright.org": org}
                self._live.add(change, attributes)
