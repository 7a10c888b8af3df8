"""
`workload-policy`: for which work batches are the way.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from batchwright.report.findings import Finding
from batchwright.report.model import RunReport, WorkloadReport

_POLICY: Final = "workload-policy"
#: Direct answers that need no switch: a canary asks at most one item of each of five shapes.
CANARY: Final = 5


def check(report: RunReport) -> Iterator[Finding]:
    """Yield what makes the work unfit for batches, and direct calls that no switch explains."""
    yield from check_declared(report.asked.workload, "asked.workload")
    if report.switches:
        return
    answers = sum(row.answers for row in (*report.tokens, *report.waste) if row.via == "sync")
    if answers > CANARY:
        text = f"{answers} direct answers, but no switch that moved items to direct calls"
        yield _finding("no-one-by-one-loop", "tokens", text)
    if report.direct is not None:
        text = f"{report.direct.asked} items went to direct calls, but no switch tells why"
        yield _finding("no-one-by-one-loop", "direct", text)


def check_declared(workload: WorkloadReport, place: str) -> Iterator[Finding]:
    """Yield what is declared of the work that batches are not for."""
    for name, wanted, rule in (
        ("offline", True, "offline"),
        ("latency_tolerant", True, "latency-tolerant"),
        ("streaming", False, "no-streaming"),
        ("user_waiting", False, "nobody-waiting"),
        ("one_by_one", False, "no-one-by-one-loop"),
    ):
        told = getattr(workload, name)
        if told is not wanted:
            text = f"is {str(told).lower()}, but only work for which it is "
            yield _finding(rule, f"{place}.{name}", f"{text}{str(wanted).lower()} goes by batches")


def _finding(rule: str, place: str, problem: str) -> Finding:
    return Finding(rule=f"{_POLICY}/{rule}", place=place, problem=problem)
