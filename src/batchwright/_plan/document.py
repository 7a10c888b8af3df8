"""
From the facts of a plan to its document: pure.
"""

from __future__ import annotations

from array import array
from collections import deque
from collections.abc import Iterator, Sequence

import orjson

from batchwright._custom_ids import CUSTOM_ID_OF, CUSTOM_ID_PATTERN
from batchwright._plan.estimate import UNKNOWN, Range, batch_cost, total
from batchwright._plan.facts import Facts
from batchwright._plan.models import ModelPlan, models_of
from batchwright._plan.past import Known
from batchwright._plan.reading import Double, Fault
from batchwright._plan.remarks import remarks_of, stops_of
from batchwright._plan.times import Times
from batchwright._projection import SLA
from batchwright._shards import cut_all
from batchwright.report.model import (
    AskedReport,
    IdExample,
    IdsReport,
    OptionsReport,
    TalkingReport,
    WorkloadReport,
)
from batchwright.report.plan import (
    DuplicateReport,
    FinishReport,
    LifecycleReport,
    PlannedCost,
    PlannedItems,
    PlannedModel,
    PlannedShard,
    PlannedTokens,
    PlanReport,
    RangeReport,
    RefusalKind,
    RouteReport,
    StorePlan,
    Trouble,
)
from batchwright.status import RETENTION

#: What happens to each sub-batch.
STEPS = ("intent stored", "create", "batch id stored", "poll processing_status", "results read")


def report_of(facts: Facts, shards: Sequence[PlannedShard]) -> PlanReport:
    """Return the document of a plan whose sub-batches are *shards*."""
    models = models_of(facts)
    times = Times(facts, models)
    path, reason = times.route()
    return PlanReport(
        run_id=facts.run_id,
        planned_at=facts.now,
        asked=_asked(facts, models),
        policy=facts.options.policy_name,
        options=OptionsReport(**facts.options.turned()),
        talking_to=[
            TalkingReport(
                org=org.label, base_url=org.gateway.base_url, api_version=org.gateway.api_version
            )
            for org in facts.orgs
        ],
        items=_items(facts, models),
        shards=list(shards),
        canary=facts.canary,
        route=RouteReport(
            path="sync" if path == "sync" else "batch",
            policy=facts.options.policy_name,
            reason=reason,
        ),
        cost=_cost(models),
        tokens=PlannedTokens(
            input=_tokens(total(model.inputs for model in models)),
            output=_tokens(total(model.outputs for model in models)),
            counted=facts.answers.counted,
        ),
        finish=FinishReport(batch=_range(times.batch), sync=_range(times.sync)),
        models=[_model(model) for model in models],
        refusals=_refusals(facts),
        troubles=[_trouble(fault) for fault in facts.reading.unusable + facts.reading.faults],
        duplicates=[_double(double) for double in facts.reading.doubles],
        stops=stops_of(facts),
        remarks=remarks_of(facts, models),
        store=StorePlan(
            name=facts.options.store_name,
            exists=facts.has_store,
            items=facts.past.info.items if facts.past.info is not None else 0,
            runs=facts.past.runs,
            live=len(facts.past.live),
            owner=facts.past.owner,
        ),
        ids=IdsReport(
            pattern=CUSTOM_ID_PATTERN,
            derived_from=list(CUSTOM_ID_OF),
            examples=[
                IdExample(position=position, id=item_id, custom_id=custom_id)
                for position, item_id, custom_id in facts.reading.examples
            ],
        ),
        ids_look_like_positions=facts.reading.positions.suspicious,
        lifecycle=LifecycleReport(steps=list(STEPS), window=SLA, results_kept_days=RETENTION.days),
    )


def _asked(facts: Facts, models: Sequence[ModelPlan]) -> AskedReport:
    info = facts.past.info
    before = info.facts if info is not None else {}
    asked = facts.options.asked(before, ())
    return AskedReport(
        models={model.name: model.items for model in models},
        attempt_cap=asked["attempt_cap"],
        on_changed=facts.options.on_changed,
        replaced=asked["replaced"],
        # What a planner is told to the contrary it refuses, and it reads no items then.
        workload=WorkloadReport(
            offline=True,
            latency_tolerant=True,
            streaming=False,
            user_waiting=False,
            one_by_one=False,
        ),
    )


