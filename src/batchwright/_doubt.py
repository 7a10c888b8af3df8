"""
Which batch on the server a lost create may have made: pure.

Batches carry no name, so a lost create is recognised by when it was made and how many requests it
holds. That makes a candidate; the proof is the first result line, whose `custom_id` is ours or not.
"""

from __future__ import annotations

from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import Enum, auto

from batchwright._batches import BatchObject

#: The server's clock is known to about a second (`Date` has whole seconds); so much is allowed.
SLACK = timedelta(seconds=60)


@dataclass(frozen=True, slots=True, kw_only=True)
class Doubt:
    """
    A shard whose create got no answer.

    Attributes:
        count: Number of its requests.
        sent_at: When the POST left, on the server's clock.
        latest: When the server can have made the batch at the latest.
        overdue: Whether the batch, had it been made, would be listed by now.
        proof_only: Whether the time of sending is known so badly that a match is no match without
            a proof; the window is a day wider then.
        rivals: Other shards of ours in doubt, or on their way, that a batch of this count and
            time may belong to.
    """

    count: int
    sent_at: datetime
    latest: datetime
    overdue: bool
    proof_only: bool = False
    rivals: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Listing:
    """
    What the server listed.

    Attributes:
        batches: The batches of the window, newest first.
        complete: Whether it was read back beyond the start of the window.
        known: Ids of batches that belong to something already.
        claimed: Ids that another shard of ours took over on trial: only a proof takes them away.
        strangers: Ids whose first result line is not of the shard in doubt.
        ours: The id whose first result line is.
    """

    batches: Sequence[BatchObject]
    complete: bool
    known: AbstractSet[str] = frozenset()
    claimed: AbstractSet[str] = frozenset()
    strangers: AbstractSet[str] = frozenset()
    ours: AbstractSet[str] = frozenset()


class Next(Enum):
    """What is to be done about a shard in doubt."""

    #: It is this batch.
    ADOPT = auto()
    #: These have ended: read the first line of each.
    CHECK = auto()
    #: It was never made: its items may be sent.
    ABSENT = auto()
    #: Nothing can be said yet: look again later.
    WAIT = auto()


@dataclass(frozen=True, slots=True)
class Finding:
    """The next step, and the batches it is about."""

    next: Next
    batches: tuple[BatchObject, ...] = field(default=())


def candidates(doubt: Doubt, listing: Listing) -> list[BatchObject]:
    """Return the batches that may be the one in doubt: right time, right count, nobody's."""
    return [
        batch
        for batch in listing.batches
        if batch.id not in listing.known
        and batch.id not in listing.strangers
        and batch.total == doubt.count
        and batch.created_at is not None
        and doubt.sent_at - SLACK <= batch.created_at <= doubt.latest + SLACK
    ]


def assess(doubt: Doubt, listing: Listing) -> Finding:
    """
    Return what follows from a listing.

    A proof decides at once. Without one a batch is adopted only where the match is unambiguous;
    where several could be meant, they are waited for until their first lines can be read.
    """
    found = candidates(doubt, listing)
    proved = [batch for batch in found if batch.id in listing.ours]
    if proved:
        return Finding(Next.ADOPT, (proved[0],))
    unread = tuple(batch for batch in found if batch.ended)
    if unread:
        return Finding(Next.CHECK, unread)
    if not listing.complete:
        return Finding(Next.WAIT, tuple(found))
    alone = len(found) == 1 and doubt.rivals == 0 and found[0].id not in listing.claimed
    if alone and not doubt.proof_only:
        return Finding(Next.ADOPT, (found[0],))
    if found or not doubt.overdue:
        return Finding(Next.WAIT, tuple(found))
    return Finding(Next.ABSENT)
