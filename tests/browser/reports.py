"""
Reports to draw pages from: built from the shapes alone, so that each looks as it is meant to.

What a run really reports is drawn too, see `tests/browser/__main__.py` and `tests/report`.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Any

from batchwright.report.model import (
    AskedReport,
    BatchReport,
    CostReport,
    DirectReport,
    ErrorReport,
    EvidenceReport,
    IdsReport,
    ItemReport,
    LimitsReport,
    LinesReport,
    NotSucceededReport,
    OptionsReport,
    PathCost,
    PointReport,
    PollingReport,
    ProjectionReport,
    PutBackReport,
    ResultsReport,
    RetryReport,
    RunReport,
    SwitchReport,
    SyncReport,
    TalkingReport,
    TokensReport,
    WorkloadReport,
)

START = datetime(2026, 3, 2, 8, 0, tzinfo=UTC)
MODEL = "claude-haiku-5-5"


def after(hours: float) -> datetime:
    """Return a moment of the run."""
    return START + timedelta(hours=hours)


def batch(number: int, *, begun: float = 0.0, took: float | None = 1.0, **more: Any) -> BatchReport:
    """Return a sub-batch that began and ended so many hours after the start; `None`: it has not."""
    count = more.get("count", 7_500)
    ended = None if took is None else after(begun + took)
    lines = LinesReport(succeeded=count, errored=0, canceled=0, expired=0, other=0, none=0)
    results = ResultsReport(succeeded=count, quarantined=0, rejected=0, unresolved=0, again=0)
    given: dict[str, Any] = {
        "shard": number,
        "wave": 1,
        "org": "research",
        "state": "live" if took is None else "done",
        "reason": None,
        "batch_id": f"msgbatch_01HkcTjaV5uDC8jWR4ZsDV{number:02d}",
        "count": count,
        "size": 640 * count,
        "planned_at": after(begun),
        "sent_at": after(begun),
        "created_at": after(begun + 0.01),
        "expires_at": after(begun + 24.01),
        "ended_at": ended,
        "done_at": None if ended is None else ended + timedelta(minutes=1),
        "polls": 30,
        "statuses": [],
        "canceled_by": None,
        "counts": None,
        "lines": None if took is None else lines,
        "results": None if took is None else results,
        "late": 0,
        "stored_before": 0,
        "rereads": 0,
        "adopted": False,
        "recovered": False,
    }
    return BatchReport(**{**given, **more})


def fell_short(count: int, failed: int, kind: str = "errored") -> dict[str, Any]:
    """Return what the results of a batch were, of which some did not succeed."""
    lines = {"succeeded": count - failed, "errored": 0, "canceled": 0, "expired": 0} | {
        kind: failed
    }
    results = {"succeeded": count - failed, "again": failed}
    return {
        "count": count,
        "lines": LinesReport(**lines, other=0, none=0),
        "results": ResultsReport(**results, quarantined=0, rejected=0, unresolved=0),
    }


_MESSAGES = {
    "exhausted": ("api_error", "Internal server error"),
    "invalid_request_error": (
        "invalid_request_error",
        "prompt is too long: 214,331 tokens > 200,000",
    ),
    "rejected": ("rejected", "the answer is not one of: yes, no"),
    "expired": ("expired", "the request was not processed before the batch expired"),
}
_STATUS = {"invalid_request_error": "quarantined", "rejected": "rejected"}


def missed(number: int, reason: str, **more: Any) -> ItemReport:
    """Return an item that did not succeed."""
    kind, message = _MESSAGES.get(reason, (reason, f"no answer: {reason}"))
    error = ErrorReport(type=kind, message=message, request_id=f"req_{number:06d}", code=None)
    given: dict[str, Any] = {
        "id": f"judge/round-7/document-{number:06d}",
        "custom_id": f"judge_round-7_document-{number:06d}-aZ{number:09d}",
        "status": _STATUS.get(reason, "unresolved"),
        "reason": reason,
        "error": error,
        "attempts": 3 if reason == "exhausted" else 1,
        "via": "batch",
        "org": "research",
        "batch_id": f"msgbatch_01HkcTjaV5uDC8jWR4ZsDV{number % 12 + 1:02d}",
    }
    return ItemReport(**{**given, **more})


def some_missed(counts: dict[str, int]) -> list[ItemReport]:
    """Return items that did not succeed, so many for each reason, mixed as in a run."""
    reasons = [reason for reason, count in counts.items() for _ in range(count)]
    spread = sorted(range(len(reasons)), key=lambda n: (n * 7_919) % max(len(reasons), 1))
    return [missed(place, reasons[n]) for place, n in enumerate(spread)]


def report(
    *, items: int, apart: Iterable[ItemReport] = (), unlisted: int = 0, **more: Any
) -> RunReport:
    """Return a report of so many items, of which those in *apart* did not succeed."""
    listed = list(apart)
    outcomes = dict.fromkeys(("succeeded", "quarantined", "rejected", "unresolved"), 0)
    for item in listed:
        outcomes[item.status] += 1
    outcomes["unresolved"] += unlisted
    outcomes["succeeded"] = items - len(listed) - unlisted
    reasons: dict[str, int] = {}
    for item in listed:
        reasons[item.reason] = reasons.get(item.reason, 0) + 1
    given: dict[str, Any] = {
        "kind": "run",
        "version": 1,
        "run_id": "judge-round-7",
        "created_at": START,
        "reported_at": after(26),
        "complete": not listed and not unlisted,
        "waves": 1,
        "items": items,
        "asked": AskedReport(
            models={MODEL: items} if items else {},
            attempt_cap=3,
            on_changed="error",
            replaced=False,
            workload=WorkloadReport(
                offline=True,
                latency_tolerant=True,
                streaming=False,
                user_waiting=False,
                one_by_one=False,
            ),
        ),
        "policy": "balanced",
        "options": OptionsReport(
            limits=LimitsReport(
                max_requests=8_000, max_bytes=250_000_000, max_live=None, concurrency=8
            ),
            polling=PollingReport(interval=60, grace=1_800),
            retry=RetryReport(max_attempts=3, call_attempts=5, backoff=1, max_backoff=60),
            sync=SyncReport(concurrency=64, max_bytes=32_000_000, rpm=None),
            store="judge.db",
        ),
        "talking_to": [
            TalkingReport(org=org, base_url="https://api.anthropic.com", api_version="2026-10-21")
            for org in ("research", "evals")
        ],
        "outcomes": outcomes,
        "waiting": 0,
        "in_flight": 0,
        "reasons": reasons,
        "truncated": 0,
        "refused": 0,
        "not_succeeded": NotSucceededReport(
            total=len(listed) + unlisted, unlisted=unlisted, listed=listed
        ),
        "put_back": [],
        "ids": IdsReport(pattern="^.*$", derived_from=["the item's id"], examples=[]),
        "batches": [],
        "direct": None,
        "switches": [],
        "stopped_by": [],
        "tokens": [],
        "waste": [],
        "cost": CostReport(
            usd=0.0, known_usd=0.0, unknown_models=[], by_path={}, waste_usd=0.0, direct_usd=0.0
        ),
        "anomalies": [],
        "evidence": [
            EvidenceReport(
                rule="evidence-policy/outcomes-add-up",
                claim="outcomes add up to the items",
                relation="equal",
                found=items,
                expected=items,
                holds=True,
            )
        ],
        "over_time": [],
        "results_kept_until": None,
    }
    return RunReport(**{**given, **more})


def paid(batch_answers: int, sync_answers: int) -> dict[str, Any]:
    """Return tokens and money of so many answers by each path."""
    rates = {"batch": (0.0011, batch_answers), "sync": (0.0022, sync_answers)}
    tokens = [
        TokensReport(
            via=via,  # type: ignore[arg-type]
            model=MODEL,
            answers=answers,
            input=612 * answers,
            output=187 * answers,
            cache_write=0,
            cache_read=0,
            usd=rate * answers,
        )
        for via, (rate, answers) in rates.items()
        if answers
    ]
    by_path = {
        row.via: PathCost(
            answers=row.answers,
            input=row.input,
            output=row.output,
            cache_write=0,
            cache_read=0,
            usd=row.usd,
        )
        for row in tokens
    }
    whole = sum(row.usd or 0.0 for row in tokens)
    return {
        "tokens": tokens,
        "cost": CostReport(
            usd=whole,
            known_usd=whole,
            unknown_models=[],
            by_path=by_path,
            waste_usd=0.0,
            direct_usd=0.0022 * (batch_answers + sync_answers),
        ),
    }


# -- the reports that are looked at ---------------------------------------------------------------


def large() -> RunReport:
    """90,000 items in two orgs over a day: sub-batches that expire, are held, and a switch."""
    spans = [0.7, 1.1, 1.4, 2.2, 3.1, 4.9, 6.4]
    batches = [
        batch(n + 1, begun=0.02 * n, took=took, org="research" if n % 2 == 0 else "evals")
        for n, took in enumerate(spans)
    ]
    drained = {"canceled_by": "drain", **fell_short(7_500, 7_100, "canceled")}
    batches[3] = batch(4, begun=0.06, took=2.2, org="evals", **fell_short(7_500, 41))
    batches += [
        batch(8, begun=0.14, took=9.6, org="evals", **drained),
        batch(9, begun=0.16, took=9.9, **drained),
        batch(10, begun=0.18, took=24.01, org="evals", **fell_short(7_500, 3_204, "expired")),
        batch(
            11,
            begun=0.2,
            took=None,
            state="held",
            reason="overdue",
            ended_at=after(24.8),
            canceled_by="overdue",
        ),
        batch(12, begun=0.22, took=10.4, org="evals", **drained),
        batch(13, begun=2.4, took=2.1, org="evals", **fell_short(41, 6)),
        batch(14, begun=24.4, took=0.8, **fell_short(3_204, 120)),
    ]
    points = [PointReport(at=START, batch=0, sync=0)]
    total = sync = 0
    for hour in range(1, 105):
        at = hour / 4
        total = sum(7_500 for took in spans if took < at) + (4_296 if at > 24.1 else 0)
        total += 3_084 if at > 25.2 else 0
        sync = min(int(max(at - 9.7, 0) * 9_500), 21_180)
        points.append(PointReport(at=after(at), batch=total, sync=sync))
    apart = some_missed({"exhausted": 3_100, "invalid_request_error": 1_240, "rejected": 310})
    apart += [missed(80_000 + n, "overdue") for n in range(4_290)]
    return report(
        items=90_000,
        apart=apart,
        waves=2,
        truncated=212,
        refused=17,
        batches=batches,
        direct=DirectReport(
            groups=84,
            asked=21_300,
            results=ResultsReport(
                succeeded=21_180, quarantined=4, rejected=16, unresolved=100, again=0
            ),
            first_at=after(9.7),
            last_at=after(12.0),
        ),
        switches=[
            SwitchReport(
                wave=1,
                reason="batches need about 14 h more and direct calls 2 h 20 min: over 3 times",
                share=0.6,
                decided_at=after(9.55),
                remaining=37_500,
                drain="progressive",
                race=False,
                batch_finish=ProjectionReport(
                    low=21_000, likely=50_400, high=52_200, source="ages of ended", steady=True
                ),
                sync_finish=ProjectionReport(
                    low=6_000, likely=8_400, high=11_000, source="measured", steady=True
                ),
                premium=23.43,
                live=5,
                ended=8,
            )
        ],
        put_back=[
            PutBackReport(reason="api_error", after=1, items=47),
            PutBackReport(reason="expired", after=1, items=3_204),
            PutBackReport(reason=None, after=0, items=21_300),
        ],
        over_time=points,
        results_kept_until=after(29 * 24),
        **paid(total, sync),
    )


def empty() -> RunReport:
    """A run without items."""
    return report(items=0, talking_to=[], waves=0, policy="cost")


def single() -> RunReport:
    """One item, answered."""
    return report(
        items=1,
        run_id="one",
        batches=[batch(1, took=0.05, count=1)],
        over_time=[
            PointReport(at=START, batch=0, sync=0),
            PointReport(at=after(0.06), batch=1, sync=0),
        ],
        **paid(1, 0),
    )


def failures() -> RunReport:
    """5,000 items that did not succeed, out of 12,000."""
    counts = {"exhausted": 2_400, "invalid_request_error": 1_900, "rejected": 650, "expired": 50}
    return report(
        items=12_000,
        apart=some_missed(counts),
        batches=[
            batch(1, took=0.9, **fell_short(6_000, 2_400)),
            batch(2, begun=0.05, took=1.3, **fell_short(6_000, 2_600)),
        ],
        over_time=[
            PointReport(at=START, batch=0, sync=0),
            PointReport(at=after(0.9), batch=3_600, sync=0),
            PointReport(at=after(1.4), batch=7_000, sync=0),
        ],
        **paid(7_000, 0),
    )


def running() -> RunReport:
    """A run in the middle, many small sub-batches, the price of a model unknown."""
    done = [
        batch(n, begun=n * 0.01, took=0.3 + (n * 37 % 100) / 60, count=500) for n in range(1, 61)
    ]
    alive = [batch(n, begun=n * 0.01, took=None, count=500) for n in range(61, 80)]
    unknown = paid(30_000, 0)
    unknown["cost"] = CostReport(
        usd=None,
        known_usd=12.5,
        unknown_models=["claude-next-6"],
        by_path=unknown["cost"].by_path,
        waste_usd=0.0,
        direct_usd=None,
    )
    return report(
        items=40_000,
        apart=[missed(n, "in_flight", error=None, attempts=0, batch_id=None) for n in range(9_500)],
        unlisted=500,
        in_flight=9_500,
        waiting=500,
        reported_at=after(2.5),
        batches=[*done, *alive],
        over_time=[PointReport(at=after(n / 20), batch=500 * n, sync=0) for n in range(45)]
        + [PointReport(at=after(2.3), batch=30_000, sync=0)],
        **unknown,
    )


#: Texts that would like to be more than text.
HOSTILE = (
    "</script><script>broken = 1</script>",
    "<!--<script>",
    "<img src=x onerror=broken=1>",
    "\"'><svg onload=broken=1>",
    "$body ${data} &lt; \u2028 \u202e",
)


def hostile() -> RunReport:
    """Every text of the report tries to break out of its place."""
    text = HOSTILE[0]
    apart = [
        missed(
            number,
            one,
            id=one,
            error=ErrorReport(type=one, message=one, request_id=one, code=one),
            batch_id=one,
        )
        for number, one in enumerate(HOSTILE)
    ]
    return report(
        items=10,
        apart=apart,
        run_id=text,
        policy=text,
        batches=[batch(1, org=text, state="held", reason=text, batch_id=text)],
        stopped_by=[text],
        talking_to=[TalkingReport(org=text, base_url=text, api_version=text)],
    )


ALL = {
    "large": large,
    "empty": empty,
    "single": single,
    "failures": failures,
    "running": running,
}
