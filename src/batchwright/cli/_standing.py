"""
What `status` shows: the same numbers as during a run, read from the store.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from batchwright._clock import clock
from batchwright._context import REMEDIES
from batchwright.cli._advice import next_steps
from batchwright.cli._files import reader
from batchwright.cli._options import Where
from batchwright.cli._summary import EXAMPLES, when
from batchwright.listeners._board import SHOWN, STATES, age_and_rest, span, told_items
from batchwright.runner import BatchRunner
from batchwright.status import RunStatus
from batchwright.store import Shard
from batchwright.types import Outcome


@dataclass(frozen=True, slots=True)
class Standing:
    """A run as its store has it."""

    where: Where
    status: RunStatus
    examples: Mapping[str, Sequence[Outcome]]
    talking_to: Sequence[Mapping[str, Any]]
    now: datetime

    @property
    def reasons(self) -> dict[str, int]:
        """Why items have no answer, with those that simply wait or travel."""
        progress = self.status.progress
        still = {"waiting": progress.waiting, "in_flight": progress.in_flight}
        return dict(self.status.reasons) | {word: count for word, count in still.items() if count}

    @property
    def next(self) -> list[str]:
        """Commands to type next; none while somebody works on the run."""
        if self.status.owner is not None:
            return []
        if not self.status.intake_complete:
            return ["run it again with its items: nothing was sent yet"]
        return next_steps(self.where, self.reasons)


async def read_standing(where: Where) -> Standing:
    """
    Return what stands about a run.

    Raises:
        ConfigurationError: No such run.
    """
    # Two of them: what a runner opens it closes.
    status = await BatchRunner(store=reader(where.store)).status(where.run_id)
    store = reader(where.store)
    await store.open()
    try:
        examples = {}
        for reason in status.reasons:
            rows = await store.read_rows(where.run_id, -1, EXAMPLES, reason=reason)
            examples[reason] = [row.outcome for row in rows]
    finally:
        await store.close()
    talking = status.info.facts.get("talking_to", [])
    return Standing(where, status, examples, talking, clock().now())


def lines_of_standing(standing: Standing) -> list[str]:
    """Return it as lines of text."""
    status = standing.status
    progress = status.progress
    owner = f"at work: {status.owner}" if status.owner else "nobody works on it now"
    lines = [f"Run {status.run_id!r} in {standing.where.place}: {owner}"]
    if not status.intake_complete:
        lines.append("Its items were not read to the end; nothing was sent.")
    lines.append(f"{told_items(progress.total)}:")
    lines += [f"  {getattr(progress, name):>12,} {words}" for name, words in STATES]
    if status.truncated or status.refused:
        cut, no = status.truncated, status.refused
        lines.append(f"  among the succeeded: {cut:,} cut off, {no:,} in which the model declined")
    lines += _reasons(standing)
    lines += _live(standing)
    lines += [f"Held: {_held(shard)}" for shard in status.held]
    if status.kept_until is not None:
        lines.append(f"The API keeps results not read yet until {when(status.kept_until)}")
    lines += [
        f"Talking to {talk['base_url']} (API version {talk['api_version']}, org {talk['org']})"
        for talk in standing.talking_to
    ]
    return lines + [f"Next: {step}" for step in standing.next]


def _reasons(standing: Standing) -> list[str]:
    lines = []
    for reason, count in sorted(standing.status.reasons.items(), key=lambda pair: -pair[1]):
        some = ", ".join(repr(outcome.id) for outcome in standing.examples.get(reason, ()))
        lines.append(f"  {count:,} {reason}" + (f": {some}" if some else ""))
    return lines


def _live(standing: Standing) -> list[str]:
    live = sorted(standing.status.live, key=lambda shard: shard.created_at or shard.planned_at)
    lines = [f"Live: {_alive(shard, standing.now)}" for shard in live[:SHOWN]]
    if len(live) > SHOWN:
        lines.append(f"Live: and {len(live) - SHOWN} more")
    return lines


def _alive(shard: Shard, now: datetime) -> str:
    name = shard.batch_id or f"sub-batch {shard.number} ({shard.state})"
    text = f"{name}, {told_items(shard.count)}"
    age, left = age_and_rest(shard.created_at, shard.expires_at, now)
    if shard.created_at is not None:
        text += f", {span(age)} old"
    return text if left is None else f"{text}, expires in {span(left)}"


def _held(shard: Shard) -> str:
    name = shard.batch_id or f"sub-batch {shard.number}"
    reason = shard.reason or "unknown"
    return f"{name}, {told_items(shard.count)}: {reason}: {REMEDIES.get(reason, '')}".rstrip(": ")


def json_of_standing(standing: Standing) -> dict[str, Any]:
    """Return it as one JSON object."""
    status = standing.status
    progress = status.progress
    return {
        "run_id": status.run_id,
        "store": standing.where.place,
        "owner": status.owner,
        "intake_complete": status.intake_complete,
        "items": progress.total,
        "progress": {name: getattr(progress, name) for name, _ in STATES},
        "reasons": dict(status.reasons),
        "examples": {
            reason: [outcome.id for outcome in some] for reason, some in standing.examples.items()
        },
        "truncated": status.truncated,
        "refused": status.refused,
        "live": [_shard(shard, standing.now) for shard in status.live],
        "held": [_shard(shard, standing.now) for shard in status.held],
        "results_kept_until": status.kept_until,
        "talking_to": [dict(talk) for talk in standing.talking_to],
        "next": standing.next,
    }


def _shard(shard: Shard, now: datetime) -> dict[str, Any]:
    age, left = age_and_rest(shard.created_at, shard.expires_at, now)
    return {
        "shard": shard.number,
        "batch_id": shard.batch_id,
        "org": shard.org,
        "state": str(shard.state),
        "items": shard.count,
        "created_at": shard.created_at,
        "expires_at": shard.expires_at,
        "age": age if shard.created_at else None,
        "expires_in": left,
        "reason": shard.reason,
        "remedy": REMEDIES.get(shard.reason or ""),
    }
