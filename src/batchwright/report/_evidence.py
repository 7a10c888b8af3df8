"""
In which ways the books of a run balance: pure, and computed from the report alone.

So whoever holds a report can add it up again.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final, Literal, TypeAlias

from batchwright.report.model import EvidenceReport, RunReport

Relation: TypeAlias = Literal["equal", "at most"]

#: What the API takes for a `custom_id`.
LEGAL: Final = re.compile(r"[a-zA-Z0-9_-]{1,64}")


def evidence_of(report: RunReport) -> list[EvidenceReport]:
    """Return every claim with its two numbers; the evidence that stands in *report* is ignored."""
    return [*_items(report), *_answers(report), *_batches(report), *_retries(report), *_ids(report)]


def _claim(
    rule: str, claim: str, found: int, expected: int, relation: Relation = "equal"
) -> EvidenceReport:
    return EvidenceReport(
        rule=rule,
        claim=claim,
        relation=relation,
        found=found,
        expected=expected,
        holds=holds(relation, found, expected),
    )


def holds(relation: Relation, found: int, expected: int) -> bool:
    """Tell whether two numbers stand so."""
    return found == expected if relation == "equal" else found <= expected


def _items(report: RunReport) -> Iterator[EvidenceReport]:
    apart = report.not_succeeded
    missed = report.items - report.outcomes.get("succeeded", 0)
    yield _claim(
        "evidence-policy/outcomes-add-up",
        "outcomes add up to the items",
        sum(report.outcomes.values()),
        report.items,
    )
    yield _claim(
        "evidence-policy/nothing-left-out",
        "every item that did not succeed is listed, or counted as left out",
        len(apart.listed) + apart.unlisted,
        max(missed, 0),
    )


def _answers(report: RunReport) -> Iterator[EvidenceReport]:
    kept = report.outcomes.get("succeeded", 0) + report.outcomes.get("rejected", 0)
    answers = sum(row.answers for row in report.tokens)
    yield _claim(
        "evidence-policy/answers-counted",
        "items with an answer have one that was counted",
        kept,
        answers,
        "at most",
    )


def _batches(report: RunReport) -> Iterator[EvidenceReport]:
    read = [batch for batch in report.batches if batch.lines is not None]
    lines = sum(sum(batch.lines.model_dump().values()) for batch in read if batch.lines)
    yield _claim(
        "evidence-policy/lines-match-items",
        "of each batch that was read every item has its line, or is counted as without",
        lines,
        sum(batch.count for batch in read),
    )
    made = sum(b.count for b in report.batches if b.batch_id is not None and not b.recovered)
    if not report.asked.replaced:
        again = sum(row.items for row in report.put_back)
        yield _claim(
            "retry-fragmentation-policy/selective",
            "nothing was sent in a batch but new items and items put back",
            made,
            report.items + again,
            "at most",
        )


def _retries(report: RunReport) -> Iterator[EvidenceReport]:
    if any(batch.recovered for batch in report.batches):
        # The tries of a lost store were made elsewhere, and are counted here once more.
        return
    most = max((row.after for row in report.put_back), default=0)
    yield _claim(
        "retry-fragmentation-policy/capped",
        "no item was put back after its last try",
        most,
        report.asked.attempt_cap - 1,
        "at most",
    )


def _ids(report: RunReport) -> Iterator[EvidenceReport]:
    told = {item.custom_id: item.id for item in report.not_succeeded.listed}
    told |= {example.custom_id: example.id for example in report.ids.examples}
    ids = {item.id for item in report.not_succeeded.listed}
    ids |= {example.id for example in report.ids.examples}
    legal = sum(LEGAL.fullmatch(custom_id) is not None for custom_id in told)
    yield _claim(
        "custom-id-policy/unique", "every id has a custom_id of its own", len(told), len(ids)
    )
    yield _claim(
        "custom-id-policy/legal", "every custom_id is one that the API takes", legal, len(told)
    )
