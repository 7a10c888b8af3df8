"""
What each model would be asked, and what that costs: pure.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from batchwright._plan.estimate import (
    Range,
    average_output,
    batch_cost,
    input_of,
    output_of,
    sync_cost,
    total,
    unknown_price,
)
from batchwright._plan.facts import Facts
from batchwright._plan.inquiry import ModelNews
from batchwright._plan.sample import OTHER_MODELS, Stratum

Standing = Literal["active", "deprecated", "retired", "unknown", "not asked"]

_STANDINGS: dict[str, Standing] = {
    "active": "active",
    "deprecated": "deprecated",
    "retired": "retired",
    "unknown": "unknown",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelPlan:
    """
    What one model would be asked.

    Attributes:
        name: As the items use it.
        items: How many ask it.
        standing: Whether it is there, and for how long.
        retires: When it ends, as far as is known.
        source: Who says so.
        batches: Whether batches may use it.
        max_tokens: The most that an item asks for.
        ceiling: The most that it gives.
        failing: Items that are known to fail.
        inputs: Input tokens.
        outputs: Output tokens.
        sync: Cost by direct calls; `None` where its price is not known.
    """

    name: str
    items: int
    standing: Standing
    retires: str | None
    source: str
    batches: bool
    max_tokens: int
    ceiling: int | None
    failing: int
    inputs: Range
    outputs: Range
    sync: Range | None

    @property
    def is_priced(self) -> bool:
        """Whether its price is known."""
        return self.sync is not None

    @property
    def usd_sync(self) -> Range:
        """Cost by direct calls."""
        return self.sync or unknown_price(self.name)

    @property
    def usd_batch(self) -> Range:
        """Cost by batches."""
        return batch_cost(self.usd_sync)

    @property
    def is_dead(self) -> bool:
        """Whether every item that asks it would fail."""
        return self.standing in {"unknown", "retired"} or not self.batches


def models_of(facts: Facts) -> Sequence[ModelPlan]:
    """Return the models that would be asked, the most used first."""
    by_model: dict[str, list[Stratum]] = {}
    for stratum in facts.reading.sample.strata:
        by_model.setdefault(stratum.model, []).append(stratum)
    averages = average_output(facts.past.spent)
    plans = [_plan_of(name, strata, averages, facts) for name, strata in by_model.items()]
    return sorted(plans, key=lambda plan: -plan.items)


def _plan_of(
    name: str, strata: Sequence[Stratum], averages: Mapping[str, float], facts: Facts
) -> ModelPlan:
    inputs = [input_of(stratum) for stratum in strata]
    outputs = [output_of(stratum, averages) for stratum in strata]
    costs = [
        sync_cost(stratum, read, written, at=facts.now)
        for stratum, read, written in zip(strata, inputs, outputs, strict=True)
    ]
    known = [cost for cost in costs if cost is not None]
    items = sum(stratum.items for stratum in strata)
    news, source = _news_of(name, facts)
    asked = facts.reading.sample.asked.get(name, {})
    ceiling = news.ceiling
    over = sum(n for tokens, n in asked.items() if ceiling is not None and tokens > ceiling)
    standing = _STANDINGS.get(news.standing, "not asked")
    dead = standing in {"unknown", "retired"} or not news.batches
    return ModelPlan(
        name=name,
        items=items,
        standing=standing,
        retires=news.retires,
        source=source,
        batches=news.batches,
        max_tokens=max(asked, default=0),
        ceiling=ceiling,
        failing=items if dead else over,
        inputs=total(inputs),
        outputs=total(outputs),
        sync=total(known) if len(known) == len(costs) else None,
    )


def _news_of(name: str, facts: Facts) -> tuple[ModelNews, str]:
    news = facts.answers.models.get(name)
    if news is not None and name != OTHER_MODELS:
        return news, "the API"
    ends = facts.retirements.get(name)
    if ends is not None:
        return ModelNews(standing="deprecated", retires=ends), "the installed SDK"
    return ModelNews(standing="not asked"), "nobody was asked"
