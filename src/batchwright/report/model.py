"""
`RunReport`: the JSON that stands for a run when the process is gone.

Built from the store alone, so that any process can write it at any time.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from batchwright.events import Talking
from batchwright.store import ItemState, RunInfo, Shard, Spent

#: Version of the report's shape.
REPORT_VERSION = 1


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class TokensReport(_Part):
    """Tokens of the answers that came through one path from one model."""

    via: Literal["batch", "sync", "cache"]
    model: str
    answers: int
    input: int
    output: int
    cache_write: int
    cache_read: int


class BatchReport(_Part):
    """One sub-batch and its batch on the server."""

    shard: int
    wave: int
    org: str
    state: str
    reason: str | None
    batch_id: str | None
    count: int
    size: int = Field(description="bytes of the request body")
    planned_at: datetime
    sent_at: datetime | None
    created_at: datetime | None
    expires_at: datetime | None
    ended_at: datetime | None
    done_at: datetime | None
    polls: int
    canceled_by: str | None
    counts: dict[str, int] | None


class TalkingReport(_Part):
    """What was talked to."""

    org: str
    base_url: str
    api_version: str


class RunReport(_Part):
    """What was asked, what happened, and what it took; all numbers are of the whole run."""

    version: int = REPORT_VERSION
    run_id: str
    created_at: datetime
    reported_at: datetime
    complete: bool
    waves: int
    items: int
    outcomes: dict[str, int]
    reasons: dict[str, int]
    truncated: int = Field(description="succeeded answers that were cut off")
    refused: int = Field(description="succeeded answers in which the model declined")
    tokens: list[TokensReport]
    waste: list[TokensReport] = Field(description="answers that came after another one")
    batches: list[BatchReport]
    results_kept_until: datetime | None = Field(
        description="when the API drops the oldest results: 29 days after creation"
    )
    policy: str
    talking_to: list[TalkingReport]
    stopped_by: list[str] = Field(description="why orgs were stopped in the last wave")
    options: dict[str, Any]


def build_report(
    info: RunInfo,
    shards: Sequence[Shard],
    *,
    now: datetime,
    policy: str,
    talking_to: Iterable[Talking],
    stopped_by: Iterable[str] = (),
    options: Mapping[str, Any] | None = None,
    kept_until: datetime | None = None,
) -> RunReport:
    """Return the report of a run as it stands."""
    outcomes = outcome_counts(info)
    return RunReport(
        run_id=info.run_id,
        created_at=info.created_at,
        reported_at=now,
        complete=outcomes["succeeded"] == info.items,
        waves=info.wave,
        items=info.items,
        outcomes=outcomes,
        reasons=dict(info.reasons),
        truncated=info.truncated,
        refused=info.refused,
        tokens=[_tokens(spent) for spent in info.spent],
        waste=[_tokens(spent) for spent in info.waste],
        batches=[_batch(shard) for shard in shards],
        results_kept_until=kept_until,
        policy=policy,
        talking_to=[
            TalkingReport(org=t.org, base_url=t.base_url, api_version=t.api_version)
            for t in talking_to
        ],
        stopped_by=list(stopped_by),
        options=dict(options or {}),
    )


def outcome_counts(info: RunInfo) -> dict[str, int]:
    """Return the items by outcome; what waits or travels has none yet and counts as unresolved."""
    states = info.states
    return {
        "succeeded": states.get(ItemState.SUCCEEDED, 0),
        "quarantined": states.get(ItemState.QUARANTINED, 0),
        "rejected": states.get(ItemState.REJECTED, 0),
        "unresolved": sum(
            states.get(state, 0)
            for state in (ItemState.UNRESOLVED, ItemState.PENDING, ItemState.IN_FLIGHT)
        ),
    }


def _tokens(spent: Spent) -> TokensReport:
    return TokensReport(
        via=spent.via,
        model=spent.model,
        answers=spent.answers,
        input=spent.tokens.input,
        output=spent.tokens.output,
        cache_write=spent.tokens.cache_write,
        cache_read=spent.tokens.cache_read,
    )


def _batch(shard: Shard) -> BatchReport:
    return BatchReport(
        shard=shard.number,
        wave=shard.wave,
        org=shard.org,
        state=str(shard.state),
        reason=shard.reason,
        batch_id=shard.batch_id,
        count=shard.count,
        size=shard.size,
        planned_at=shard.planned_at,
        sent_at=shard.sent_at,
        created_at=shard.created_at,
        expires_at=shard.expires_at,
        ended_at=shard.ended_at,
        done_at=shard.done_at,
        polls=shard.polls,
        canceled_by=shard.cancel or None,
        counts=dict(shard.counts) if shard.counts is not None else None,
    )
