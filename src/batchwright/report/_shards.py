"""
What the shards of a run tell: the life of each batch, direct calls, and what should not be.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from batchwright.report.model import (
    AnomalyReport,
    BatchReport,
    DirectReport,
    LinesReport,
    ResultsReport,
    StatusReport,
)
from batchwright.store import Shard

_LINES: Final = ("succeeded", "errored", "canceled", "expired")
_RESULTS: Final = ("succeeded", "quarantined", "rejected", "unresolved", "again")


def text_of(text: str) -> str:
    """Return *text* as it can be written: half a character from the wire becomes a mark."""
    return text.encode("utf-8", "replace").decode()


def is_direct(shard: Shard) -> bool:
    """Tell whether the items of *shard* were asked directly."""
    return shard.facts.get("path") == "sync"


def batches_of(shards: Sequence[Shard]) -> list[BatchReport]:
    """Return every sub-batch on the batch path, in the order in which they were cut."""
    return [_batch(shard) for shard in shards if not is_direct(shard)]


def _batch(shard: Shard) -> BatchReport:
    facts = shard.facts
    return BatchReport(
        shard=shard.number,
        wave=shard.wave,
        org=shard.org,
        state=shard.state.value,
        reason=shard.reason,
        batch_id=shard.batch_id,
        count=shard.count,
        size=shard.size,
        planned_at=shard.planned_at,
        sent_at=shard.sent_at,
        created_at=shard.created_at,
        expires_at=shard.expires_at,
        ended_at=shard.ended_at,
        done_at=shard.done_at,
        polls=shard.polls,
        statuses=[StatusReport(**seen) for seen in facts.get("seen", ())],
        canceled_by=shard.cancel or None,
        counts=dict(shard.counts) if shard.counts is not None else None,
        lines=LinesReport(**facts["lines"]) if "lines" in facts else None,
        results=_results(facts),
        late=facts.get("late", 0),
        stored_before=facts.get("stored_before", 0),
        rereads=facts.get("rereads", 0),
        adopted=bool(facts.get("adopted")),
        recovered=bool(facts.get("recovered")),
    )


def _results(facts: Mapping[str, Any]) -> ResultsReport | None:
    return ResultsReport(**facts["results"]) if "results" in facts else None


def direct_of(shards: Sequence[Shard]) -> DirectReport | None:
    """Return what went to direct calls, or `None` where nothing did."""
    groups = [shard for shard in shards if is_direct(shard)]
    if not groups:
        return None
    results: Counter[str] = Counter(dict.fromkeys(_RESULTS, 0))
    for shard in groups:
        results.update(shard.facts.get("results", {}))
    ends = [shard.done_at for shard in groups if shard.done_at is not None]
    return DirectReport(
        groups=len(groups),
        asked=sum(shard.count for shard in groups),
        results=ResultsReport(**results),
        first_at=min(shard.planned_at for shard in groups),
        last_at=max(ends, default=None),
    )


# -- what should not be -----------------------------------------------------------------------


def anomalies_of(shards: Sequence[Shard]) -> list[AnomalyReport]:
    """Return what should not be about the results of each batch."""
    return [
        AnomalyReport(
            shard=shard.number,
            batch_id=shard.batch_id,
            kind=kind,  # type: ignore[arg-type]
            count=count,
            examples=[text_of(example) for example in examples],
        )
        for shard in shards
        for kind, count, examples in _odd(shard)
        if count
    ]


def _odd(shard: Shard) -> Iterator[tuple[str, int, Sequence[str]]]:
    for kind, told in shard.facts.get("anomalies", {}).items():
        yield kind, told["count"], told["examples"]
    recovered = bool(shard.facts.get("recovered"))
    counted = miscounted(shard.facts.get("lines"), shard.counts, recovered=recovered)
    yield "miscounted", counted, ()
    yield "reread", shard.facts.get("rereads", 0), ()


def miscounted(
    lines: Mapping[str, int] | None, counts: Mapping[str, int] | None, *, recovered: bool
) -> int:
    """Return by how many lines the results of a batch differ from what the server counted."""
    if lines is None or counts is None or lines["none"] or recovered:
        return 0
    differences = [counts.get(kind, 0) - lines[kind] for kind in _LINES]
    return max(sum(d for d in differences if d > 0), sum(-d for d in differences if d < 0))
