"""
Events that a person should read as they happen, each in one line.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from batchwright import events
from batchwright.events import Event
from batchwright.listeners._board import counted, span, told_items


def start_line(event: events.RunStarted) -> str:
    """Return the line that says what begins: with whom, from where, how much."""
    orgs = "; ".join(
        f"{talk.base_url} (API version {talk.api_version}, org {talk.org})"
        for talk in event.talking_to
    )
    left = f", {event.waiting:,} to send" if event.waiting != event.items else ""
    sent = counted(event.live, "sub-batch", "sub-batches")
    live = f", {sent} to go on with" if event.live else ""
    return (
        f"run {event.run_id!r}: {told_items(event.items)}{left}{live}; talking to {orgs}; "
        f"store {event.store}; policy {event.policy}"
    )


def _sent(event: events.ShardSubmitted) -> str:
    return f"sub-batch {event.shard} sent: {told_items(event.count)} as {event.batch_id}"


def _harvested(event: events.BatchHarvested) -> str:
    results = counted(event.lines, "result", "results")
    return f"sub-batch {event.shard} ended and read: {results} of {event.batch_id}"


def _refused(event: events.ShardRefused) -> str:
    status = f"{event.status} " if event.status else ""
    return (
        f"sub-batch {event.shard} refused: {status}{event.error}: {event.message}; {event.action}"
    )


def _held(event: events.ShardHeld) -> str:
    return (
        f"sub-batch {event.shard} held ({event.reason}), {told_items(event.count)}: {event.remedy}"
    )


def _waiting(event: events.WaitingForOwner) -> str:
    return f"{event.owner} owned this run; taking over in {span(event.left)} unless it shows life"


def _joined(event: events.WorkerJoined) -> str:
    company = f"with {event.others} others" if event.others != 1 else "with 1 other"
    return f"at work as worker {event.worker}{f', {company}' if event.others else ''}"


def _lost(event: events.WorkerLost) -> str:
    what = "is gone" if event.certain else "shows no life any more"
    return f"worker {event.worker} ({event.owner}) {what}; the others take over what it had"


def _conducting(event: events.Conducting) -> str:
    return f"this process conducts the run now (wave {event.wave})"


def _unknown(event: events.CreateUnknown) -> str:
    return (
        f"sub-batch {event.shard} got no answer to its create ({event.why}); it is looked up, "
        f"none of its {told_items(event.count)} is sent again meanwhile"
    )


def _settled(event: events.CreateSettled) -> str:
    what = {
        "adopted": f"was made all the same, as {event.batch_id}",
        "never made": "was never made; its items are sent again",
        "not ours": f"is not {event.batch_id}, which belongs to somebody else",
    }
    return f"sub-batch {event.shard} {what.get(event.verdict, event.verdict)}"


def _retried(event: events.CallRetried) -> str:
    return f"{event.call} failed, again in {span(event.wait)}: {event.why}"


def _poll_failed(event: events.PollFailed) -> str:
    return f"no news of {event.batch_id}, again in {span(event.wait)}: {event.why}"


def _status_unknown(event: events.StatusUnknown) -> str:
    return f"{event.batch_id} has the unknown status {event.status!r}; waiting for it all the same"


def _overdue(event: events.DeadlineExceeded) -> str:
    return (
        f"ALARM: {event.batch_id} did not end in its time; canceled, what it holds is read, "
        f"the rest of its {told_items(event.count)} is held"
    )


def _canceled(event: events.BatchCanceled) -> str:
    by = "by somebody else" if event.by == "elsewhere" else f"({event.by})"
    return f"{event.batch_id} is being canceled {by}"


def _reread(event: events.ResultsReread) -> str:
    return f"the results of {event.batch_id} broke off, reading them again: {event.why}"


def _failed(event: events.ShardFailed) -> str:
    return f"ALARM: sub-batch {event.shard} stopped, its state is kept: {event.why}"


def _paused(event: events.OrgPaused) -> str:
    return f"org {event.org} is stopped, nothing more is sent through it: {event.reason}"


def _cached(event: events.AnsweredFromCache) -> str:
    return f"{told_items(event.count)} answered from earlier runs, nothing is sent for them"


def _validator(event: events.ValidatorBroke) -> str:
    return f"validate broke on item {event.item!r}, its answer is kept: {event.error}"


def _policy(event: events.PolicyBroke) -> str:
    return f"the policy broke and is taken to stay: {event.error}"


def _wedged(event: events.WaveLooksWedged) -> str:
    return (
        f"no sub-batch has ended for {span(event.quiet_for)}, {event.live} are out, "
        f"{told_items(event.remaining)} remain: {event.advice}"
    )


def _recovered(event: events.BatchRecovered) -> str:
    return f"{event.batch_id} is of this run: read for {told_items(event.count)}"


def _skipped(event: events.BatchSkipped) -> str:
    return f"{event.batch_id} {event.why}"


def _switched(event: events.SwitchDecided) -> str:
    premium = event.facts.get("premium")
    extra = "unknown" if premium is None else f"about ${premium:,.2f}"
    part = "" if event.share >= 1.0 else f" ({event.share:.0%} of them)"
    return (
        f"switching to direct calls: {event.reason}; {told_items(event.remaining)}{part} remain; "
        f"extra cost {extra}"
    )


def _anomaly(event: events.Anomaly) -> str:
    some = ", ".join(event.examples[:3])
    return f"results of {event.batch_id}: {event.count} {event.kind} ids ({some})"


_ROUTINE: dict[type[Event], Callable[[Any], str]] = {
    events.ShardSubmitted: _sent,
    events.BatchHarvested: _harvested,
    events.BatchRecovered: _recovered,
}
_NEWS: dict[type[Event], Callable[[Any], str]] = {
    events.RunStarted: start_line,
    events.ShardRefused: _refused,
    events.ShardHeld: _held,
    events.AnsweredFromCache: _cached,
    events.WaitingForOwner: _waiting,
    events.WorkerJoined: _joined,
    events.WorkerLost: _lost,
    events.Conducting: _conducting,
    events.CreateUnknown: _unknown,
    events.CreateSettled: _settled,
    events.CallRetried: _retried,
    events.PollFailed: _poll_failed,
    events.StatusUnknown: _status_unknown,
    events.DeadlineExceeded: _overdue,
    events.BatchCanceled: _canceled,
    events.ResultsReread: _reread,
    events.Anomaly: _anomaly,
    events.BatchSkipped: _skipped,
    events.ShardFailed: _failed,
    events.OrgPaused: _paused,
    events.ValidatorBroke: _validator,
    events.PolicyBroke: _policy,
    events.WaveLooksWedged: _wedged,
    events.SwitchDecided: _switched,
}


def _finished(event: events.RunFinished) -> str:
    counts = {name: getattr(event, name) for name in ("succeeded", *_FAILED)}
    told = ", ".join(f"{count:,} {name}" for name, count in counts.items() if count)
    return (
        f"run {event.run_id!r} returned after {span(event.elapsed)}, {told_items(event.items)}: "
        f"{told or 'nothing to do'}"
    )


def _interrupted(event: events.RunInterrupted) -> str:
    if not event.live:
        live = ""
    elif event.live == 1:
        live = "1 batch goes on at the server; "
    else:
        live = f"{event.live} batches go on at the server; "
    return (
        f"run {event.run_id!r} was interrupted and its state is saved; {live}run the same again "
        f"to go on, or: {event.advice}"
    )


def _raised(event: events.RunFailed) -> str:
    return f"run {event.run_id!r} stopped: {event.error} was raised; what was stored before is safe"


_FAILED = ("quarantined", "rejected", "unresolved")
_ENDS: dict[type[Event], Callable[[Any], str]] = {
    events.RunFinished: _finished,
    events.RunInterrupted: _interrupted,
    events.RunFailed: _raised,
}


def news_of(event: Event, *, routine: bool = True, ends: bool = False) -> str | None:
    """
    Return the line for *event*; `None` where it needs none.

    *routine* tells the usual too. *ends* tells also how the run ended, where nobody else does.
    """
    kind = type(event)
    tell = _NEWS.get(kind) or (_ROUTINE.get(kind) if routine else None)
    tell = tell or (_ENDS.get(kind) if ends else None)
    return None if tell is None else tell(event)
