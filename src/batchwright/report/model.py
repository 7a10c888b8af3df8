"""
`RunReport`: the JSON that stands for a run when the process is gone.

These are its shapes only; `build` fills them, `validate` reads them back.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Final, Literal, TypeAlias

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field

#: Version of the report's shape.
REPORT_VERSION: Final = 1
#: Items that did not succeed are listed up to this many; how many are left out is told.
LISTED: Final = 100_000

Count: TypeAlias = Annotated[int, Field(ge=0)]
#: USD, or `None` where the price of one of the models is unknown: never 0 for that.
Usd: TypeAlias = Annotated[float, Field(ge=0)] | None
Path: TypeAlias = Literal["batch", "sync", "cache"]
NotSucceeded: TypeAlias = Literal["quarantined", "rejected", "unresolved"]
Outcome: TypeAlias = Literal["succeeded", "quarantined", "rejected", "unresolved"]


class Part(BaseModel):
    """A part of a report: frozen, and nothing in it is unknown."""

    model_config: ClassVar[ConfigDict] = ConfigDict(frozen=True, extra="forbid")


# -- what was asked ---------------------------------------------------------------------------


class TalkingReport(Part):
    """What was talked to."""

    org: str
    base_url: str
    api_version: str


class WorkloadReport(Part):
    """What kind of work it was: the kind that batches are for."""

    offline: bool = Field(description="nobody waited for a single answer")
    latency_tolerant: bool = Field(description="an answer may take until its batch expires")
    streaming: bool = Field(description="an item asked for a stream of its answer")
    user_waiting: bool = Field(description="a person waited for the answers")
    one_by_one: bool = Field(description="items were asked one after the other")


class LimitsReport(Part):
    """How sub-batches are cut; see `ShardLimits`."""

    max_requests: int = Field(ge=1)
    max_bytes: int = Field(ge=1)
    max_live: int | None
    concurrency: int = Field(ge=1)


class PollingReport(Part):
    """How batches are watched, in seconds; see `Polling`."""

    interval: float
    grace: float | None = Field(description="none: without end")


class RetryReport(Part):
    """How items and calls are tried; see `RetryBudget`."""

    max_attempts: int = Field(ge=1)
    call_attempts: int = Field(ge=1)
    backoff: float
    max_backoff: float


class SyncReport(Part):
    """Bounds of direct calls, for each org; see `SyncLimits`."""

    concurrency: int = Field(ge=1)
    max_bytes: int = Field(ge=1)
    rpm: float | None


class OptionsReport(Part):
    """The options of the latest wave."""

    limits: LimitsReport
    polling: PollingReport
    retry: RetryReport
    sync: SyncReport
    store: str


class AskedReport(Part):
    """What was asked: the items and the options, of the latest wave where they changed."""

    models: dict[str, Count] = Field(description="items by the model they ask for")
    attempt_cap: int = Field(description="tries of one item: the highest of all waves", ge=1)
    on_changed: Literal["error", "rerun", "keep"]
    replaced: bool = Field(description="whether a changed question may have replaced a stored one")
    workload: WorkloadReport


class IdExample(Part):
    """One item's ids. `position`: its place by first appearance in the run."""

    position: Count
    id: str
    custom_id: str


class IdsReport(Part):
    """How the ids on the wire are made."""

    pattern: str = Field(description="what every custom_id matches")
    derived_from: list[str] = Field(description="what a custom_id is made of, and nothing else")
    examples: list[IdExample]


# -- what happened ----------------------------------------------------------------------------


class ErrorReport(Part):
    """The error the API (or the intake) gave."""

    type: str
    message: str
    request_id: str | None
    code: str | None


class ItemReport(Part):
    """An item that did not succeed."""

    id: str
    custom_id: str
    status: NotSucceeded
    reason: str = Field(description="for items without an outcome yet: waiting or in_flight")
    error: ErrorReport | None
    attempts: Count
    via: Path | None
    org: str | None
    batch_id: str | None


class NotSucceededReport(Part):
    """Every item that did not succeed, in the order of first appearance."""

    total: Count
    unlisted: Count = Field(description="how many are left out of `listed`")
    listed: list[ItemReport]


class PutBackReport(Part):
    """How often items were put back to be sent again, for one reason."""

    reason: str | None = Field(description="none: given back without a fault, for the other path")
    after: Count = Field(description="tries used of the budget by then")
    items: Count


class StatusReport(Part):
    """One `processing_status` of a batch as it was seen."""

    status: str
    first_at: AwareDatetime
    last_at: AwareDatetime
    looks: int = Field(ge=1)


class LinesReport(Part):
    """The result lines of a batch at its last complete reading, by type; each id once."""

    succeeded: Count
    errored: Count
    canceled: Count
    expired: Count
    other: Count = Field(description="lines of a type that this version does not know")
    none: Count = Field(description="items sent in the batch that have no line")


class ResultsReport(Part):
    """What the lines of a batch, or direct answers, meant for their items."""

    succeeded: Count
    quarantined: Count
    rejected: Count
    unresolved: Count
    again: Count = Field(description="to be sent again")


