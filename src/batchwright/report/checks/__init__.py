"""The meaning of a run report, policy by policy: pure functions from a report to findings."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from batchwright.report.checks import (
    contract,
    custom_ids,
    evidence,
    lifecycle,
    retries,
    sums,
    workload,
)
from batchwright.report.findings import Finding
from batchwright.report.model import RunReport

__all__ = ["RUN_CHECKS"]

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
