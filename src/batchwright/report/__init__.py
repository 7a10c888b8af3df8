"""The run report: what was asked, what happened, what it took."""

from batchwright.report.model import BatchReport, RunReport, TokensReport, build_report

__all__ = ["BatchReport", "RunReport", "TokensReport", "build_report"]
