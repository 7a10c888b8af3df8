"""
`lifecycle-policy`: create, poll `processing_status`, read the results by id.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, TypeAlias

from batchwright.report.findings import Finding
from batchwright.report.model import BatchReport, RunReport

_POLICY: Final = "lifecycle-policy"
#: What `processing_status` says of a batch that has not ended.
_GOING_ON: Final = {"in_progress", "canceling"}
#: Rule, field, problem.
_Told: TypeAlias = Iterator[tuple[str, str, str]]


def check(report: RunReport) -> Iterator[Finding]:
    """Yield what cannot be in the life of a batch."""
    for place, batch in enumerate(report.batches):
        for part in (_intent, _id, _statuses, _reading, _times, _held):
            for rule, field, problem in part(batch):
                yield Finding(
                    rule=f"{_POLICY}/{rule}", place=f"batches[{place}].{field}", problem=problem
                )


def _intent(batch: BatchReport) -> _Told:
    exists = batch.batch_id is not None or batch.created_at is not None
    if batch.sent_at is None and (exists or batch.state == "sending"):
        yield "intent-before-create", "sent_at", "a batch may exist, but no intent to send it"
    if batch.state == "planned" and batch.batch_id is not None:
        yield "intent-before-create", "state", "is planned, though a batch of it exists"


def _id(batch: BatchReport) -> _Told:
    if batch.batch_id is not None:
        return
    if batch.state in {"live", "ended"}:
        yield "id-before-polling", "batch_id", f"is not known, though the batch is {batch.state}"
    for field in ("ended_at", "done_at", "counts", "lines"):
        if getattr(batch, field) is not None:
            yield "id-before-polling", "batch_id", f"is not known, though {field} is"


def _statuses(batch: BatchReport) -> _Told:
    seen = {status.status for status in batch.statuses}
    looked = batch.ended_at is not None and batch.polls and not batch.recovered
    # A later version of the API may have another word for it.
    if looked and seen <= _GOING_ON:
        yield "processing-status", "statuses", "the batch ended, but was never seen to be ended"
    if batch.batch_id is not None and batch.ended_at is None and "ended" in seen:
        yield "processing-status", "ended_at", "is not told, though the batch was seen to be ended"
    looks = sum(status.looks for status in batch.statuses)
    if looks > batch.polls:
        yield "processing-status", "polls", f"is {batch.polls}, but {looks} looks saw a status"
    if len(seen) < len(batch.statuses):
        yield "processing-status", "statuses", "one status is told twice"
    for place, status in enumerate(batch.statuses):
        if status.last_at < status.first_at:
            field = f"statuses[{place}].last_at"
            yield "processing-status", field, "is before first_at"


def _reading(batch: BatchReport) -> _Told:
    given_up = batch.canceled_by == "overdue"
    if batch.done_at is not None and batch.ended_at is None:
        yield "results-after-end", "done_at", "results were read to the end of a batch without end"
    if batch.lines is not None and batch.ended_at is None and not given_up:
        yield "results-after-end", "lines", "results were read of a batch that had not ended"
    if (batch.lines is None) is not (batch.results is None):
        yield "results-after-end", "results", "lines and what they meant are told together"


def _times(batch: BatchReport) -> _Told:
    created = batch.created_at
    if created is None:
        return
    if batch.expires_at is not None and batch.expires_at <= created:
        yield "times-in-order", "expires_at", "is not after created_at"
    if batch.ended_at is not None and batch.ended_at < created:
        yield "times-in-order", "ended_at", "is before created_at"


def _held(batch: BatchReport) -> _Told:
    if batch.state == "held" and not batch.reason:
        yield "held-for-a-reason", "reason", "is not told, though the sub-batch is held"
