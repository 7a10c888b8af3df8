"""
A run, its wave, its sub-batches and their two phases as OpenTelemetry spans.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from opentelemetry.trace import Span, Status, StatusCode, Tracer, set_span_in_context

from batchwright import events
from batchwright._clock import clock
from batchwright.events import Event

_OUTCOMES = ("succeeded", "quarantined", "rejected", "unresolved")
#: Fields of other events that are told as they are: ids, counts and codes.
_TOLD = (
    "shard",
    "org",
    "batch_id",
    "count",
    "status",
    "error",
    "action",
    "verdict",
    "by",
    "kind",
    "attempt",
    "call",
    "wait",
    "share",
    "remaining",
    "live",
    "quiet_for",
    "age",
)
#: Events whose fields of those names hold free text, which may quote what was asked.
_WORDY = {events.ShardRefused: {"action"}, events.ValidatorBroke: {"error"}}
_WORDY[events.PolicyBroke] = {"error"}
#: Too frequent to be told one by one; what they add up to stands in the spans.
_ROUTINE = (events.Progressed, events.ShardPlanned, events.PollFailed)


@dataclass(slots=True)
class _Shard:
    """A sub-batch under way: its span, and that of the phase it is in."""

    span: Span
    poll: Span | None = None
    harvest: Span | None = None
    sums: Counter[str] = field(default_factory=Counter)
    status: str | None = None


@dataclass(slots=True)
class _Run:
    """One call on a run."""

    span: Span
    wave: Span | None = None
    direct: int = 0
    shards: dict[int, _Shard] = field(default_factory=dict)
    #: Sub-batches whose span has ended; what is still heard of them belongs to the wave.
    done: set[int] = field(default_factory=set)


class Spans:
    """The open spans of all runs that are listened to."""

    def __init__(self, tracer: Tracer) -> None:
        self._tracer = tracer
        self._runs: dict[str, _Run] = {}

    def take(self, event: Event) -> None:
        """Take in an event."""
        match event:
            case events.IntakeProgressed():
                self._called(event)
            case events.RunStarted():
                self._started(event)
            case events.RunFinished():
                self._finished(event)
            case events.RunInterrupted():
                self._ended(event.run_id, "interrupted")
            case events.RunFailed():
                self._ended(event.run_id, event.error)
            case _:
                run = self._runs.get(event.run_id)
                if run is not None and run.wave is not None:
                    self._in_wave(run, run.wave, event)

    # -- a call and its wave ------------------------------------------------------------------

    def _called(self, event: Event) -> _Run:
        run = self._runs.get(event.run_id)
        if run is not None and run.wave is not None:
            # Its end was never told, so that call is over: one process makes one at a time.
            self._ended(event.run_id, "lost")
            run = None
        if run is None:
            # A child of the span in which the caller made the call.
            span = self._begin("run", None, run_id=event.run_id)
            run = self._runs[event.run_id] = _Run(span)
        return run

    def _started(self, event: events.RunStarted) -> None:
        run = self._called(event)
        run.wave = self._begin(
            "wave", run.span, run_id=event.run_id, wave=event.wave, policy=event.policy
        )

    def _finished(self, event: events.RunFinished) -> None:
        run = self._runs.get(event.run_id)
        if run is not None and run.wave is not None:
            run.wave.set_attributes(
                _named({"items": event.items, "direct": run.direct})
                | _named({name: getattr(event, name) for name in _OUTCOMES})
            )
        self._ended(event.run_id, None)

    def _ended(self, run_id: str, error: str | None) -> None:
        run = self._runs.pop(run_id, None)
        if run is None:
            return
        for number in list(run.shards):
            self._close(run, number, error)
        if run.wave is not None:
            _end(run.wave, error)
        _end(run.span, error)

    # -- sub-batches --------------------------------------------------------------------------

    def _in_wave(self, run: _Run, wave: Span, event: Event) -> None:
        match event:
            case events.ItemsMerged(batch_id=None):
                run.direct += sum(getattr(event, name) for name in _OUTCOMES)
            case events.ShardSubmitted():
                self._open(run, wave, event)
            case events.CreateSettled(verdict="adopted"):
                _tell(wave, event)
                self._open(run, wave, event)
            case _:
                number = getattr(event, "shard", None)
                if number is None or not self._of_shard(run, wave, number, event):
                    _tell(wave, event)

    def _of_shard(self, run: _Run, wave: Span, number: int, event: Event) -> bool:
        """Note what belongs to the spans of a sub-batch; tell whether nothing is left to tell."""
        if number in run.done:
            return False
        match event:
            case events.BatchPolled():
                shard = self._open(run, wave, event)
                shard.sums["looks"] += 1
                shard.status = event.status
            case events.PollFailed():
                self._open(run, wave, event).sums["failed_looks"] += 1
            case events.BatchEnded():
                self._harvesting(self._open(run, wave, event))
            case events.ItemsMerged():
                self._merged(self._open(run, wave, event), event)
            case events.BatchHarvested():
                self._open(run, wave, event).sums["lines"] = event.lines
                self._close(run, number, None)
            case events.ShardHeld():
                self._close(run, number, event.reason)
                return False
            case events.ShardFailed():
                self._close(run, number, "failed")
                return False
            case _:
                return False
        return True

    def _open(self, run: _Run, wave: Span, event: Any) -> _Shard:
        """Return the sub-batch, with a span from now on if it had none."""
        shard = run.shards.get(event.shard)
        if shard is None:
            about = {name: getattr(event, name, None) for name in ("org", "count", "size")}
            sent = isinstance(event, events.ShardSubmitted | events.CreateSettled)
            span = self._begin(
                "shard",
                wave,
                run_id=event.run_id,
                shard=event.shard,
                batch_id=event.batch_id,
                resumed=None if sent else True,
                **about,
            )
            poll = self._begin("poll", span, run_id=event.run_id, shard=event.shard)
            shard = run.shards[event.shard] = _Shard(span, poll)
        return shard

    def _harvesting(self, shard: _Shard) -> None:
        """Let the second phase begin."""
        self._polled(shard, None)
        if shard.harvest is None:
            shard.harvest = self._begin("harvest", shard.span)

    def _merged(self, shard: _Shard, event: events.ItemsMerged) -> None:
        self._harvesting(shard)
        for name in (*_OUTCOMES, "again"):
            shard.sums[name] += getattr(event, name)

    def _polled(self, shard: _Shard, error: str | None) -> None:
        if shard.poll is not None:
            shard.poll.set_attributes(
                _named({"looks": shard.sums["looks"], "failed_looks": shard.sums["failed_looks"]})
                | _named({"status": shard.status})
            )
            _end(shard.poll, error)
            shard.poll = None

    def _close(self, run: _Run, number: int, error: str | None) -> None:
        shard = run.shards.pop(number, None)
        run.done.add(number)
        if shard is None:
            return
        self._polled(shard, error)
        if shard.harvest is not None:
            names = ("lines", *_OUTCOMES, "again")
            shard.harvest.set_attributes(_named({name: shard.sums[name] for name in names}))
            _end(shard.harvest, error)
        _end(shard.span, error)

    def _begin(self, name: str, parent: Span | None, **about: Any) -> Span:
        context = None if parent is None else set_span_in_context(parent)
        return self._tracer.start_span(
            f"batchwright.{name}", context, attributes=_named(about), start_time=_now()
        )


def _tell(span: Span, event: Event) -> None:
    """Add an event to a span: its name, and of its fields the ids, counts and codes."""
    if isinstance(event, _ROUTINE):
        return
    wordy = _WORDY.get(type(event), set())
    about = {name: getattr(event, name, None) for name in _TOLD if name not in wordy}
    span.add_event(type(event).__name__, _named(about), timestamp=_now())


def _named(about: dict[str, Any]) -> dict[str, Any]:
    return {f"batchwright.{name}": value for name, value in about.items() if value is not None}


def _end(span: Span, error: str | None) -> None:
    if error is not None:
        span.set_status(Status(StatusCode.ERROR, error))
    span.end(end_time=_now())


def _now() -> int:
    """Return the time as OpenTelemetry counts it: nanoseconds since the epoch."""
    return int(clock().now().timestamp() * 1_000_000_000)
