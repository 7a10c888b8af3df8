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

    org: str = Field(description="label of the org")
    base_url: str = Field(description="where the API was asked")
    api_version: str = Field(description="the `anthropic-version` in force")


class WorkloadReport(Part):
    """What kind of work it was: the kind that batches are for."""

    offline: bool = Field(description="nobody waited for a single answer")
    latency_tolerant: bool = Field(description="an answer may take until its batch expires")
    streaming: bool = Field(description="an item asked for a stream of its answer")
    user_waiting: bool = Field(description="a person waited for the answers")
    one_by_one: bool = Field(description="items were asked one after the other")


class LimitsReport(Part):
    """How sub-batches are cut; see `ShardLimits`."""

    max_requests: int = Field(description="requests in one sub-batch", ge=1)
    max_bytes: int = Field(description="bytes of its body", ge=1)
    max_live: int | None = Field(
        description="batches alive at once; null: as many as the API takes"
    )
    concurrency: int = Field(description="creates at once", ge=1)


class PollingReport(Part):
    """How batches are watched, in seconds; see `Polling`."""

    interval: float = Field(description="between two looks at a batch")
    grace: float | None = Field(description="waited for after its expiry; null: without end")


class RetryReport(Part):
    """How items and calls are tried; see `RetryBudget`."""

    max_attempts: int = Field(description="tries of one item", ge=1)
    call_attempts: int = Field(description="tries of one API call", ge=1)
    backoff: float = Field(description="first wait, in seconds")
    max_backoff: float = Field(description="longest wait, in seconds")


class SyncReport(Part):
    """Bounds of direct calls, for each org; see `SyncLimits`."""

    concurrency: int = Field(description="calls at once", ge=1)
    max_bytes: int = Field(description="bytes of one request", ge=1)
    rpm: float | None = Field(description="calls a minute; null: as the API allows")


class OptionsReport(Part):
    """The options of the latest wave."""

    limits: LimitsReport = Field(description="how sub-batches are cut")
    polling: PollingReport = Field(description="how batches are watched")
    retry: RetryReport = Field(description="how items and calls are tried")
    sync: SyncReport = Field(description="bounds of direct calls")
    store: str = Field(description="how the store is called")


class AskedReport(Part):
    """What was asked: the items and the options, of the latest wave where they changed."""

    models: dict[str, Count] = Field(description="items by the model they ask for")
    attempt_cap: int = Field(description="tries of one item: the highest of all waves", ge=1)
    on_changed: Literal["error", "rerun", "keep"] = Field(
        description="what a changed question under a known id means"
    )
    replaced: bool = Field(description="whether a changed question may have replaced a stored one")
    workload: WorkloadReport = Field(description="what kind of work it was")


class IdExample(Part):
    """One item's ids. `position`: its place by first appearance in the run."""

    position: Count = Field(description="its place by first appearance in the run")
    id: str = Field(description="the caller's id")
    custom_id: str = Field(description="the id on the wire")


class IdsReport(Part):
    """How the ids on the wire are made."""

    pattern: str = Field(description="what every custom_id matches")
    derived_from: list[str] = Field(description="what a custom_id is made of, and nothing else")
    examples: list[IdExample] = Field(description="a few items, spread over the run")


# -- what happened ----------------------------------------------------------------------------


class ErrorReport(Part):
    """The error the API (or the intake) gave."""

    type: str = Field(description="the API's error type, or ours")
    message: str = Field(description="its text")
    request_id: str | None = Field(description="the API's request id")
    code: str | None = Field(description="the API's `error_code`")


class ItemReport(Part):
    """An item that did not succeed."""

    id: str = Field(description="the caller's id")
    custom_id: str = Field(description="the id on the wire")
    status: NotSucceeded = Field(description="the outcome")
    reason: str = Field(
        description="why; without an outcome yet it is waiting or in_flight, in the report that a "
        "run hands back account or interrupted"
    )
    error: ErrorReport | None = Field(description="the API's error, where there was one")
    attempts: Count = Field(description="tries over all waves, paths and restarts")
    via: Path | None = Field(description="the path that answered")
    org: str | None = Field(description="the org that answered, or that holds the batch")
    batch_id: str | None = Field(description="the batch that answered, or that holds the item")


class NotSucceededReport(Part):
    """Every item that did not succeed, in the order of first appearance."""

    total: Count = Field(description="how many did not succeed")
    unlisted: Count = Field(description="how many are left out of `listed`")
    listed: list[ItemReport] = Field(
        description="the first of them, by first appearance in the run"
    )


class PutBackReport(Part):
    """How often items were put back to be sent again, for one reason."""

    reason: str | None = Field(description="null: given back without a fault, for the other path")
    after: Count = Field(description="tries used of the budget by then")
    items: Count = Field(description="how often that happened")


