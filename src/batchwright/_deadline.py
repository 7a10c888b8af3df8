"""
The policy that buys direct calls only as late and as few as a deadline allows.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import ClassVar, Final

from batchwright._terms import check_number
from batchwright.errors import ConfigurationError
from batchwright.policy import Stay, Switch, Verdict, WaveSnapshot, compare, say_span, settled_by

#: Ticks until a verdict that needs no confirmation acts: the one now, and one that came late.
TICKS_TO_ACT: Final = 2
#: Ticks until a canceled sub-batch has ended and is read, so that its items can go.
TICKS_TO_CANCEL: Final = 5


@dataclass(frozen=True, slots=True)
class Deadline:
    """
    The cheapest way that is still done by *by*.

    It stays while the cautious end of the batch projection is in time. Otherwise it waits until
    the last moment at which direct calls, *safety* times as slow as projected, could still carry
    everything, and then moves the smallest share that makes it.

    Attributes:
        by: Aware datetime, or seconds from the start of the wave (`started_at`).
        safety: Factor on the projected time of direct calls, at least 1.
    """

    by: datetime | float
    safety: float = field(default=1.3, kw_only=True)

    #: Holding back for confirmations would be too late at the last moment.
    confirmations: ClassVar[int] = 1

    def __post_init__(self) -> None:
        if isinstance(self.by, datetime):
            if self.by.tzinfo is None or self.by.utcoffset() is None:
                raise ConfigurationError(
                    f"by must say its time zone, as in datetime(…, tzinfo=UTC), not {self.by!r}"
                )
        else:
            check_number("by", self.by, unit="seconds, or an aware datetime")
        check_number("safety", self.safety, least=1.0, unit="times")

    def decide(self, snapshot: WaveSnapshot) -> Verdict:
        """Return the verdict of the moment."""
        settled = settled_by(snapshot)
        if settled is not None:
            return settled
        left = self._left(snapshot)
        if snapshot.switched:
            return self._grow(snapshot, left)
        high = snapshot.batch_finish.high
        if high is not None and high <= left:
            return Stay(f"the batches are in time, {say_span(left)} are left: {compare(snapshot)}")
        sync = snapshot.sync_finish.likely
        if sync is None:
            return self._blind(snapshot, left)
        last = left - sync * self.safety - _reserve(snapshot)
        if last > 0:
            return Stay(f"direct calls are in time for another {say_span(last)}")
        return self._at_last(snapshot, left, sync)

    def _left(self, snapshot: WaveSnapshot) -> float:
        by = self.by
        at = by if isinstance(by, datetime) else snapshot.started_at + timedelta(seconds=by)
        return (at - snapshot.now).total_seconds()

    def _blind(self, snapshot: WaveSnapshot, left: float) -> Verdict:
        gone = (snapshot.now - snapshot.started_at).total_seconds()
        if left > gone:
            return Stay("how long direct calls would take is unknown; batches have half the time")
        return Switch(
            f"{say_span(max(left, 0.0))} are left, which is half of the time or less; how long "
            "direct calls would take is unknown"
        )

    def _at_last(self, snapshot: WaveSnapshot, left: float, sync: float) -> Verdict:
        share = self._share(snapshot, left)
        if share < 1.0 and share * sync * self.safety <= left:
            return Switch(f"a share is enough to be in time: {compare(snapshot)}", share)
        if sync <= left:
            return Switch(f"the last moment for direct calls: {compare(snapshot)}")
        batch = snapshot.batch_finish.likely
        if batch is not None and batch <= sync:
            return Stay(f"too late for direct calls, and batches are sooner: {compare(snapshot)}")
        if snapshot.moment == "start":
            # Both paths are needed: what is handed in now is given up just ahead of the pool.
            return Stay(f"too late for direct calls alone, so batches begin: {compare(snapshot)}")
        return Switch(
            f"too late for either path, {say_span(max(left, 0.0))} are left; everything that can "
            f"goes by direct calls: {compare(snapshot)}"
        )

    def _share(self, snapshot: WaveSnapshot, left: float) -> float:
        """Return the share that batches will not have carried by then, with the safety on it."""
        high = snapshot.batch_finish.high
        if high is None or not snapshot.batch_finish.steady or left <= 0 or high <= left:
            return 1.0
        return min(1.0, (1.0 - left / high) * self.safety)

    def _grow(self, snapshot: WaveSnapshot, left: float) -> Verdict:
        likely = snapshot.batch_finish.likely
        if likely is not None and likely <= left:
            return Stay("the share that switched is enough so far")
        return Switch(f"the share that switched is not enough: {compare(snapshot)}")


def _reserve(snapshot: WaveSnapshot) -> float:
    """Return the seconds from a verdict until its first item can leave."""
    return (TICKS_TO_ACT + TICKS_TO_CANCEL) * snapshot.tick
