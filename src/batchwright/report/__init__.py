"""The run report: what was asked, what happened, what it took."""

from batchwright.report.build import Standing, build_report, read_standing
from batchwright.report.model import LISTED, BatchReport, ItemReport, RunReport, TokensReport

__all__ = [  # noqa: RUF022 - sorted as text, like all others
    "BatchReport",
    "ItemReport",
    "LISTED",
    "RunReport",
    "Standing",
    "TokensReport",
    "build_report",
    "read_standing",
]
