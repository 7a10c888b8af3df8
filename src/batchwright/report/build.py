"""
The report of a run, from its store alone: any process can write it at any time.

Answers are never read for it, only what did not succeed and what the store counts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from anyio.lowlevel import checkpoint

from batchwright._custom_ids import CUSTOM_ID_OF, CUSTOM_ID_PATTERN
from batchwright.report._evidence import evidence_of
from batchwright.report._money import cost_report, tokens_of
from batchwright.report._shards import anomalies_of, batches_of, direct_of, text_of
from batchwright.report._timeline import over_time
from batchwright.report.model import (
    LISTED,
    REPORT_VERSION,
    AskedReport,
    ErrorReport,
    IdExample,
    IdsReport,
    ItemReport,
    NotSucceeded,
    NotSucceededReport,
    Outcome,
    ProjectionReport,
    PutBackReport,
    RunReport,
    SwitchReport,
    TalkingReport,
    WorkloadReport,
)
from batchwright.status import kept_until
from batchwright.store import CheckpointStore, ItemState, Row, RunInfo, Shard

#: Rows read at once.
PAGE: Final = 1_000
#: The store is read again so often where another process changed it meanwhile.
TRIES: Final = 3
#: Items whose ids are shown, spread over the run.
EXAMPLES: Final = 5
#: Names of the facts that hold the switches, one for each wave that switched.
SWITCHES: Final = "switch/"


@dataclass(frozen=True, slots=True)
class Standing:
    """What a report is made of, read from a store."""

    info: RunInfo
    shards: Sequence[Shard]
    apart: Sequence[ItemReport]
    examples: Sequence[IdExample]


async def read_standing(
    store: CheckpointStore, run_id: str, *, listed: int = LISTED, open_reason: str | None = None
) -> Standing:
    """
    Read what stands about a run that exists.

    Where another process works on the run meanwhile, the parts are read again until they agree,
    a few times.

    Args:
        store: An open store.
        run_id: The run.
        listed: Most items that are listed because they did not succeed.
        open_reason: With which reason items are told that still wait or travel; `None` says which.
    """
    info = await _info(store, run_id)
    for _ in range(TRIES):
        shards = await store.read_shards(run_id)
        apart = await _apart(store, run_id, listed, open_reason)
        examples = await _examples(store, run_id, info.items)
        before, info = info, await _info(store, run_id)
        if before.states == info.states:
            break
    return Standing(info, shards, apart, examples)


async def _info(store: CheckpointStore, run_id: str) -> RunInfo:
    info = await store.read_run(run_id)
    assert info is not None, "a report is asked of a run that exists"
    return info


async def _apart(
    store: CheckpointStore, run_id: str, listed: int, open_reason: str | None
) -> list[ItemReport]:
    items: list[ItemReport] = []
    after = -1
    while len(items) < listed:
        size = min(PAGE, listed - len(items))
        page = await store.read_rows(run_id, after, size, succeeded=False, raw=False)
        if not page:
            break
        items += [_item(row, open_reason) for row in page]
        after = page[-1].position
        # A store that never waits would keep everybody else waiting.
        await checkpoint()
    return items


async def _examples(store: CheckpointStore, run_id: str, items: int) -> list[IdExample]:
    step = max(items // EXAMPLES, 1)
    rows: list[Row] = []
    for position in range(0, min(items, step * EXAMPLES), step):
        rows += await store.read_rows(run_id, position - 1, 1, raw=False)
    return [
        IdExample(position=row.seq, id=row.outcome.id, custom_id=row.outcome.custom_id)
        for row in rows
    ]


def build_report(
    standing: Standing,
    *,
    now: datetime,
    asked: Mapping[str, Any],
) -> RunReport:
    """
    Return the report of what stands.

    Args:
        standing: What was read.
        now: When the report is made.
        asked: What was asked, where the store does not tell: a run that never began.
    """
    info, shards = standing.info, standing.shards
    facts = {**asked, **info.facts}
    outcomes = outcome_counts(info)
    waste, spent = info.waste, info.spent
    report = RunReport(
        kind="run",
        version=REPORT_VERSION,
        run_id=info.run_id,
        created_at=info.created_at,
        reported_at=now,
        complete=outcomes["succeeded"] == info.items,
        waves=info.wave,
        items=info.items,
        asked=_asked(info, facts),
        policy=str(facts["policy"]),
        options=facts["options"],
        talking_to=[TalkingReport(**one) for one in facts["talked_to"]],
        outcomes=outcomes,
        waiting=info.states.get(ItemState.PENDING, 0),
        in_flight=info.states.get(ItemState.IN_FLIGHT, 0),
        reasons=dict(info.reasons),
        truncated=info.truncated,
        refused=info.refused,
        not_succeeded=_not_succeeded(standing),
        put_back=[
            PutBackReport(reason=row.reason or None, after=row.after, items=row.items)
            for row in info.put_back
        ],
        ids=IdsReport(
            pattern=CUSTOM_ID_PATTERN,
            derived_from=list(CUSTOM_ID_OF),
            examples=list(standing.examples),
        ),
        batches=batches_of(shards),
        direct=direct_of(shards),
        switches=_switches(info.facts),
        stopped_by=[text_of(why) for why in facts["stopped_by"]],
        tokens=tokens_of(spent, now),
        waste=tokens_of(waste, now),
        cost=cost_report(spent, waste, now),
        anomalies=anomalies_of(shards),
        evidence=[],
        over_time=over_time(info, shards),
        results_kept_until=kept_until(shards, unread_only=False),
    )
    return report.model_copy(update={"evidence": evidence_of(report)})


def outcome_counts(info: RunInfo) -> dict[Outcome, int]:
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


def _asked(info: RunInfo, facts: Mapping[str, Any]) -> AskedReport:
    return AskedReport(
        models={text_of(model): count for model, count in info.models.items() if count > 0},
        attempt_cap=facts["attempt_cap"],
        on_changed=facts["on_changed"],
        replaced=facts["replaced"],
        workload=WorkloadReport(
            offline=True,
            latency_tolerant=True,
            # Intake refuses what asks for a stream, and nothing here waits for a single answer.
            streaming=False,
            user_waiting=False,
            one_by_one=False,
        ),
    )


# -- items ------------------------------------------------------------------------------------


def _not_succeeded(standing: Standing) -> NotSucceededReport:
    info = standing.info
    total = info.items - info.states.get(ItemState.SUCCEEDED, 0)
    # Where another process went on meanwhile there may be items that were not counted yet.
    listed = list(standing.apart[:total])
    return NotSucceededReport(total=total, unlisted=total - len(listed), listed=listed)


def _item(row: Row, open_reason: str | None) -> ItemReport:
    outcome = row.outcome
    error = outcome.error
    waits = "in_flight" if row.state is ItemState.IN_FLIGHT else "waiting"
    status: NotSucceeded = "unresolved" if outcome.status == "succeeded" else outcome.status
    return ItemReport(
        id=outcome.id,
        custom_id=outcome.custom_id,
        status=status,
        reason=text_of(outcome.reason or open_reason or waits),
        error=None
        if error is None
        else ErrorReport(
            type=text_of(error.type),
            message=text_of(error.message),
            request_id=error.request_id,
            code=error.code,
        ),
        attempts=outcome.attempts,
        via=outcome.via,
        org=outcome.org,
        batch_id=outcome.batch_id,
    )


# -- the switch -------------------------------------------------------------------------------


def _switches(facts: Mapping[str, Any]) -> list[SwitchReport]:
    told = [value for name, value in facts.items() if name.startswith(SWITCHES)]
    return sorted((_switch(fact) for fact in told), key=lambda switch: switch.wave)


def _switch(fact: Mapping[str, Any]) -> SwitchReport:
    return SwitchReport(
        wave=fact["wave"],
        reason=text_of(fact["reason"]),
        share=fact["share"],
        decided_at=datetime.fromtimestamp(fact["decided_at"], UTC),
        remaining=fact["items"],
        drain=fact["drain"],
        race=fact["race"],
        batch_finish=_projection(fact["batch_finish"]),
        sync_finish=_projection(fact["sync_finish"]),
        premium=fact["premium"],
        live=fact["live"],
        ended=fact["ended"],
    )


def _projection(told: Mapping[str, Any]) -> ProjectionReport:
    return ProjectionReport(**{**told, "source": text_of(told["source"])})
