"""
`evidence-policy`: answers, tokens and money add up, and an unknown price stays unknown.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from batchwright.report.findings import Finding
from batchwright.report.model import RunReport, TokensReport

_POLICY: Final = "evidence-policy"
_KINDS: Final = ("answers", "input", "output", "cache_write", "cache_read")


def check(report: RunReport) -> Iterator[Finding]:
    """Yield sums that are not those of their parts."""
    yield from _answers(report)
    yield from _prices(report)
    yield from _money(report)
    late = sum(batch.late for batch in report.batches)
    wasted = sum(row.answers for row in report.waste)
    if late > wasted:
        yield _finding("waste-told", "waste", f"counts {wasted} answers, but {late} came late")


def _finding(rule: str, place: str, problem: str) -> Finding:
    return Finding(rule=f"{_POLICY}/{rule}", place=place, problem=problem)


def _answers(report: RunReport) -> Iterator[Finding]:
    paths = {row.via for row in report.tokens}
    if paths != set(report.cost.by_path):
        yield _finding("answers-counted", "cost.by_path", "names other paths than tokens")
    for path, cost in report.cost.by_path.items():
        rows = [row for row in report.tokens if row.via == path]
        for kind in _KINDS:
            total = sum(getattr(row, kind) for row in rows)
            if getattr(cost, kind) != total:
                text = f"is {getattr(cost, kind)}, the rows of tokens add up to {total}"
                yield _finding("answers-counted", f"cost.by_path.{path}.{kind}", text)


def _prices(report: RunReport) -> Iterator[Finding]:
    unknown = set(report.cost.unknown_models)
    for name, rows in (("tokens", report.tokens), ("waste", report.waste)):
        for place, row in enumerate(rows):
            # What comes from the cache of an earlier run costs nothing, whatever its model.
            if row.via != "cache" and (row.usd is None) is not (row.model in unknown):
                text = f"is {row.usd}, but {row.model!r} is {'' if row.usd is None else 'not '}"
                text += "among the models with a price"
                yield _finding("unknown-price-is-unknown", f"{name}[{place}].usd", text)


def _money(report: RunReport) -> Iterator[Finding]:
    cost = report.cost
    everything = [*report.tokens, *report.waste]
    sums: list[tuple[str, float | None, float | None]] = [
        ("cost.usd", cost.usd, _sum(everything)),
        ("cost.known_usd", cost.known_usd, math.fsum(row.usd or 0.0 for row in everything)),
        ("cost.waste_usd", cost.waste_usd, _sum(report.waste)),
    ]
    sums += [
        (f"cost.by_path.{path}.usd", part.usd, _sum(r for r in report.tokens if r.via == path))
        for path, part in cost.by_path.items()
    ]
    for place, told, wanted in sums:
        if not _is_same(told, wanted):
            rule = "waste-told" if "waste" in place else "unknown-price-is-unknown"
            yield _finding(rule, place, f"is {_usd(told)}, its parts add up to {_usd(wanted)}")
    yield from _direct(report, report.tokens)


def _direct(report: RunReport, rows: Sequence[TokensReport]) -> Iterator[Finding]:
    """Yield where prices are known, but not what the answers would cost directly, or contrary."""
    told = report.cost.direct_usd
    paid = [row for row in rows if row.via != "cache"]
    unknown = any(row.model in report.cost.unknown_models for row in paid)
    if (told is None) is not unknown:
        text = f"is {_usd(told)}, but prices are {'un' if unknown else ''}known"
        yield _finding("unknown-price-is-unknown", "cost.direct_usd", text)


def _sum(rows: Iterable[TokensReport]) -> float | None:
    prices = [row.usd for row in rows]
    return None if None in prices else math.fsum(price for price in prices if price is not None)


def _is_same(told: float | None, wanted: float | None) -> bool:
    if told is None or wanted is None:
        return told is wanted
    return math.isclose(told, wanted, rel_tol=1e-6, abs_tol=1e-9)


def _usd(value: float | None) -> str:
    return "unknown" if value is None else f"{value:.9g} USD"