def shards_of(facts: Facts) -> Iterator[PlannedShard]:
    """Yield the sub-batches as a wave would cut them."""
    limits = facts.options.limits
    queues = [org.max_queued for org in facts.orgs]
    # One sub-batch cannot hold more than an account's whole queue.
    most = limits.max_requests
    if None not in queues:
        most = min(most, max(queue or most for queue in queues))
    under_way: deque[int] = deque()
    number = 0
    for headers in sorted({*facts.past.sizes, *facts.reading.sizes}):
        # What the store holds came first and is sent first.
        none: array[int] = array("Q")
        sizes = facts.past.sizes.get(headers, none) + facts.reading.sizes.get(headers, none)
        for piece in cut_all(
            sizes,
            max_requests=most,
            max_bytes=limits.max_bytes,
            abreast=limits.concurrency,
            under_way=under_way,
        ):
            number += 1
            yield PlannedShard(
                number=number,
                count=piece.count,
                size=piece.size,
                headers=orjson.loads(headers) if headers else {},
            )


def _items(facts: Facts, models: Sequence[ModelPlan]) -> PlannedItems:
    sums = facts.reading.sums
    known = sums.known
    return PlannedItems(
        passed=sums.passed,
        new=sums.new,
        waiting=known[Known.WAITING] + known[Known.TAKEN_UP],
        changed=sums.changed,
        cached=sums.cached,
        answered=known[Known.ANSWERED],
        in_flight=known[Known.IN_FLIGHT],
        settled=known[Known.SETTLED],
        held=known[Known.HELD],
        refused=sums.refused,
        duplicates=sums.duplicates,
        unusable=sums.unusable,
        others=facts.others,
        to_send=facts.to_send,
        bound_to_fail=sum(model.failing for model in models),
    )


def _cost(models: Sequence[ModelPlan]) -> PlannedCost:
    strangers = sorted(model.name for model in models if not model.is_priced)
    if strangers:
        names = ", ".join(map(repr, strangers))
        nothing = Range(low=None, likely=None, high=None, source=f"{UNKNOWN}: no price of {names}")
        return PlannedCost(batch=_range(nothing), sync=_range(nothing), unknown_models=strangers)
    sync = total(model.usd_sync for model in models)
    return PlannedCost(batch=_range(batch_cost(sync)), sync=_range(sync), unknown_models=[])


def _model(plan: ModelPlan) -> PlannedModel:
    return PlannedModel(
        model=plan.name,
        items=plan.items,
        standing=plan.standing,
        retires=plan.retires,
        source=plan.source,
        max_tokens=plan.max_tokens,
        ceiling=plan.ceiling,
        bound_to_fail=plan.failing,
        input=_tokens(plan.inputs),
        output=_tokens(plan.outputs),
        usd_batch=_range(plan.usd_batch),
        usd_sync=_range(plan.usd_sync),
    )


def _refusals(facts: Facts) -> list[RefusalKind]:
    refusals = facts.reading.refusals
    return [
        RefusalKind(count=count, message=refusals.first[kind][0], example=refusals.first[kind][1])
        for kind, count in refusals.counts.most_common()
    ]


def _trouble(fault: Fault) -> Trouble:
    return Trouble(
        id=fault.id,
        position=fault.position,
        line=fault.line,
        kind=fault.kind,
        message=fault.message,
    )


def _double(double: Double) -> DuplicateReport:
    place, first = double.place, double.first_place
    return DuplicateReport(
        id=double.id,
        position=None if double.in_lines else place,
        first_position=None if double.in_lines else first,
        line=place if double.in_lines else None,
        first_line=first if double.in_lines else None,
    )


def _tokens(value: Range) -> RangeReport:
    low, likely, high = (None if end is None else float(round(end)) for end in value.ends)
    return RangeReport(low=low, likely=likely, high=high, source=value.source)


def _range(value: Range) -> RangeReport:
    low, likely, high = value.ends
    return RangeReport(low=low, likely=likely, high=high, source=value.source)
