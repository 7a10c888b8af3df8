"""
What happened, as frozen values: the one source for logs, progress, traces, metrics and reports.

Every event names its run; those about a sub-batch name the shard (our number) and, once known, the
batch (the server's id). No event carries a prompt, an answer or a key.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import TypeAlias


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """Something that happened in a run."""

    run_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Talking:
    """What is being talked to, so that a simulator left in the environment is noticed."""

    org: str
    base_url: str
    api_version: str


@dataclass(frozen=True, slots=True, kw_only=True)
class IntakeProgressed(Event):
    """Items are being read; nothing is sent yet."""

    read: int


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitingForOwner(Event):
    """Another machine owned the run; its lease lapses in `left` seconds unless it shows life."""

    owner: str
    left: float


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerJoined(Event):
    """This process works on the run together with `others`, as its worker of this number."""

    worker: int
    others: int


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerLost(Event):
    """Another process shows no life any more; what it had claimed goes to those who are left."""

    worker: int
    owner: str
    certain: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Conducting(Event):
    """From now on this process cuts the sub-batches of the run and decides its switch."""

    wave: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RunStarted(Event):
    """A wave begins."""

    wave: int
    items: int
    waiting: int
    live: int
    policy: str
    store: str
    talking_to: tuple[Talking, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ShardPlanned(Event):
    """A sub-batch was cut. `size` is its request body in bytes."""

    shard: int
    org: str
    count: int
    size: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ShardSubmitted(Event):
    """The server has the sub-batch; its id is durable."""

    shard: int
    org: str
    batch_id: str
    count: int
    size: int
    expires_at: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ShardRefused(Event):
    """The server definitely did not take a create. `action` says what happens to its items."""

    shard: int
    org: str
    status: int | None
    error: str
    message: str
    action: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateUnknown(Event):
    """A create got no answer: it is looked up, and nothing of it is sent meanwhile."""

    shard: int
    org: str
    count: int
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateSettled(Event):
    """What became of a create without an answer: `adopted`, `never made`, or `not ours`."""

    shard: int
    org: str
    count: int
    verdict: str
    batch_id: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ShardHeld(Event):
    """A sub-batch's items wait for a person: `reason`, and `remedy` in words."""

    shard: int
    org: str
    batch_id: str | None
    count: int
    reason: str
    remedy: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CallRetried(Event):
    """An API call failed and is tried again after `wait` seconds."""

    org: str
    call: str
    attempt: int
    wait: float
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchPolled(Event):
    """A look at a batch. Counts say nothing before the end, so none are told."""

    shard: int
    org: str
    batch_id: str
    status: str
    age: float
    expires_in: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class PollFailed(Event):
    """A look at a batch failed; the next one is due in `wait` seconds."""

    shard: int
    org: str
    batch_id: str
    why: str
    wait: float


@dataclass(frozen=True, slots=True, kw_only=True)
class StatusUnknown(Event):
    """The server used a status this version does not know; the batch is waited for."""

    shard: int
    batch_id: str
    status: str


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchEnded(Event):
    """A batch has ended; this says nothing about its items."""

    shard: int
    org: str
    batch_id: str
    counts: Mapping[str, int]
    took: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadlineExceeded(Event):
    """A batch did not end by `expires_at` plus grace: canceled, harvested, held. An alarm."""

    shard: int
    org: str
    batch_id: str
    count: int
    expires_at: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchCanceled(Event):
    """A cancel was asked for. `by` is `user`, `overdue` or `drain`; `elsewhere` when not ours."""

    shard: int
    org: str
    batch_id: str
    by: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ItemsMerged(Event):
    """A chunk of result lines is durable."""

    shard: int
    batch_id: str | None
    succeeded: int = 0
    quarantined: int = 0
    rejected: int = 0
    unresolved: int = 0
    again: int = 0
    late: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ResultsReread(Event):
    """A result stream broke or fell short and is read again from its start."""

    shard: int
    org: str
    batch_id: str
    attempt: int
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Anomaly(Event):
    """Results did not match what was sent: `missing`, `unknown` or `doubled` ids."""

    shard: int
    batch_id: str
    kind: str
    count: int
    examples: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchHarvested(Event):
    """Everything a batch held is durable."""

    shard: int
    org: str
    batch_id: str
    lines: int


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchRecovered(Event):
    """A batch of a lost store was found on the server and read: `count` items waited for it."""

    shard: int
    org: str
    batch_id: str
    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchSkipped(Event):
    """A batch that may be of a lost store could not be looked into; `why` says what to do."""

    org: str
    batch_id: str
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ShardFailed(Event):
    """Something unforeseen stopped one sub-batch; the others go on, its state is kept."""

    shard: int
    org: str
    batch_id: str | None
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class OrgPaused(Event):
    """An account fault: nothing new is sent through this org in this wave."""

    org: str
    reason: str
    until: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AnsweredFromCache(Event):
    """So many waiting items took the answers of earlier runs; nothing is sent for them."""

    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ValidatorBroke(Event):
    """The caller's `validate` raised something else than a refusal; the answer is kept."""

    item: str
    error: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyBroke(Event):
    """The caller's policy raised; it is taken to stay, and asked again at the next tick."""

    error: str


@dataclass(frozen=True, slots=True, kw_only=True)
class WaveLooksWedged(Event):
    """No sub-batch has ended for long; what that means is the policy's and the reader's call."""

    quiet_for: float
    live: int
    remaining: int
    advice: str
    facts: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class SwitchDecided(Event):
    """The remainder of this wave moves to the sync path."""

    reason: str
    share: float
    remaining: int
    facts: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveBatch:
    """One live batch, for progress displays; `status` as last seen."""

    shard: int
    org: str
    batch_id: str
    count: int
    status: str
    created_at: datetime | None
    expires_at: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Progressed(Event):
    """
    Where every item stands now; the six numbers always sum to `total`.

    `waiting` and `in_flight` are not outcomes yet. Nothing inside a live batch is counted: the
    API keeps every request at `processing` until the whole batch has ended.
    """

    total: int
    waiting: int
    in_flight: int
    succeeded: int
    quarantined: int
    rejected: int
    unresolved: int
    live: tuple[LiveBatch, ...] = ()
    now: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class RunInterrupted(Event):
    """The run was stopped from outside; its state is saved."""

    live: int
    advice: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RunFailed(Event):
    """A call on the run raised. `error` is the name of the exception, which the caller gets."""

    error: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RunFinished(Event):
    """A wave returned."""

    wave: int
    items: int
    succeeded: int
    quarantined: int
    rejected: int
    unresolved: int
    reasons: Mapping[str, int]
    elapsed: float


Listener: TypeAlias = Callable[[Event], None]
