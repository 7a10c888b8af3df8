"""
The summary at the end of a command: what became of the items, why, and what to type next.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from batchwright._context import REMEDIES
from batchwright._recover import NOT_RECOVERED
from batchwright.cli._advice import command, hints_for, next_steps
from batchwright.cli._options import Where
from batchwright.errors import ConfigurationError
from batchwright.listeners._board import span, told_items
from batchwright.report import RunReport
from batchwright.result import RunResult
from batchwright.types import Outcome, Status

#: Ids shown for each reason.
EXAMPLES = 3
_LONGEST = 160


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """Everything that is told at the end, before it has a form."""

    where: Where
    report: RunReport
    counts: Mapping[Status, int]
    reasons: Mapping[str, int]
    examples: Mapping[str, Sequence[Outcome]]
    stopped: Sequence[tuple[str, str]] = ()
    out: str | None = None
    written: int | None = None
    elapsed: float | None = None
    base_url: str | None = None

    @property
    def next(self) -> list[str]:
        """Commands to type next, each with its why."""
        if any(reason == NOT_RECOVERED for reason, _ in self.stopped):
            # Nothing else: what goes on with the run may pay for what those batches answer.
            again = command("recover", self.where, "ITEMS.jsonl", base_url=self.base_url)
            return [f"{again}   # once they have ended; to resume before may pay twice"]
        return next_steps(
            self.where,
            self.reasons,
            base_url=self.base_url,
            out=self.out,
            written=self.written is not None,
        )


def examples_of(result: RunResult) -> dict[str, list[Outcome]]:
    """Return a few outcomes for each reason why items did not succeed."""
    found: dict[str, list[Outcome]] = {}
    for status in ("quarantined", "rejected", "unresolved"):
        try:
            outcomes: Iterable[Outcome] = getattr(result, status)
        except ConfigurationError:
            continue  # more than are kept in memory: the output file lists them
        for outcome in outcomes:
            some = found.setdefault(outcome.reason or outcome.status, [])
            if len(some) < EXAMPLES:
                some.append(outcome)
    return found


def reasons_of(result: RunResult) -> dict[str, int]:
    """Return the reasons of a result; of very many failures the store's own count is exact."""
    counted = result.reasons()
    missed = len(result) - result.counts["succeeded"] - sum(counted.values())
    return counted if not missed else {**counted, **result.report.reasons}


# -- for people -----------------------------------------------------------------------------------


def lines_of(summary: Summary) -> list[str]:
    """Return the summary as lines of text."""
    report, counts = summary.report, summary.counts
    total = sum(counts.values())
    states = ", ".join(f"{count:,} {status}" for status, count in counts.items() if count)
    took = f" in {span(summary.elapsed)}" if summary.elapsed is not None else ""
    lines = [f"Run {report.run_id!r}: {told_items(total)}{took}: {states or 'nothing to do'}"]
    if total != report.items:
        lines.append(f"  (the run holds {told_items(report.items)} in all)")
    lines += _blemishes(report)
    lines += _failures(summary)
    lines += _tokens(report)
    lines += _places(summary)
    for reason, message in summary.stopped:
        lines.append(f"{'Not recovered' if reason == NOT_RECOVERED else 'Stopped'}: {message}")
        lines += hints_for(message)
    lines += [f"Next: {step}" for step in summary.next]
    return lines


def _blemishes(report: RunReport) -> list[str]:
    found = []
    if report.truncated:
        found.append(f"{report.truncated:,} cut off (raise max_tokens)")
    if report.refused:
        found.append(f"{report.refused:,} in which the model declined")
    return [f"  among the succeeded: {', '.join(found)}"] if found else []


def _failures(summary: Summary) -> list[str]:
    lines = []
    for reason, count in sorted(summary.reasons.items(), key=lambda pair: -pair[1]):
        remedy = f" - {REMEDIES[reason]}" if reason in REMEDIES else ""
        lines.append(f"  {count:,} {reason}{remedy}")
        some = summary.examples.get(reason, ())
        lines += [f"    {_told(outcome)}" for outcome in some]
        if some and count > len(some):
            lines.append(f"    … and {count - len(some):,} more")
    return lines


def _told(outcome: Outcome) -> str:
    error = outcome.error
    if error is None:
        return repr(outcome.id)
    text = " ".join(f"{error.type}: {error.message}".split())
    return f"{outcome.id!r}: {text if len(text) <= _LONGEST else text[:_LONGEST] + '…'}"


def _tokens(report: RunReport) -> list[str]:
    lines = [
        f"Tokens ({spent.via}, {spent.model}, {spent.answers:,} answers): {spent.input:,} in, "
        f"{spent.output:,} out" + _cached(spent.cache_write, spent.cache_read)
        for spent in report.tokens
    ]
    if wasted := sum(spent.answers for spent in report.waste):
        lines.append(f"Answers that came after another one: {wasted:,}")
    return lines


def _cached(written: int, read: int) -> str:
    return f", {written:,} written to the cache, {read:,} read from it" if written or read else ""


def _places(summary: Summary) -> list[str]:
    lines = []
    if summary.written is not None:
        lines.append(f"Results: {summary.out} ({summary.written:,} lines, in input order)")
    lines.append(f"Store: {summary.where.place}")
    kept = summary.report.results_kept_until
    if kept is not None:
        lines.append(f"The API keeps these results until {when(kept)}")
    lines += [
        f"Talked to {talk.base_url} (API version {talk.api_version}, org {talk.org})"
        for talk in summary.report.talking_to
    ]
    return lines


def when(moment: datetime) -> str:
    """Return a moment as people here write it."""
    return f"{moment.astimezone():%Y-%m-%d %H:%M %Z}"


# -- for machines ---------------------------------------------------------------------------------


def json_of(summary: Summary, code: int) -> dict[str, Any]:
    """Return the summary as one JSON object."""
    report = summary.report
    told = report.model_dump(
        mode="json",
        include={"run_id", "truncated", "refused", "tokens", "waste", "talking_to"},
    )
    return {
        "exit": code,
        **told,
        "store": summary.where.place,
        "items": sum(summary.counts.values()),
        "outcomes": dict(summary.counts),
        "reasons": dict(summary.reasons),
        "examples": {
            reason: [_example(outcome) for outcome in some]
            for reason, some in summary.examples.items()
        },
        "stopped": [{"reason": reason, "message": text} for reason, text in summary.stopped],
        "out": summary.out if summary.written is not None else None,
        "written": summary.written,
        "elapsed": summary.elapsed,
        "results_kept_until": report.results_kept_until,
        "next": summary.next,
    }


def _example(outcome: Outcome) -> dict[str, Any]:
    error = outcome.error
    told = None if error is None else {"type": error.type, "message": error.message}
    return {"id": outcome.id, "status": outcome.status, "error": told}