class StatusReport(Part):
    """One `processing_status` of a batch as it was seen."""

    status: str = Field(description="as the server named it")
    first_at: AwareDatetime = Field(description="when it was seen first, on the server's clock")
    last_at: AwareDatetime = Field(description="when it was seen last")
    looks: int = Field(description="how often it was seen", ge=1)


class LinesReport(Part):
    """The result lines of a batch at its last complete reading, by type; each id once."""

    succeeded: Count = Field(description="the model answered")
    errored: Count = Field(description="the request failed")
    canceled: Count = Field(description="canceled before it was sent to the model")
    expired: Count = Field(description="expired before it was sent to the model")
    other: Count = Field(description="lines of a type that this version does not know")
    none: Count = Field(description="items sent in the batch that have no line")


class ResultsReport(Part):
    """What the lines of a batch, or direct answers, meant for their items."""

    succeeded: Count = Field(description="kept")
    quarantined: Count = Field(description="the item is at fault")
    rejected: Count = Field(description="refused by the caller's `validate`")
    unresolved: Count = Field(description="no answer, and no further try")
    again: Count = Field(description="to be sent again")


class BatchReport(Part):
    """One sub-batch and its batch on the server."""

    shard: int = Field(description="number within the run, from 1", ge=1)
    wave: Count = Field(description="the wave that cut it")
    org: str = Field(description="label of the org that sends or sent it")
    state: Literal["planned", "sending", "live", "ended", "done", "held"] = Field(
        description="where it stands"
    )
    reason: str | None = Field(description="why it is held, or was given up")
    batch_id: str | None = Field(description="the server's id")
    count: int = Field(description="its items", ge=1)
    size: int = Field(description="bytes of the request body", ge=0)
    planned_at: AwareDatetime = Field(description="when it was cut, on this machine's clock")
    sent_at: AwareDatetime | None = Field(description="when the intent to send it was made durable")
    created_at: AwareDatetime | None = Field(description="by the server")
    expires_at: AwareDatetime | None = Field(description="by the server")
    ended_at: AwareDatetime | None = Field(description="by the server")
    done_at: AwareDatetime | None = Field(description="when its results were read to the end")
    polls: Count = Field(description="how often it was looked at")
    statuses: list[StatusReport] = Field(description="what was seen, in order")
    canceled_by: str | None = Field(description="who asked for its cancel: user, overdue or drain")
    counts: dict[str, Count] | None = Field(description="the server's final request_counts")
    lines: LinesReport | None = Field(description="what its results held")
    results: ResultsReport | None = Field(description="what they meant")
    late: Count = Field(description="answers that came after another one, at the last reading")
    stored_before: Count = Field(description="answers that an earlier reading had stored already")
    rereads: Count = Field(description="readings that were begun again")
    adopted: bool = Field(description="taken over after its create got no answer, not proved yet")
    recovered: bool = Field(description="found on the server when a lost store was rebuilt")


class DirectReport(Part):
    """What went to direct calls, in groups of items claimed together."""

    groups: Count = Field(description="how many")
    asked: Count = Field(description="items claimed")
    results: ResultsReport = Field(description="what the answers meant")
    first_at: AwareDatetime | None = Field(
        description="when the first group was claimed, on this machine's clock"
    )
    last_at: AwareDatetime | None = Field(
        description="when the last one was done, on the server's clock"
    )


class ProjectionReport(Part):
    """When a path was projected to finish, in seconds from then."""

    low: float | None = Field(description="the hopeful end")
    likely: float | None = Field(description="the best guess")
    high: float | None = Field(description="the cautious end")
    source: str = Field(description="what it rests on")
    steady: bool = Field(description="whether the work ends evenly over that time")


class SwitchReport(Part):
    """A move of a wave's remainder to direct calls, with what was known when it was decided."""

    wave: Count = Field(description="the wave that switched")
    reason: str = Field(description="the policy's")
    share: float = Field(description="how much of the remainder was moved, from 0 to 1", ge=0, le=1)
    decided_at: AwareDatetime = Field(description="when")
    remaining: Count = Field(description="items without an outcome at that moment")
    drain: str = Field(description="how batches are given up: progressive or all")
    race: bool = Field(description="whether items were asked while their batch might still answer")
    batch_finish: ProjectionReport = Field(description="when batches would have finished")
    sync_finish: ProjectionReport = Field(description="when direct calls would finish")
    premium: float | None = Field(description="USD more than by batches; null where unknown")
    live: Count = Field(description="batches alive at that moment")
    ended: Count = Field(description="batches of the wave that had ended")


class AnomalyReport(Part):
    """Something about the results of a batch that should not be."""

    shard: int = Field(description="the sub-batch", ge=1)
    batch_id: str | None = Field(description="its batch")
    kind: Literal["missing", "unknown", "doubled", "torn", "miscounted", "reread"] = Field(
        description="what is odd"
    )
    count: int = Field(description="how often", ge=1)
    examples: list[str] = Field(description="some custom_ids")


