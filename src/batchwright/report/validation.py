"""
Is a report, or a plan, one? Offline: its shape, and what it means.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import orjson
from pydantic import ValidationError
from pydantic_core import ErrorDetails

from batchwright.report.checks import PLAN_CHECKS, RUN_CHECKS
from batchwright.report.findings import Finding, place_of
from batchwright.report.model import Part, RunReport
from batchwright.report.plan import PlanReport

#: The rule of the shape, where no other rule owns a field.
SHAPE: Final = "message-batch-orchestration-contract/shape"


@dataclass(frozen=True, slots=True)
class Kind:
    """
    One kind of document.

    Attributes:
        model: Its shape.
        checks: What it means.
        owners: The rule that a field of the wrong shape breaks, by its path without places.
    """

    model: type[Part]
    checks: Sequence[Callable[[Any], Iterator[Finding]]]
    owners: dict[str, str]


_RUN_OWNERS: Final = {
    "asked.attempt_cap": "retry-fragmentation-policy/capped",
    "batches.sent_at": "lifecycle-policy/intent-before-create",
    "batches.statuses": "lifecycle-policy/processing-status",
    "not_succeeded": "evidence-policy/nothing-left-out",
    "not_succeeded.listed.custom_id": "custom-id-policy/legal",
    "not_succeeded.listed.reason": "evidence-policy/reasons-given",
    "not_succeeded.listed.status": "evidence-policy/reasons-given",
    "asked.workload": "workload-policy/offline",
    "ids": "custom-id-policy/stable",
    "switches": "message-batch-orchestration-contract/one-switch-a-wave",
    "talking_to": "message-batch-orchestration-contract/what-was-asked",
    "asked": "message-batch-orchestration-contract/what-was-asked",
    "options": "message-batch-orchestration-contract/what-was-asked",
    "cost": "evidence-policy/unknown-price-is-unknown",
    "tokens.usd": "evidence-policy/unknown-price-is-unknown",
    "waste": "evidence-policy/waste-told",
    "evidence": "evidence-policy/recomputed",
    "over_time": "evidence-policy/over-time",
    "anomalies": "evidence-policy/anomalies-told",
}

_PLAN_OWNERS: Final = {
    "asked.attempt_cap": "retry-fragmentation-policy/capped",
    "asked.workload": "workload-policy/offline",
    "asked": "message-batch-orchestration-contract/what-was-asked",
    "cost": "evidence-policy/unknown-price-is-unknown",
    "duplicates": "evidence-policy/nothing-left-out",
    "finish": "evidence-policy/ranges-have-sources",
    "ids": "custom-id-policy/stable",
    "items": "evidence-policy/plan-adds-up",
    "lifecycle": "lifecycle-policy/processing-status",
    "models": "evidence-policy/ranges-have-sources",
    "options": "message-batch-orchestration-contract/what-was-asked",
    "refusals": "evidence-policy/nothing-left-out",
    "stops": "message-batch-orchestration-contract/stops-are-told",
    "talking_to": "message-batch-orchestration-contract/what-was-asked",
    "tokens": "evidence-policy/ranges-have-sources",
    "troubles": "evidence-policy/nothing-left-out",
}

#: What `kind` may say. A new kind of document is one more entry.
KINDS: Final[dict[str, Kind]] = {
    "run": Kind(RunReport, RUN_CHECKS, _RUN_OWNERS),
    "plan": Kind(PlanReport, PLAN_CHECKS, _PLAN_OWNERS),
}


def validate(data: bytes) -> list[Finding]:
    """
    Return every breach of a rule in a document, none where it is in order.

    Args:
        data: The JSON text.

    Raises:
        ValueError: It is not JSON.
    """
    document = orjson.loads(data)
    if not isinstance(document, dict):
        return [Finding(rule=SHAPE, place="$", problem="is no object")]
    kind = KINDS.get(str(document.get("kind")))
    if kind is None:
        known = " or ".join(f'"{name}"' for name in KINDS)
        text = f"is {document.get('kind')!r}; it is {known}" if "kind" in document else "is missing"
        return [Finding(rule=SHAPE, place="kind", problem=text)]
    try:
        report = kind.model.model_validate_json(data, strict=True)
    except ValidationError as error:
        return [_misshapen(kind, one) for one in error.errors(include_url=False)]
    return [finding for check in kind.checks for finding in check(report)]


def _misshapen(kind: Kind, error: ErrorDetails) -> Finding:
    path = error["loc"]
    names = [part for part in path if isinstance(part, str)]
    owner = next(
        (
            kind.owners[prefix]
            for end in range(len(names), 0, -1)
            if (prefix := ".".join(names[:end])) in kind.owners
        ),
        SHAPE,
    )
    return Finding(rule=owner, place=place_of(path), problem=_said(error))


def _said(error: ErrorDetails) -> str:
    if error["type"] == "extra_forbidden":
        return "is not a field of this version"
    if error["type"] == "missing":
        return "is missing"
    return error["msg"][:1].lower() + error["msg"][1:]
