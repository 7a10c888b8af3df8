"""Which batch a lost create may have made: the table of cases."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from batchwright._batches import BatchObject
from batchwright._doubt import Doubt, Listing, Next, assess, candidates

SENT = datetime(2026, 11, 29, 12, tzinfo=UTC)


def batch(name="a", *, count=3, after=1.0, status="in_progress"):
    """Return a batch made *after* seconds from the sending."""
    return BatchObject(
        id=name,
        status=status,
        created_at=SENT + timedelta(seconds=after),
        expires_at=None,
        ended_at=None,
        cancel_initiated_at=None,
        archived_at=None,
        results_url=None,
        counts={"processing": count},
    )


def doubt(**changes):
    base = {
        "count": 3,
        "sent_at": SENT,
        "latest": SENT + timedelta(seconds=900),
        "overdue": False,
    }
    return Doubt(**{**base, **changes})


def listing(*batches, **changes):
    return Listing(**{"batches": batches, "complete": True, **changes})


@pytest.mark.parametrize(
    ("case", "seen", "step"),
    [
        (doubt(), listing(), Next.WAIT),
        (doubt(overdue=True), listing(), Next.ABSENT),
        (doubt(overdue=True), listing(complete=False), Next.WAIT),
        (doubt(), listing(batch()), Next.ADOPT),
        (doubt(overdue=True), listing(batch()), Next.ADOPT),
        (doubt(), listing(batch(), complete=False), Next.WAIT),
        (doubt(rivals=1), listing(batch()), Next.WAIT),
        (doubt(), listing(batch("a"), batch("b")), Next.WAIT),
        (doubt(), listing(batch(), claimed=frozenset({"a"})), Next.WAIT),
        (doubt(overdue=True), listing(batch(), known=frozenset({"a"})), Next.ABSENT),
        (doubt(overdue=True), listing(batch(), strangers=frozenset({"a"})), Next.ABSENT),
        (doubt(), listing(batch(status="ended")), Next.CHECK),
        (doubt(rivals=1), listing(batch(status="ended"), ours=frozenset({"a"})), Next.ADOPT),
        (
            doubt(),
            listing(batch("a"), batch("b", status="ended"), ours=frozenset({"b"})),
            Next.ADOPT,
        ),
        # Sent by a clock that may be wrong: a match needs a proof, an empty list needs none.
        (doubt(proof_only=True), listing(batch()), Next.WAIT),
        (doubt(proof_only=True, overdue=True), listing(), Next.ABSENT),
    ],
)
def test_what_follows_from_a_listing(case, seen, step):
    """A proof decides; without one only an unambiguous match, or a list without any."""
    assert assess(case, seen).next is step


@pytest.mark.parametrize(
    ("one", "fits"),
    [
        (batch(), True),
        (batch(count=4), False),
        (batch(after=-30.0), True),
        (batch(after=-3_600.0), False),
        (batch(after=930.0), True),
        (batch(after=3_600.0), False),
    ],
)
def test_candidates_fit_in_time_and_count(one, fits):
    """The window has a minute of slack on either side, for a clock of whole seconds."""
    assert bool(candidates(doubt(), listing(one))) is fits
