"""The report of a run, and the plan of one: what it takes, and whether that adds up."""

from batchwright.report.build import Standing, build_report, read_standing
from batchwright.report.findings import Finding
from batchwright.report.model import LISTED, BatchReport, ItemReport, RunReport, TokensReport
from batchwright.report.plan import PlanReport
from batchwright.report.schema import shipped_schema
from batchwright.report.validation import validate

__all__ = [  # noqa: RUF022 - sorted as text, like all others
    "BatchReport",
    "Finding",
    "ItemReport",
    "LISTED",
    "PlanReport",
    "RunReport",
    "Standing",
    "TokensReport",
    "build_report",
    "read_standing",
    "shipped_schema",
    "validate",
]
