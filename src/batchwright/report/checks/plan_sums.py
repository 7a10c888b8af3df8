"""
The sums of a plan: items, sub-batches, tokens and money, and every range from low to high.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Final

from batchwright.report.findings import Finding
from batchwright.report.plan import LISTED, PlanReport, RangeReport

_POLICY: Final = "evidence-policy"
#: What the Batches API asks of the full price.
_HALF: Final = 0.5
#: Tokens are told in whole numbers, so a sum of them may be off by one for each part.
_WHOLE: Final = 1.0
_PARTS: Final = (
    "new",
    "waiting",
    "changed",
    "cached",
    "answered",
    "in_flight",
    "settled",
    "held",
    "refused",
    "duplicates",
    "unusable",
)
_ENDS: Final = ("low", "likely", "high")


def check(plan: PlanReport) -> Iterator[Finding]:
    """Yield what does not add up."""
    yield from _items(plan)
    yield from _listed(plan)
    for place, value in _ranges(plan):
        yield from _ordered(place, value)
    yield from _tokens(plan)
    yield from _money(plan)


def _finding(rule: str, place: str, problem: str) -> Finding:
    return Finding(rule=f"{_POLICY}/{rule}", place=place, problem=problem)


# -- items ------------------------------------------------------------------------------------


def _items(plan: PlanReport) -> Iterator[Finding]:
    items = plan.items
    parts = sum(getattr(items, name) for name in _PARTS)
    if parts != items.passed:
        text = f"is {items.passed}, its parts add up to {parts}"
        yield _finding("plan-adds-up", "items.passed", text)
    held = sum(shard.count for shard in plan.shards)
    if held != items.to_send:
        text = f"is {items.to_send}, the sub-batches hold {held}"
        yield _finding("plan-adds-up", "items.to_send", text)
    measured = sum(row.items for row in plan.models)
    if measured > items.to_send:
        text = f"are asked {measured} items, {items.to_send} are to be sent"
        yield _finding("plan-adds-up", "models", text)
    failing = sum(row.bound_to_fail for row in plan.models)
    if failing != items.bound_to_fail:
        text = f"is {items.bound_to_fail}, the models add up to {failing}"
        yield _finding("plan-adds-up", "items.bound_to_fail", text)
    for number, row in enumerate(plan.models):
        dead = row.standing in {"unknown", "retired"}
        if row.bound_to_fail > row.items or (dead and row.bound_to_fail < row.items):
            text = f"is {row.bound_to_fail} of {row.items} items, the model is {row.standing}"
            yield _finding("plan-adds-up", f"models[{number}].bound_to_fail", text)


def _listed(plan: PlanReport) -> Iterator[Finding]:
    items = plan.items
    unusable = sum(trouble.kind == "unusable" for trouble in plan.troubles)
    refused = len(plan.troubles) - unusable
    counted = sum(row.count for row in plan.refusals)
    for place, found, wanted in (
        ("troubles", unusable, min(items.unusable, LISTED)),
        ("troubles", refused, min(items.refused, LISTED)),
        ("duplicates", len(plan.duplicates), min(items.duplicates, LISTED)),
        ("refusals", counted, items.refused),
    ):
        if found != wanted:
            yield _finding("nothing-left-out", place, f"tell of {found} items, it must be {wanted}")
    for number, trouble in enumerate(plan.troubles):
        if not trouble.message or not trouble.kind:
            text = "what is wrong with the item is not told"
            yield _finding("reasons-given", f"troubles[{number}]", text)


# -- ranges -----------------------------------------------------------------------------------


def _ranges(plan: PlanReport) -> Iterator[tuple[str, RangeReport]]:
    yield from (
        ("cost.batch", plan.cost.batch),
        ("cost.sync", plan.cost.sync),
        ("tokens.input", plan.tokens.input),
        ("tokens.output", plan.tokens.output),
        ("finish.batch", plan.finish.batch),
        ("finish.sync", plan.finish.sync),
    )
    for place, row in enumerate(plan.models):
        for name in ("input", "output", "usd_batch", "usd_sync"):
            yield f"models[{place}].{name}", getattr(row, name)


def _ordered(place: str, value: RangeReport) -> Iterator[Finding]:
    known = [end for end in (value.low, value.likely, value.high) if end is not None]
    if any(end < 0 or not math.isfinite(end) for end in known) or known != sorted(known):
        text = f"runs from {value.low} by {value.likely} to {value.high}"
        yield _finding("ranges-have-sources", place, text)
    if not value.source:
        yield _finding("ranges-have-sources", f"{place}.source", "is empty")


def _tokens(plan: PlanReport) -> Iterator[Finding]:
    for name in ("input", "output"):
        parts = [getattr(row, name) for row in plan.models]
        told = getattr(plan.tokens, name)
        slack = _WHOLE * (len(parts) + 1)
        if end := _differs(told, parts, slack):
            text = f"{end} is not what the models add up to"
            yield _finding("plan-adds-up", f"tokens.{name}", text)


def _differs(told: RangeReport, parts: Sequence[RangeReport], slack: float) -> str | None:
    """Return the name of the first end of *told* that is not the sum of its parts."""
    for end in _ENDS:
        values = [getattr(part, end) for part in parts]
        wanted = None if None in values else math.fsum(values)
        value = getattr(told, end)
        if value is None or wanted is None:
            if value is not wanted:
                return end
        elif not math.isclose(value, wanted, rel_tol=1e-6, abs_tol=slack):
            return end
    return None


# -- money ------------------------------------------------------------------------------------


def _money(plan: PlanReport) -> Iterator[Finding]:
    cost = plan.cost
    unpriced = sorted(row.model for row in plan.models if row.usd_sync.low is None)
    if unpriced != sorted(cost.unknown_models):
        text = f"are {cost.unknown_models}, the models without a cost are {unpriced}"
        yield _finding("unknown-price-is-unknown", "cost.unknown_models", text)
    for name, field in (("batch", "usd_batch"), ("sync", "usd_sync")):
        parts = [getattr(row, field) for row in plan.models]
        if end := _differs(getattr(cost, name), parts, 1e-9):
            text = f"{end} is not what the models add up to"
            yield _finding("unknown-price-is-unknown", f"cost.{name}", text)
    pairs = [("cost.batch", cost.batch, cost.sync)]
    pairs += [
        (f"models[{n}].usd_batch", row.usd_batch, row.usd_sync) for n, row in enumerate(plan.models)
    ]
    for place, batch, sync in pairs:
        if not all(_is_half(getattr(batch, end), getattr(sync, end)) for end in _ENDS):
            text = "is not half of what direct calls cost"
            yield _finding("unknown-price-is-unknown", place, text)


def _is_half(batch: float | None, sync: float | None) -> bool:
    if batch is None or sync is None:
        return batch is sync
    return math.isclose(batch, sync * _HALF, rel_tol=1e-6, abs_tol=1e-9)
