"""
What a plan says would be done: asked, sent, followed, tried again.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from batchwright.config import API_MAX_BYTES, API_MAX_REQUESTS
from batchwright.report.checks.custom_ids import check_examples, check_making
from batchwright.report.checks.workload import CANARY, check_declared
from batchwright.report.findings import Finding
from batchwright.report.plan import PlanReport

_CONTRACT: Final = "message-batch-orchestration-contract"
#: Steps of a sub-batch, each with the rule that it must come after the one before it.
_STEPS: Final = (
    ("intent stored", "lifecycle-policy/intent-before-create"),
    ("create", "lifecycle-policy/intent-before-create"),
    ("batch id stored", "lifecycle-policy/id-before-polling"),
    ("poll processing_status", "lifecycle-policy/processing-status"),
    ("results read", "lifecycle-policy/results-after-end"),
)
#: Why a run stops, by what is counted among the items.
_COUNTED: Final = {"unusable": "unusable", "duplicates": "duplicate"}


def check(plan: PlanReport) -> Iterator[Finding]:
    """Yield what must not be done so, or cannot be meant."""
    yield from _asked(plan)
    yield from _shards(plan)
    yield from _stops(plan)
    yield from check_declared(plan.asked.workload, "asked.workload")
    if plan.canary > CANARY:
        text = f"{plan.canary} items would go ahead by direct calls, more than {CANARY}"
        yield Finding(rule="workload-policy/no-one-by-one-loop", place="canary", problem=text)
    yield from check_making(plan.ids)
    yield from check_examples(plan.ids)
    yield from _lifecycle(plan)
    yield from _selective(plan)


def _finding(rule: str, place: str, problem: str) -> Finding:
    return Finding(rule=f"{_CONTRACT}/{rule}", place=place, problem=problem)


def _asked(plan: PlanReport) -> Iterator[Finding]:
    if not plan.talking_to:
        yield _finding("what-was-asked", "talking_to", "is empty: nobody would be asked")
    models = {row.model: row.items for row in plan.models}
    if models != plan.asked.models:
        text = "are not those that models tells, with as many items"
        yield _finding("what-was-asked", "asked.models", text)
    least = plan.options.retry.max_attempts
    if plan.asked.attempt_cap < least:
        text = f"is {plan.asked.attempt_cap}, but the options allow {least} tries"
        yield _finding("what-was-asked", "asked.attempt_cap", text)
    if plan.route.policy != plan.policy:
        text = f"is {plan.route.policy!r}, the plan is of {plan.policy!r}"
        yield _finding("what-was-asked", "route.policy", text)


def _shards(plan: PlanReport) -> Iterator[Finding]:
    limits = plan.options.limits
    most = min(limits.max_requests, API_MAX_REQUESTS)
    for place, shard in enumerate(plan.shards):
        where = f"shards[{place}]"
        if shard.number != place + 1:
            text = f"is {shard.number}, the sub-batch before it was {place}"
            yield _finding("batches-are-told-once", f"{where}.number", text)
        if shard.count > most:
            text = f"{shard.count} requests, at most {most} are asked for"
            yield _finding("never-one-huge-batch", f"{where}.count", text)
        # An item that waits since the limit was higher leaves alone.
        fits = limits.max_bytes if shard.count > 1 else API_MAX_BYTES
        if shard.size > min(fits, API_MAX_BYTES):
            text = f"{shard.size} bytes, more than is asked for and safe"
            yield _finding("never-one-huge-batch", f"{where}.size", text)


def _stops(plan: PlanReport) -> Iterator[Finding]:
    told = {stop.kind for stop in plan.stops}
    for name, kind in _COUNTED.items():
        count = getattr(plan.items, name)
        if bool(count) is not (kind in told):
            text = f"tell {'of' if kind in told else 'nothing of'} {kind!r}, items counts {count}"
            yield _finding("stops-are-told", "stops", text)
    wanted = plan.items.changed > 0 and plan.asked.on_changed == "error"
    if wanted is not ("changed" in told):
        text = f"items counts {plan.items.changed} changed, stops say otherwise"
        yield _finding("stops-are-told", "stops", text)
    remarked = "ids_like_positions" in {remark.kind for remark in plan.remarks}
    if plan.ids_look_like_positions is not remarked:
        text = f"is {str(plan.ids_look_like_positions).lower()}, the remarks say otherwise"
        yield _finding("stops-are-told", "ids_look_like_positions", text)
    for name, remarks in (("stops", plan.stops), ("remarks", plan.remarks)):
        for place, remark in enumerate(remarks):
            if not remark.message:
                yield _finding("stops-are-told", f"{name}[{place}].message", "is empty")


def _lifecycle(plan: PlanReport) -> Iterator[Finding]:
    steps = plan.lifecycle.steps
    before = -1
    for step, rule in _STEPS:
        place = steps.index(step) if step in steps else -1
        if place <= before:
            problem = f"{step!r} is missing" if place < 0 else f"{step!r} comes too early"
            yield Finding(rule=rule, place="lifecycle.steps", problem=problem)
        else:
            before = place


def _selective(plan: PlanReport) -> Iterator[Finding]:
    items = plan.items
    anew = items.changed if plan.asked.on_changed == "rerun" else 0
    allowed = items.new + items.waiting + items.others + anew
    if items.to_send > allowed:
        text = f"is {items.to_send}, but only {allowed} items are new or wait"
        rule = "retry-fragmentation-policy/selective"
        yield Finding(rule=rule, place="items.to_send", problem=text)
