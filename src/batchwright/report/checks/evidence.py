"""
`evidence-policy`: the books balance, and the evidence is what they add up to.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import pairwise
from typing import Final, get_args

from batchwright.report._evidence import evidence_of
from batchwright.report._shards import miscounted
from batchwright.report.findings import Finding
from batchwright.report.model import BatchReport, NotSucceeded, Outcome, RunReport

_POLICY: Final = "evidence-policy"


def check(report: RunReport) -> Iterator[Finding]:
    """Yield where the books do not balance."""
    yield from _outcomes(report)
    yield from _reasons(report)
    for place, batch in enumerate(report.batches):
        yield from _lines(batch, f"batches[{place}]")
    yield from _anomalies(report)
    yield from _over_time(report)
    yield from _recomputed(report)


def _finding(rule: str, place: str, problem: str) -> Finding:
    return Finding(rule=f"{_POLICY}/{rule}", place=place, problem=problem)


# -- items ------------------------------------------------------------------------------------


def _outcomes(report: RunReport) -> Iterator[Finding]:
    if lacking := [name for name in get_args(Outcome) if name not in report.outcomes]:
        yield _finding("outcomes-add-up", "outcomes", f"lacks {', '.join(lacking)}")
    total = sum(report.outcomes.values())
    if total != report.items:
        text = f"add up to {total}, the run has {report.items} items"
        yield _finding("outcomes-add-up", "outcomes", text)
    going = report.waiting + report.in_flight
    if going > report.outcomes.get("unresolved", 0):
        text = f"with in_flight {going} items go on, more than are unresolved"
        yield _finding("outcomes-add-up", "waiting", text)
    apart = report.not_succeeded
    missed = report.items - report.outcomes.get("succeeded", 0)
    if apart.total != missed:
        text = f"is {apart.total}, but {missed} items did not succeed"
        yield _finding("nothing-left-out", "not_succeeded.total", text)
    if len(apart.listed) + apart.unlisted != apart.total:
        text = f"{len(apart.listed)} are listed and {apart.unlisted} left out, of {apart.total}"
        yield _finding("nothing-left-out", "not_succeeded", text)


def _reasons(report: RunReport) -> Iterator[Finding]:
    apart = report.not_succeeded
    for place, item in enumerate(apart.listed):
        if not item.reason:
            yield _finding("reasons-given", f"not_succeeded.listed[{place}].reason", "is empty")
    counted = Counter(item.status for item in apart.listed)
    for status in get_args(NotSucceeded):
        told = report.outcomes.get(status, 0)
        if counted[status] > told or (not apart.unlisted and counted[status] < told):
            text = f"lists {counted[status]} items as {status}, counted are {told}"
            yield _finding("reasons-given", "not_succeeded.listed", text)
    known = sum(report.reasons.values())
    least = apart.total - report.waiting - report.in_flight
    if not least <= known <= apart.total - report.in_flight:
        text = f"add up to {known}, of {apart.total} items that did not succeed"
        yield _finding("reasons-given", "reasons", text)


# -- batches ----------------------------------------------------------------------------------


def _lines(batch: BatchReport, where: str) -> Iterator[Finding]:
    if batch.lines is None:
        return
    lines = sum(batch.lines.model_dump().values())
    if lines != batch.count:
        text = f"add up to {lines}, the sub-batch has {batch.count} items"
        yield _finding("lines-match-items", f"{where}.lines", text)
    if batch.results is not None:
        results = sum(batch.results.model_dump().values())
        if results != lines - batch.lines.none:
            text = f"add up to {results}, of {lines - batch.lines.none} lines"
            yield _finding("lines-match-items", f"{where}.results", text)


def _anomalies(report: RunReport) -> Iterator[Finding]:
    told = Counter[tuple[int, str]]()
    shards = {batch.shard: batch for batch in report.batches}
    for place, anomaly in enumerate(report.anomalies):
        told[anomaly.shard, anomaly.kind] += anomaly.count
        if anomaly.shard not in shards:
            text = f"sub-batch {anomaly.shard} is not in the report"
            yield _finding("anomalies-told", f"anomalies[{place}].shard", text)
    for place, batch in enumerate(report.batches):
        lines = None if batch.lines is None else batch.lines.model_dump()
        for kind, count in (
            ("reread", batch.rereads),
            ("miscounted", miscounted(lines, batch.counts, recovered=batch.recovered)),
        ):
            if told[batch.shard, kind] != count:
                text = f"tell of {told[batch.shard, kind]} {kind}, batches[{place}] of {count}"
                yield _finding("anomalies-told", "anomalies", text)
        if lines is not None and told[batch.shard, "missing"] > lines["none"]:
            text = f"tell of more missing items than batches[{place}] has without a line"
            yield _finding("anomalies-told", "anomalies", text)


# -- the whole --------------------------------------------------------------------------------


def _over_time(report: RunReport) -> Iterator[Finding]:
    points = report.over_time
    for place, (before, after) in enumerate(pairwise(points), start=1):
        if after.at < before.at or after.batch < before.batch or after.sync < before.sync:
            text = "time or answers are less than before"
            yield _finding("over-time", f"over_time[{place}]", text)
    last = {"batch": points[-1].batch, "sync": points[-1].sync} if points else {}
    for path in ("batch", "sync"):
        answers = sum(row.answers for row in report.tokens if row.via == path)
        if last.get(path, 0) != answers:
            text = f"end at {last.get(path, 0)} answers by {path}, counted are {answers}"
            yield _finding("over-time", "over_time", text)


def _recomputed(report: RunReport) -> Iterator[Finding]:
    wanted = {row.claim: row for row in evidence_of(report)}
    found = {row.claim: row for row in report.evidence}
    for claim in wanted.keys() - found.keys():
        yield _finding("recomputed", "evidence", f"lacks: {claim}")
    if len(found) < len(report.evidence):
        yield _finding("recomputed", "evidence", "makes one claim twice")
    for place, row in enumerate(report.evidence):
        known = wanted.get(row.claim)
        if known is None:
            text = f"claims what nothing here shows: {row.claim}"
            yield _finding("recomputed", f"evidence[{place}].claim", text)
        elif row != known:
            text = f"says {row.found} and {row.expected}, the report {known.found} and "
            yield _finding("recomputed", f"evidence[{place}]", f"{text}{known.expected}")
    for known in wanted.values():
        if not known.holds:
            text = f"it does not hold that {known.claim}: {known.found} and {known.expected}"
            yield Finding(rule=known.rule, place="evidence", problem=text)
