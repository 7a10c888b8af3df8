"""The report of a run, and the plan of one: what was asked, what happened, what it takes."""

from batchwright.report.build import Standing, build_report, read_standing
from batchwright.report.model import LISTED, BatchReport, ItemReport, RunReport, TokensReport
from batchwright.report.plan import PlanReport

__all__ = [  # noqa: RUF022 - sorted as text, like all others
    "BatchReport",
    "ItemReport",
    "LISTED",
    "PlanReport",
    "RunReport",
    "Standing",
    "TokensReport",
    "build_report",
    "read_standing",
]