class BatchReport(Part):
    """One sub-batch and its batch on the server."""

    shard: int = Field(ge=1)
    wave: Count
    org: str
    state: Literal["planned", "sending", "live", "ended", "done", "held"]
    reason: str | None
    batch_id: str | None
    count: int = Field(ge=1)
    size: int = Field(description="bytes of the request body", ge=0)
    planned_at: AwareDatetime
    sent_at: AwareDatetime | None = Field(description="when the intent to send it was made durable")
    created_at: AwareDatetime | None = Field(description="by the server")
    expires_at: AwareDatetime | None = Field(description="by the server")
    ended_at: AwareDatetime | None = Field(description="by the server")
    done_at: AwareDatetime | None = Field(description="when its results were read to the end")
    polls: Count
    statuses: list[StatusReport]
    canceled_by: str | None
    counts: dict[str, Count] | None = Field(description="the server's final request_counts")
    lines: LinesReport | None
    results: ResultsReport | None
    late: Count = Field(description="answers that came after another one, at the last reading")
    stored_before: Count = Field(description="answers that an earlier reading had stored already")
    rereads: Count = Field(description="readings that were begun again")
    adopted: bool = Field(description="taken over after its create got no answer, not proved yet")
    recovered: bool = Field(description="found on the server when a lost store was rebuilt")


class DirectReport(Part):
    """What went to direct calls, in groups of items claimed together."""

    groups: Count
    asked: Count = Field(description="items claimed")
    results: ResultsReport
    first_at: AwareDatetime | None
    last_at: AwareDatetime | None


class ProjectionReport(Part):
    """When a path was projected to finish, in seconds from then."""

    low: float | None
    likely: float | None
    high: float | None
    source: str
    steady: bool


class SwitchReport(Part):
    """A move of a wave's remainder to direct calls, with what was known when it was decided."""

    wave: Count
    reason: str
    share: float = Field(ge=0, le=1)
    decided_at: AwareDatetime
    remaining: Count = Field(description="items without an outcome at that moment")
    drain: str
    race: bool
    batch_finish: ProjectionReport
    sync_finish: ProjectionReport
    premium: float | None = Field(description="USD more than by batches; null where unknown")
    live: Count = Field(description="batches alive at that moment")
    ended: Count = Field(description="batches of the wave that had ended")


class AnomalyReport(Part):
    """Something about the results of a batch that should not be."""

    shard: int = Field(ge=1)
    batch_id: str | None
    kind: Literal["missing", "unknown", "doubled", "torn", "miscounted", "reread"]
    count: int = Field(ge=1)
    examples: list[str]


# -- what it took -----------------------------------------------------------------------------


class TokensReport(Part):
    """Tokens of the answers that came through one path from one model."""

    via: Path
    model: str
    answers: Count
    input: Count
    output: Count
    cache_write: Count
    cache_read: Count
    usd: Usd


class PathCost(Part):
    """What the answers of one path took."""

    answers: Count
    input: Count
    output: Count
    cache_write: Count
    cache_read: Count
    usd: Usd


class CostReport(Part):
    """Money by path, in USD; an unknown price makes a sum unknown, never smaller."""

    usd: Usd = Field(description="all answers, waste included")
    known_usd: float = Field(description="the sum over the models with a price", ge=0)
    unknown_models: list[str] = Field(description="models without a price")
    by_path: dict[Path, PathCost] = Field(description="without waste")
    waste_usd: Usd
    direct_usd: Usd = Field(description="what the answers of all paths would cost by direct calls")


class PointReport(Part):
    """Answers by path up to a moment, waste left out."""

    at: AwareDatetime
    batch: Count
    sync: Count


class EvidenceReport(Part):
    """One way in which the books balance, or do not: two counts that must stand so."""

    rule: str = Field(description="the rule of the contract that it speaks for")
    claim: str
    relation: Literal["equal", "at most"]
    found: Count
    expected: Count
    holds: bool


# -- the whole --------------------------------------------------------------------------------


class RunReport(Part):
    """What was asked, what happened, and what it took; all numbers are of the whole run."""

    kind: Literal["run"] = "run"
    version: Literal[1] = REPORT_VERSION
    run_id: str = Field(min_length=1)
    created_at: AwareDatetime
    reported_at: AwareDatetime
    complete: bool = Field(description="whether every item succeeded")
    waves: Count
    items: Count
    asked: AskedReport
    policy: str
    options: OptionsReport
    talking_to: list[TalkingReport]
    outcomes: dict[Outcome, Count]
    waiting: Count = Field(description="among the unresolved: not under way")
    in_flight: Count = Field(description="among the unresolved: under way")
    reasons: dict[str, Count] = Field(description="items that did not succeed, where one is known")
    truncated: Count = Field(description="succeeded answers that were cut off")
    refused: Count = Field(description="succeeded answers in which the model declined")
    not_succeeded: NotSucceededReport
    put_back: list[PutBackReport]
    ids: IdsReport
    batches: list[BatchReport]
    direct: DirectReport | None
    switches: list[SwitchReport]
    stopped_by: list[str] = Field(description="why orgs were stopped in the last wave")
    tokens: list[TokensReport]
    waste: list[TokensReport] = Field(description="answers that came after another one")
    cost: CostReport
    anomalies: list[AnomalyReport]
    evidence: list[EvidenceReport]
    over_time: list[PointReport]
    results_kept_until: AwareDatetime | None = Field(
        description="when the API drops the oldest results: 29 days after creation"
    )


def shape(model: type[BaseModel]) -> Mapping[str, Any]:
    """Return the JSON Schema of what *model* writes."""
    return model.model_json_schema(mode="serialization")
