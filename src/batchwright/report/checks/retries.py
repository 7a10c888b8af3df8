"""
`retry-fragmentation-policy`: only what failed is sent again, and not for ever.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from batchwright.report.findings import Finding
from batchwright.report.model import RunReport

_POLICY: Final = "retry-fragmentation-policy"
#: Errors of a result line that are the item's own.
ITEM_FAULTS: Final = frozenset(
    {"invalid_request_error", "not_found_error", "request_too_large", "refused_at_intake"}
)


def check(report: RunReport) -> Iterator[Finding]:
    """Yield what was sent again and should not have been; sums are checked as evidence."""
    cap = report.asked.attempt_cap
    # The tries of a lost store were made elsewhere, and are counted here once more.
    recovered = any(batch.recovered for batch in report.batches)
    for place, row in enumerate(report.put_back):
        if row.after >= cap and not recovered:
            text = f"put back after {row.after} tries, the cap is {cap}"
            yield _finding("capped", f"put_back[{place}].after", text)
        # A direct call may fail for the moment with such a type; a line never does.
        if row.reason in ITEM_FAULTS and report.direct is None:
            text = f"{row.reason} is the item's own fault, which sending again does not mend"
            yield _finding("item-faults-stay", f"put_back[{place}].reason", text)
    yield from _items(report)


def _items(report: RunReport) -> Iterator[Finding]:
    for place, item in enumerate(report.not_succeeded.listed):
        where = f"not_succeeded.listed[{place}].attempts"
        if item.reason == "exhausted" and item.attempts < 1:
            yield _finding("capped", where, "is 0, though the tries are exhausted")
        if item.reason == "refused_at_intake" and item.attempts:
            text = f"is {item.attempts}, though the item was refused before it was sent"
            yield _finding("item-faults-stay", where, text)


def _finding(rule: str, place: str, problem: str) -> Finding:
    return Finding(rule=f"{_POLICY}/{rule}", place=place, problem=problem)