# -- what it took -----------------------------------------------------------------------------


class TokensReport(Part):
    """Tokens of the answers that came through one path from one model."""

    via: Path = Field(description="the path")
    model: str = Field(description="the model that answered")
    answers: Count = Field(description="how many")
    input: Count = Field(description="tokens, without cached ones")
    output: Count = Field(description="tokens, with thinking")
    cache_write: Count = Field(description="tokens written to the prompt cache")
    cache_read: Count = Field(description="tokens read from it")
    usd: Usd = Field(description="what they cost; null where the price is unknown")


class PathCost(Part):
    """What the answers of one path took."""

    answers: Count = Field(description="how many")
    input: Count = Field(description="tokens, without cached ones")
    output: Count = Field(description="tokens, with thinking")
    cache_write: Count = Field(description="tokens written to the prompt cache")
    cache_read: Count = Field(description="tokens read from it")
    usd: Usd = Field(description="what they cost; null where a price is unknown")


class CostReport(Part):
    """Money by path, in USD; an unknown price makes a sum unknown, never smaller."""

    usd: Usd = Field(description="all answers, waste included")
    known_usd: float = Field(description="the sum over the models with a price", ge=0)
    unknown_models: list[str] = Field(description="models without a price")
    by_path: dict[Path, PathCost] = Field(description="without waste")
    waste_usd: Usd = Field(description="answers that came after another one")
    direct_usd: Usd = Field(
        description="what the answers that were paid for would cost by direct calls"
    )


class PointReport(Part):
    """Answers by path up to a moment, waste left out."""

    at: AwareDatetime = Field(description="the moment")
    batch: Count = Field(description="answers by batches up to then")
    sync: Count = Field(description="answers by direct calls up to then")


class EvidenceReport(Part):
    """One way in which the books balance, or do not: two counts that must stand so."""

    rule: str = Field(description="the rule of the contract that it speaks for")
    claim: str = Field(description="what is claimed")
    relation: Literal["equal", "at most"] = Field(description="how the two numbers must stand")
    found: Count = Field(description="the first number")
    expected: Count = Field(description="the second number")
    holds: bool = Field(description="whether they stand so")


# -- the whole --------------------------------------------------------------------------------


class RunReport(Part):
    """What was asked, what happened, and what it took; all numbers are of the whole run."""

    kind: Literal["run"] = Field(description="what kind of document this is")
    version: Literal[1] = Field(description="of this shape")
    run_id: str = Field(description="name of the run", min_length=1)
    created_at: AwareDatetime = Field(description="when the run was first opened")
    reported_at: AwareDatetime = Field(description="when this was written")
    complete: bool = Field(description="whether every item succeeded")
    waves: Count = Field(description="calls of run and resume so far")
    items: Count = Field(description="how many the run has")
    asked: AskedReport = Field(description="what was asked")
    policy: str = Field(description="name of the policy of the latest wave")
    options: OptionsReport = Field(description="of the latest wave")
    talking_to: list[TalkingReport] = Field(description="everything that was talked to")
    outcomes: dict[Outcome, Count] = Field(
        description="items by outcome; what has none yet is unresolved"
    )
    waiting: Count = Field(description="among the unresolved: not under way")
    in_flight: Count = Field(description="among the unresolved: under way")
    reasons: dict[str, Count] = Field(description="items that did not succeed, where one is known")
    truncated: Count = Field(description="succeeded answers that were cut off")
    refused: Count = Field(description="succeeded answers in which the model declined")
    not_succeeded: NotSucceededReport = Field(description="every item that did not succeed")
    put_back: list[PutBackReport] = Field(description="what was sent again, and why")
    ids: IdsReport = Field(description="how custom_ids are made")
    batches: list[BatchReport] = Field(description="every sub-batch")
    direct: DirectReport | None = Field(description="what went to direct calls; null: nothing")
    switches: list[SwitchReport] = Field(description="each move of a remainder to direct calls")
    stopped_by: list[str] = Field(description="why orgs were stopped in the last wave")
    tokens: list[TokensReport] = Field(description="of the answers that count")
    waste: list[TokensReport] = Field(description="answers that came after another one")
    cost: CostReport = Field(description="money")
    anomalies: list[AnomalyReport] = Field(description="what should not be about results")
    evidence: list[EvidenceReport] = Field(description="sums that show that the books balance")
    over_time: list[PointReport] = Field(description="answers by path, at most 241 points")
    results_kept_until: AwareDatetime | None = Field(
        description="when the API drops the oldest results: 29 days after creation"
    )


def shape(model: type[BaseModel]) -> Mapping[str, Any]:
    """Return the JSON Schema of what *model* writes."""
    return model.model_json_schema(mode="serialization")
