"""
`message-batch-orchestration-contract`: what every report says.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Final

from batchwright.config import API_MAX_BYTES, API_MAX_REQUESTS
from batchwright.report.findings import Finding
from batchwright.report.model import RunReport

_POLICY: Final = "message-batch-orchestration-contract"


def check(report: RunReport) -> Iterator[Finding]:
    """Yield what is wrong with what was asked, with switches, and with the list of batches."""
    yield from _asked(report)
    if report.complete is not (report.outcomes.get("succeeded", 0) == report.items):
        yield _finding(
            "complete-means-all",
            "complete",
            f"says {report.complete}, but {report.outcomes.get('succeeded', 0)} of {report.items} "
            "items succeeded",
        )
    yield from _switches(report)
    yield from _batches(report)


def _finding(rule: str, place: str, problem: str) -> Finding:
    return Finding(rule=f"{_POLICY}/{rule}", place=place, problem=problem)


def _asked(report: RunReport) -> Iterator[Finding]:
    named = sum(report.asked.models.values())
    if named > report.items:
        text = f"counts {named} items, the run has {report.items}"
        yield _finding("what-was-asked", "asked.models", text)
    least = report.options.retry.max_attempts
    if report.asked.attempt_cap < least:
        text = f"is {report.asked.attempt_cap}, but the latest wave allowed {least} tries"
        yield _finding("what-was-asked", "asked.attempt_cap", text)
    orgs = {talking.org for talking in report.talking_to}
    if report.direct is not None and not orgs:
        yield _finding("what-was-asked", "talking_to", "direct calls were made, but to nobody")
    for place, batch in enumerate(report.batches):
        if batch.sent_at is not None and batch.org not in orgs:
            text = f"names {batch.org!r}, which is not among what was talked to"
            yield _finding("what-was-asked", f"batches[{place}].org", text)


def _switches(report: RunReport) -> Iterator[Finding]:
    waves = Counter(switch.wave for switch in report.switches)
    for place, switch in enumerate(report.switches):
        where = f"switches[{place}].wave"
        if waves[switch.wave] > 1:
            text = f"wave {switch.wave} switched {waves[switch.wave]} times"
            yield _finding("one-switch-a-wave", where, text)
        if switch.wave > report.waves:
            text = f"is {switch.wave}, but there were {report.waves} waves"
            yield _finding("one-switch-a-wave", where, text)


def _batches(report: RunReport) -> Iterator[Finding]:
    numbers = Counter(batch.shard for batch in report.batches)
    ids = Counter(batch.batch_id for batch in report.batches if batch.batch_id is not None)
    for place, batch in enumerate(report.batches):
        where = f"batches[{place}]"
        if numbers[batch.shard] > 1:
            text = f"sub-batch {batch.shard} is told {numbers[batch.shard]} times"
            yield _finding("batches-are-told-once", f"{where}.shard", text)
        if batch.batch_id is not None and ids[batch.batch_id] > 1:
            text = f"batch {batch.batch_id} belongs to {ids[batch.batch_id]} sub-batches"
            yield _finding("batches-are-told-once", f"{where}.batch_id", text)
        if batch.wave > report.waves:
            text = f"is {batch.wave}, but there were {report.waves} waves"
            yield _finding("batches-are-told-once", f"{where}.wave", text)
        if batch.count > API_MAX_REQUESTS:
            text = f"{batch.count} requests, the API takes {API_MAX_REQUESTS}"
            yield _finding("never-one-huge-batch", f"{where}.count", text)
        if batch.size > API_MAX_BYTES:
            text = f"{batch.size} bytes, more than the {API_MAX_BYTES} that are safe"
            yield _finding("never-one-huge-batch", f"{where}.size", text)
