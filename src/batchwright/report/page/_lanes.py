"""
The timeline of a page as data: a lane for each org, a bar for each sub-batch.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Final

from batchwright.report.model import BatchReport, RunReport
from batchwright.report.page import _words as words
from batchwright.report.page._axis import Axis

#: Sub-batches drawn; of more than that the first ones, and how many are left out is told.
DRAWN: Final = 240


class Kind(StrEnum):
    """What became of a sub-batch, in the words of the legend."""

    SUCCEEDED = "all succeeded"
    MIXED = "some did not succeed"
    EXPIRED = "expired"
    CANCELED = "canceled"
    HELD = "held for a person"
    LIVE = "on the server"
    UNSENT = "not on the server"
    DIRECT = "direct calls"


@dataclass(frozen=True, slots=True, kw_only=True)
class Bar:
    """
    One sub-batch, or all direct calls together; places are per cent of the axis.

    `lead` is where it was cut, `tail` where its results were read; both equal the bar's own end
    where nobody knows. `expires` is where it expires, for a batch that lived to see it.
    """

    label: str
    kind: Kind
    note: str
    told: str
    lead: float
    start: float
    end: float
    tail: float
    expires: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Lane:
    """The sub-batches of one org."""

    name: str
    bars: tuple[Bar, ...]


def lanes_of(report: RunReport, axis: Axis) -> list[Lane]:
    """Return the lanes in the order of their first sub-batch, direct calls last."""
    orgs: dict[str, list[Bar]] = {}
    for batch in report.batches[:DRAWN]:
        orgs.setdefault(batch.org, []).append(_bar(batch, axis, report.reported_at))
    lanes = [Lane(name=f"org {name}", bars=tuple(bars)) for name, bars in orgs.items()]
    direct = _direct(report, axis)
    return [*lanes, *([Lane(name="direct calls", bars=(direct,))] if direct else [])]


def kind_of(batch: BatchReport) -> Kind:
    """Return what became of a sub-batch, the most telling thing first."""
    if batch.state == "held":
        return Kind.HELD
    if batch.state in {"planned", "sending"} or batch.batch_id is None:
        return Kind.UNSENT
    if batch.state == "live":
        return Kind.LIVE
    if batch.canceled_by is not None or _lines(batch, "canceled"):
        return Kind.CANCELED
    if _lines(batch, "expired"):
        return Kind.EXPIRED
    return Kind.MIXED if _failed(batch) else Kind.SUCCEEDED


def _lines(batch: BatchReport, kind: str) -> int:
    """Return how many results of a kind there are, as read, else as the server counted them."""
    if batch.lines is not None:
        return int(getattr(batch.lines, kind))
    return (batch.counts or {}).get(kind, 0)


def _failed(batch: BatchReport) -> int:
    """Return how many of its items did not succeed through it."""
    if batch.results is not None:
        return batch.count - batch.results.succeeded
    return sum(_lines(batch, kind) for kind in ("errored", "canceled", "expired"))


_CANCELED_BY: Final = {
    "user": "canceled by hand",
    "drain": "given up for direct calls",
    "overdue": "overdue, canceled",
}


def note_of(batch: BatchReport) -> str:
    """Return what became of a sub-batch, in a few words with numbers."""
    kind = kind_of(batch)
    if kind is Kind.HELD:
        return f"held: {batch.reason or 'unknown'}"
    if kind is Kind.UNSENT:
        sending = batch.state == "sending"
        return "sent, no answer yet" if sending else batch.reason or "not sent yet"
    if kind is Kind.LIVE:
        return "being canceled" if batch.canceled_by else "on the server"
    if kind is Kind.CANCELED:
        return _CANCELED_BY.get(batch.canceled_by or "", "canceled from elsewhere")
    if kind is Kind.EXPIRED:
        return f"{_lines(batch, 'expired'):,} expired"
    return _mixed(batch) if kind is Kind.MIXED else kind.value


def _mixed(batch: BatchReport) -> str:
    again = batch.results.again if batch.results is not None else 0
    lost = _failed(batch) - again
    if lost and again:
        return f"{lost:,} failed, {again:,} again"
    return f"{again:,} to be tried again" if again else f"{lost:,} did not succeed"


def _bar(batch: BatchReport, axis: Axis, now: datetime) -> Bar:
    start = batch.created_at or batch.sent_at or batch.planned_at
    open_end = now if batch.state == "live" else start
    end = max(batch.ended_at or open_end, start)
    tail = max(batch.done_at or end, end)
    lead = min(batch.sent_at or start, start)
    note = note_of(batch)
    return Bar(
        label=f"#{batch.shard}",
        kind=kind_of(batch),
        note=note,
        told=f"sub-batch {batch.shard}, {words.items(batch.count)}, "
        f"{words.span((end - start).total_seconds())}: {note}",
        lead=axis.at(lead),
        start=axis.at(start),
        end=axis.at(end),
        tail=axis.at(tail),
        expires=_expiry(batch, axis, end),
    )


def _expiry(batch: BatchReport, axis: Axis, end: datetime) -> float | None:
    """Return where a batch expires, for those that are still there then or may be."""
    at = batch.expires_at
    if at is None or not axis.holds(at) or (end < at and batch.state != "live"):
        return None
    return axis.at(at)


def _direct(report: RunReport, axis: Axis) -> Bar | None:
    direct = report.direct
    if direct is None or direct.first_at is None:
        return None
    # It began by this machine's clock; the switch was decided by the server's, as all else.
    start = max([direct.first_at, *(switch.decided_at for switch in report.switches[:1])])
    end = direct.last_at if direct.last_at and not report.in_flight else report.reported_at
    end = max(end, start)
    note = f"{direct.results.succeeded:,} of {direct.asked:,} succeeded"
    return Bar(
        label="all",
        kind=Kind.DIRECT,
        note=note,
        told=f"direct calls, {words.items(direct.asked)}: {note}",
        lead=axis.at(start),
        start=axis.at(start),
        end=axis.at(end),
        tail=axis.at(end),
    )


def kinds_in(lanes: list[Lane]) -> Iterator[Kind]:
    """Yield the kinds that occur, in the order of the legend."""
    there = {bar.kind for lane in lanes for bar in lane.bars}
    yield from (kind for kind in Kind if kind in there)
