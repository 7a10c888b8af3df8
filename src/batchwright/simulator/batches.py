"""One batch: what is kept of it, and what it looks like at any moment of world time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from batchwright.simulator._seeded import fraction, shuffled
from batchwright.simulator._time import rfc3339
from batchwright.simulator.answers import Prompt
from batchwright.simulator.fates import Fate
from batchwright.simulator.params import Fault
from batchwright.simulator.settings import WorldSettings

Status = Literal["in_progress", "canceling", "ended"]
Outcome = Literal["succeeded", "errored", "canceled", "expired"]
_FINAL: tuple[Outcome, ...] = ("succeeded", "errored", "canceled", "expired")


@dataclass(frozen=True, slots=True)
class StoredRequest:
    """What is kept of one request: enough for its line, and no more.

    Attributes:
        custom_id: As sent.
        attempt: How often the stem of this custom id has been in a batch, from 1.
        model: The id that the answer carries.
        max_tokens: As sent.
        prompt: Echo and digest of the question; None where the params are faulty.
        fate: What becomes of it.
        fault: The fault of its params, if any: its line is `errored` then.
        params: The params, if the world keeps bodies.
    """

    custom_id: str
    attempt: int
    model: str
    max_tokens: int
    prompt: Prompt | None
    fate: Fate
    fault: Fault | None
    params: Mapping[str, Any] | None

    def natural(self) -> Outcome:
        """Return how it ends when nothing comes between."""
        if self.fault is not None:
            return "errored"
        return "expired" if self.fate.kind == "never" else self.fate.kind

    def waits(self, settings: WorldSettings) -> bool:
        """Say whether it is never done, and so keeps its batch open until `expires_at`."""
        kind = self.fate.kind
        return kind == "never" or (kind == "expired" and settings.expiry_waits)


@dataclass(slots=True, kw_only=True)
class Batch:
    """One batch; its state at a moment follows from these fields, nothing ticks.

    Attributes:
        id: `msgbatch_…`.
        workspace: Who may see it.
        created_at: World time; as all times here in seconds since the epoch.
        expires_at: When what has not been sent to a model expires.
        busy_until: When the last of its ordinary requests is done.
        ends_at: When all are done if nobody cancels; infinite if some never are.
        requests: In the order sent.
        seed: For the draws that concern this batch.
        tally: How the requests end when nothing comes between.
    """

    id: str
    workspace: str
    created_at: float
    expires_at: float
    busy_until: float
    ends_at: float
    requests: list[StoredRequest]
    settings: WorldSettings
    seed: int
    tally: Mapping[Outcome, int]
    cancel_initiated_at: float | None = None
    canceled_end: float | None = None
    deleted: bool = False
    _counts: dict[Outcome, int] | None = field(default=None, repr=False)

    def ended_at(self) -> float:
        """Return when it ends, as far as is known by now; may be infinite."""
        if self.canceled_end is not None:
            return self.canceled_end
        if self.settings.stuck:
            return float("inf")
        return min(self.ends_at, self.expires_at)

    def status(self, now: float) -> Status:
        """Return `processing_status` at a moment."""
        if now >= self.ended_at():
            return "ended"
        return "in_progress" if self.cancel_initiated_at is None else "canceling"

    def archived(self, now: float) -> bool:
        """Say whether the results are gone."""
        return now >= self.created_at + self.settings.archive_after

    def begin_cancel(self, now: float, drained_at: float) -> None:
        """Stop what has not been sent to a model; the rest drains until `drained_at`."""
        assert self.status(now) == "in_progress", "only a running batch can be canceled"
        self.cancel_initiated_at = now
        self.canceled_end = min(drained_at, max(now, self.ended_at()))

    def outcome(self, request: StoredRequest) -> Outcome:
        """Return how a request ends, given what is known by now."""
        natural = request.natural()
        done_at = self._done_at(request)
        if self.cancel_initiated_at is not None and done_at > self.cancel_initiated_at:
            in_flight = fraction(self.seed, self.id, request.custom_id, "in flight")
            return natural if in_flight < self.settings.cancel_in_flight else "canceled"
        return "expired" if done_at > self.expires_at else natural

    def _done_at(self, request: StoredRequest) -> float:
        if self.settings.stuck or self.settings.never_ends or request.waits(self.settings):
            return float("inf")
        share = fraction(self.seed, self.id, request.custom_id, "done")
        return self.created_at + share * (self.busy_until - self.created_at)

    def counts(self, now: float) -> dict[str, int]:
        """Return `request_counts`: all in processing until the whole batch has ended."""
        done: Mapping[Outcome, int] = {}
        if self.status(now) == "ended":
            done = self._final_counts()
        elif self.settings.live_counts:
            done = _tally(self.outcome(r) for r in self.requests if self._done_at(r) <= now)
        processing = len(self.requests) - sum(done.values())
        return {"processing": processing, **{name: done.get(name, 0) for name in _FINAL}}

    def _final_counts(self) -> dict[Outcome, int]:
        if self._counts is None:
            undisturbed = self.cancel_initiated_at is None and self.ends_at <= self.expires_at
            self._counts = (
                dict(self.tally)
                if undisturbed
                else _tally(self.outcome(request) for request in self.requests)
            )
            assert sum(self._counts.values()) == len(self.requests), "each request ends once"
        return self._counts

    def public(self, now: float, base_url: str) -> dict[str, Any]:
        """Return the API's object: exactly its ten keys, in the order of the wire."""
        status = self.status(now)
        ended, gone = status == "ended", self.archived(now)
        readable = ended and (not gone or self.settings.archived_url)
        return {
            "id": self.id,
            "type": "message_batch",
            "processing_status": status,
            "request_counts": self.counts(now),
            "ended_at": self._stamp(self.ended_at() if ended else None),
            "created_at": self._stamp(self.created_at),
            "expires_at": self._stamp(self.expires_at),
            "archived_at": self._stamp(
                self.created_at + self.settings.archive_after if gone else None
            ),
            "cancel_initiated_at": self._stamp(self.cancel_initiated_at),
            "results_url": f"{base_url}/v1/messages/batches/{self.id}/results"
            if readable
            else None,
        }

    def _stamp(self, moment: float | None) -> str | None:
        return None if moment is None else rfc3339(moment, self.settings.offset_suffix)

    def in_result_order(self) -> Iterator[StoredRequest]:
        """Yield the requests in the order of the result lines: the same on each reading."""
        for place in shuffled(len(self.requests), self.seed, self.id):
            yield self.requests[place]


def _tally(outcomes: Iterator[Outcome]) -> dict[Outcome, int]:
    counts: dict[Outcome, int] = {}
    for outcome in outcomes:
        counts[outcome] = counts.get(outcome, 0) + 1
    return counts
