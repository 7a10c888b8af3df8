"""
What a run's answers cost, by path and model.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime

from batchwright._prices import cost_of
from batchwright.report.model import CostReport, Path, PathCost, TokensReport
from batchwright.store import Spent
from batchwright.types import Tokens


def tokens_of(spent: Iterable[Spent], at: datetime) -> list[TokensReport]:
    """Return tokens and money by path and model."""
    return [
        TokensReport(
            via=row.via,
            model=row.model,
            answers=row.answers,
            **_kinds(row.tokens),
            usd=cost_of([row], at=at).usd,
        )
        for row in spent
    ]


def cost_report(spent: Sequence[Spent], waste: Sequence[Spent], at: datetime) -> CostReport:
    """Return what all of it cost; an unknown price makes a sum unknown."""
    everything = cost_of([*spent, *waste], at=at)
    direct = [
        Spent(via="sync", model=row.model, answers=row.answers, tokens=row.tokens)
        for row in spent
        if row.via != "cache"
    ]
    return CostReport(
        usd=everything.usd,
        known_usd=everything.known_usd,
        unknown_models=list(everything.unknown_models),
        by_path={via: _path(rows, at) for via, rows in _by_path(spent).items()},
        waste_usd=cost_of(waste, at=at).usd,
        direct_usd=cost_of(direct, at=at).usd,
    )


def _by_path(spent: Iterable[Spent]) -> dict[Path, list[Spent]]:
    found: dict[Path, list[Spent]] = {}
    for row in spent:
        found.setdefault(row.via, []).append(row)
    return found


def _path(rows: Sequence[Spent], at: datetime) -> PathCost:
    total = sum((row.tokens for row in rows), Tokens())
    return PathCost(
        answers=sum(row.answers for row in rows),
        **_kinds(total),
        usd=cost_of(rows, at=at).usd,
    )


def _kinds(tokens: Tokens) -> dict[str, int]:
    return {
        "input": tokens.input,
        "output": tokens.output,
        "cache_write": tokens.cache_write,
        "cache_read": tokens.cache_read,
    }
