"""What reports and plans mean, policy by policy: pure functions from a document to findings."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from batchwright.report.checks import (
    contract,
    custom_ids,
    evidence,
    lifecycle,
    plan_sums,
    plans,
    retries,
    sums,
    workload,
)
from batchwright.report.findings import Finding
from batchwright.report.model import RunReport
from batchwright.report.plan import PlanReport

__all__ = ["PLAN_CHECKS", "RUN_CHECKS"]

#: Every check of a run report, in the order in which findings are told.
RUN_CHECKS: tuple[Callable[[RunReport], Iterator[Finding]], ...] = (
    contract.check,
    workload.check,
    custom_ids.check,
    lifecycle.check,
    retries.check,
    sums.check,
    evidence.check,
)

#: Every check of a plan.
PLAN_CHECKS: tuple[Callable[[PlanReport], Iterator[Finding]], ...] = (
    plans.check,
    plan_sums.check,
)
