"""
What a progress display shows, kept up to date by events; it draws nothing and asks no clock.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime

from batchwright.events import (
    BatchPolled,
    Event,
    IntakeProgressed,
    LiveBatch,
    Progressed,
    RunFinished,
    RunInterrupted,
    RunStarted,
)

#: Live batches that are shown one by one.
SHOWN = 10

#: Said while batches are out and nothing has come back.
NOTHING_YET = (
    "nothing to tell yet: the API says nothing about the requests of a batch before it has ended"
)

#: What `Progressed` counts, in the order of an item's life, with the words for it.
STATES = (
    ("waiting", "waiting"),
    ("in_flight", "in flight"),
    ("succeeded", "succeeded"),
    ("quarantined", "quarantined"),
    ("rejected", "rejected"),
    ("unresolved", "unresolved"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Watched(Event):
    """
    Somebody looked at a run from outside; no run says this of itself.

    Attributes:
        owner: Who works on it now, or `None`.
        note: What to know beyond that, such as how to go on; may be empty.
    """

    owner: str | None
    note: str


@dataclass(frozen=True, slots=True)
class BatchLine:
    """One live batch as shown; ages in seconds, `None` where nobody knows."""

    batch_id: str
    org: str
    count: int
    status: str
    age: float
    expires_in: float | None


@dataclass(frozen=True, slots=True)
class _Look:
    status: str
    age: float
    expires_in: float | None
    at: float


@dataclass(slots=True)
class Board:
    """The state of a display. All times passed in are seconds of one steady clock."""

    read: int = 0
    started: RunStarted | None = None
    progress: Progressed | None = None
    watched: Watched | None = None
    ended: RunFinished | RunInterrupted | None = None
    _progress_at: float = 0.0
    _looks: dict[str, _Look] = field(default_factory=dict)

    def take(self, event: Event, at: float) -> None:
        """Take in *event*, which came at *at*."""
        match event:
            case IntakeProgressed():
                self.read = event.read
            case RunStarted():
                self.started, self.ended = event, None
            case RunFinished() | RunInterrupted():
                self.ended = event
            case Watched():
                self.watched = event
            case Progressed():
                self.progress, self._progress_at = event, at
                alive = {batch.batch_id for batch in event.live}
                self._looks = {id_: look for id_, look in self._looks.items() if id_ in alive}
            case BatchPolled():
                # Told by the server's clock, which the machine's own may be far from.
                look = _Look(event.status, event.age, event.expires_in, at)
                self._looks[event.batch_id] = look
            case _:
                pass

    def counts(self) -> list[tuple[str, int]]:
        """Return the items by state, in words; they sum to the total."""
        progress = self.progress
        if progress is None:
            return []
        counts = [(words, int(getattr(progress, name))) for name, words in STATES]
        assert sum(count for _, count in counts) == progress.total, "every item is in one state"
        return counts

    def share_done(self) -> float:
        """Return which share of the items has an outcome."""
        progress = self.progress
        if progress is None or not progress.total:
            return 0.0
        return 1.0 - (progress.waiting + progress.in_flight) / progress.total

    def batches(self, at: float) -> list[BatchLine]:
        """Return the live batches as of *at*, the oldest first."""
        if self.progress is None:
            return []
        lines = [self._line(batch, at) for batch in self.progress.live]
        return sorted(lines, key=lambda line: -line.age)

    def _line(self, batch: LiveBatch, at: float) -> BatchLine:
        look = self._looks.get(batch.batch_id) or self._look_of(batch)
        since = max(at - look.at, 0.0)
        left = None if look.expires_in is None else look.expires_in - since
        return BatchLine(
            batch.batch_id, batch.org, batch.count, look.status, look.age + since, left
        )

    def _look_of(self, batch: LiveBatch) -> _Look:
        assert self.progress is not None, "a live batch came with it"
        age, left = age_and_rest(batch.created_at, batch.expires_at, self.progress.now)
        return _Look(batch.status, age, left, self._progress_at)

    def begins_anew(self, event: Event) -> bool:
        """Tell whether *event*, not taken in yet, belongs to a later call than what is shown."""
        if isinstance(event, IntakeProgressed):
            return self.started is not None or event.read <= self.read
        return isinstance(event, RunStarted) and self.started is not None

    def owned(self) -> str | None:
        """Return who works on the run, where it is looked at from outside."""
        if self.watched is None:
            return None
        owner, note = self.watched.owner, self.watched.note
        who = f"at work: {owner}" if owner else "nobody works on this run now"
        return f"{who}; {note}" if note else who

    def note(self) -> str | None:
        """Return what has to be said so that zeros are not misread."""
        progress = self.progress
        if progress is None or not progress.live:
            return None
        told = progress.succeeded + progress.rejected + progress.unresolved
        return None if told else NOTHING_YET


def age_and_rest(
    created_at: datetime | None, expires_at: datetime | None, now: datetime
) -> tuple[float, float | None]:
    """Return the age of a batch and the time it has left, in seconds, by this machine's clock."""
    if created_at is None:
        return 0.0, None if expires_at is None else (expires_at - now).total_seconds()
    # A server whose clock is ahead has just created it, and it still has its whole life before it.
    age = max((now - created_at).total_seconds(), 0.0)
    return age, None if expires_at is None else (expires_at - created_at).total_seconds() - age


def span(seconds: float | None) -> str:
    """Return a duration in two units at most: `3 h 12 min`."""
    if seconds is None:
        return "?"
    if seconds < 0:
        return f"{span(-seconds)} ago"
    if seconds < 60:
        return f"{seconds:.0f} s" if seconds >= 10 or seconds == 0 else f"{seconds:.1f} s"
    minutes, rest = divmod(int(seconds), 60)
    if minutes < 10:
        return f"{minutes} min {rest:02d} s"
    if minutes < 60:
        return f"{minutes} min"
    hours, minutes = divmod(minutes, 60)
    if hours < 48:
        return f"{hours} h {minutes:02d} min"
    return f"{hours // 24} d {hours % 24} h"


def told_items(count: int) -> str:
    """Return a number of items in words."""
    return counted(count, "item", "items")


def counted(count: int, one: str, many: str) -> str:
    """Return a number and what is counted: *one* of it, or *many*."""
    return f"{count:,} {one if count == 1 else many}"
