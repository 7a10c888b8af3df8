"""
`PlanReport`: the JSON that says what a run would send, cost and take, before anything is sent.

It is under the same contract as the report of a run. What cannot be known before is a range with
the source that it rests on; an unknown price is unknown, never zero.
"""

from __future__ import annotations

from typing import Final, Literal

from pydantic import AwareDatetime, Field

from batchwright.report.model import (
    AskedReport,
    Count,
    IdsReport,
    OptionsReport,
    Part,
    TalkingReport,
)

#: Version of the plan's shape.
PLAN_VERSION: Final = 1
#: Items listed one by one, of each kind of trouble; all of them are counted.
LISTED: Final = 1_000


class RangeReport(Part):
    """A number that nobody knows yet: its ends, the best guess, and what they rest on."""

    low: float | None = Field(description="the hopeful end; null where nothing is known")
    likely: float | None = Field(description="the best guess; null where only bounds are known")
    high: float | None = Field(description="the cautious end; null where nothing bounds it")
    source: str = Field(description="what it rests on")


class LifecycleReport(Part):
    """What would be done with each sub-batch."""

    steps: list[str] = Field(description="in the order in which they are done")
    window: float = Field(description="seconds within which the API ends a batch")
    results_kept_days: int = Field(description="by the API, from the creation of a batch")


class PlannedItems(Part):
    """The items by what would become of them; the parts sum to `passed`."""

    passed: Count = Field(description="read from the input")
    new: Count = Field(description="not in the store: would be sent")
    waiting: Count = Field(description="in the store, without an answer: would be sent")
    changed: Count = Field(description="in the store under the same id with another question")
    cached: Count = Field(description="answered by an earlier run of the store: not sent")
    answered: Count = Field(description="in the store with their answer: not sent again")
    in_flight: Count = Field(description="inside a batch that is alive: not sent again")
    settled: Count = Field(description="in the store, quarantined or rejected: not sent again")
    held: Count = Field(description="in the store, sent again only on a person's word")
    refused: Count = Field(description="would not be sent: the item itself is at fault")
    duplicates: Count = Field(description="an id that came before")
    unusable: Count = Field(description="no item at all: no id, no params, not JSON")
    others: Count = Field(description="of the run, not passed now; those that wait go along")
    to_send: Count = Field(description="what the sub-batches hold")
    bound_to_fail: Count = Field(
        description="of those to be sent, items whose model is unknown or retired, or that ask for "
        "more tokens than their model gives"
    )


class Trouble(Part):
    """What is wrong with one item, where, and what to do."""

    id: str | None = Field(description="null where the entry has none")
    position: Count = Field(description="in the input, from 0")
    line: int | None = Field(description="in the file, from 1", ge=1)
    kind: str = Field(description="unusable, or the kind of refusal")
    message: str = Field(description="the place in the item, why, and the remedy")


class DuplicateReport(Part):
    """An id that came before."""

    id: str = Field(description="the caller's id")
    position: Count | None = Field(description="in the input, from 0; null where lines are known")
    first_position: Count | None = Field(description="where it came first, likewise")
    line: int | None = Field(description="in the file, from 1", ge=1)
    first_line: int | None = Field(description="where it came first, in the file", ge=1)


class RefusalKind(Part):
    """Items refused for one reason."""

    count: int = Field(description="items refused", ge=1)
    message: str = Field(description="of the first of them")
    example: str = Field(description="the id of the first of them")


class PlannedShard(Part):
    """A sub-batch as it would be cut."""

    number: int = Field(description="counted from 1", ge=1)
    count: int = Field(description="requests", ge=1)
    size: int = Field(description="bytes of the request body", ge=1)
    headers: dict[str, str] = Field(description="of the create; items that differ travel apart")


class PlannedModel(Part):
    """What one model would be asked."""

    model: str = Field(description="as the items name it")
    items: int = Field(description="items that would be sent to it", ge=1)
    standing: Literal["active", "deprecated", "retired", "unknown", "not asked"] = Field(
        description="what the API says of it"
    )
    retires: str | None = Field(description="when it is retired, as far as is known")
    source: str = Field(description="who says so")
    max_tokens: Count = Field(description="the most that an item asks for")
    ceiling: Count | None = Field(description="the most that the model gives")
    bound_to_fail: Count = Field(description="items that are known to fail")
    input: RangeReport = Field(description="tokens")
    output: RangeReport = Field(description="tokens")
    usd_batch: RangeReport = Field(description="USD by batches")
    usd_sync: RangeReport = Field(description="USD by direct calls")


class PlannedCost(Part):
    """What the answers would cost, USD; all null where a price is unknown."""

    batch: RangeReport = Field(description="by batches")
    sync: RangeReport = Field(description="by direct calls")
    unknown_models: list[str] = Field(description="models without a price")


class PlannedTokens(Part):
    """What would be used."""

    input: RangeReport = Field(description="tokens of the requests")
    output: RangeReport = Field(description="tokens of the answers, thinking included")
    counted: Count = Field(description="items whose tokens the API counted for this plan")


class FinishReport(Part):
    """When everything would be done, in seconds from the start."""

    batch: RangeReport = Field(description="until the last batch has ended")
    sync: RangeReport = Field(description="until the last direct call is answered")


class RouteReport(Part):
    """Which path the policy would begin with."""

    path: Literal["batch", "sync"] = Field(description="batches, or direct calls from the start")
    policy: str = Field(description="its name")
    reason: str = Field(description="in the words of the policy")


class StorePlan(Part):
    """What the store holds already; it was only read."""

    name: str = Field(description="without a password")
    exists: bool = Field(description="planning creates none")
    items: Count = Field(description="of this run")
    runs: Count = Field(description="in the store")
    live: Count = Field(description="batches of this run that are alive")
    owner: str | None = Field(description="who works on the run now")


class Remark(Part):
    """Something that a person should know; `kind` is stable, the text is not."""

    kind: str = Field(description="a stable word")
    message: str = Field(description="for people; the text may change")


class PlanReport(Part):
    """What would be sent and cost, what it would take, and what is wrong with the items."""

    kind: Literal["plan"] = "plan"
    version: Literal[1] = PLAN_VERSION
    run_id: str = Field(description="the run that would be run", min_length=1)
    planned_at: AwareDatetime = Field(description="by the clock of this machine")
    asked: AskedReport
    policy: str = Field(description="its name")
    options: OptionsReport
    talking_to: list[TalkingReport] = Field(description="what would be talked to")
    items: PlannedItems
    shards: list[PlannedShard] = Field(description="sub-batches as they would be cut")
    canary: Count = Field(description="items that would go ahead by direct call")
    route: RouteReport
    cost: PlannedCost
    tokens: PlannedTokens
    finish: FinishReport
    models: list[PlannedModel] = Field(description="the most used first")
    refusals: list[RefusalKind] = Field(description="by reason, the most frequent first")
    troubles: list[Trouble] = Field(
        description=f"refused and unusable items, the first {LISTED:,} of each"
    )
    duplicates: list[DuplicateReport] = Field(description=f"the first {LISTED:,}")
    stops: list[Remark] = Field(description="why a run would stop before it sends anything")
    remarks: list[Remark] = Field(description="what else a person should know")
    store: StorePlan
    ids: IdsReport
    ids_look_like_positions: bool = Field(
        description="the ids count the items up from 0 or 1: a change of order would mix them up"
    )
    lifecycle: LifecycleReport

    @property
    def sound(self) -> bool:
        """Whether a run would go ahead, and no item is known to fail."""
        failing = self.items.refused + self.items.bound_to_fail
        return not self.stops and not failing
