"""
Who was billed twice, whether that could have been avoided, and which paid answers were not kept.

The excuse is computed from what the server could have shown, never from what the library says.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

from tests.simulation.loop import DAY
from tests.simulation.play import Played
from tests.simulation.server import SETTLED, Created

from batchwright._gateway import CREATE_TIMEOUT


@dataclass(frozen=True, slots=True)
class Double:
    """One item that was billed again, and why that could not be avoided (`None`: it could)."""

    custom_id: str
    first: str
    second: str
    excuse: str | None


def doubles(played: Played) -> list[Double]:
    """Return every payment beyond the first of an item."""
    server = played.world.server
    billed = server.books(3 * DAY).billed
    found = []
    for custom_id, batch_ids in sorted(billed.items()):
        mine = sorted(
            (server.created[b] for b in batch_ids if b in server.created), key=lambda c: c.left
        )
        for early, late in pairwise(mine):
            excuse = _excuse(played, custom_id, early, late)
            found.append(Double(custom_id, early.batch_id, late.batch_id, excuse))
    return found


def _excuse(played: Played, custom_id: str, early: Created, late: Created) -> str | None:
    """Return why nobody could have known of *early* when *late* left."""
    if late.left < early.visible and late.left - early.left >= SETTLED:
        return "the first was not to be seen for longer than a create may take"
    if _left_late(played, early) or _left_late(played, late):
        return "a process was stopped in the middle of a POST, for longer than one may take"
    served = [s for s in played.world.server.served.get(early.batch_id, ()) if s.at <= late.left]
    proper = [s for s in served if s.proper]
    if len(proper) >= 2 and all(custom_id not in s.ids for s in proper[-2:]):
        return "the results of the first held no line for it, twice"
    return None


def _left_late(played: Played, created: Created) -> bool:
    """
    Tell whether its sender was stopped in the middle of the POST, for longer than one may take.

    It had proved just before that the run was its own; what it had begun arrived hours later.
    """
    for op in played.world.history.named("api.create"):
        late = created.at - op.began > CREATE_TIMEOUT
        if tuple(op.facts["ids"]) == created.custom_ids and late:
            life = played.world.lives[op.life - 1]
            if any(op.began - 1.0 <= at <= created.at for at in life.paused_at):
                return True
    return False


def payment(played: Played) -> Iterator[str]:
    """No item is billed twice where that could have been avoided."""
    for double in doubles(played):
        if double.excuse is None:
            yield (
                f"payment: {double.custom_id} was billed in {double.first} and again in "
                f"{double.second}"
            )


def lost_answers(played: Played) -> Iterator[str]:
    """An answer that the API holds, in a batch that we know of, is read and kept."""
    server = played.world.server
    calm = [e for e in played.endings if e.calm and e.how == "returned"]
    if not calm:
        return
    known = {
        op.facts["batch_id"]
        for op in played.world.history.named("store.move_shard")
        if "stored" in op.facts and op.facts["batch_id"]
    }
    billed = server.books(0.0).billed
    for row in played.rows:
        outcome = row.outcome
        if outcome.status == "succeeded":
            continue
        for batch in billed.get(outcome.custom_id, ()):
            proper = [s for s in server.served.get(batch, ()) if s.proper]
            unseen = len(proper) >= 2 and all(outcome.custom_id not in s.ids for s in proper[-2:])
            if batch in known and server.ended_at(batch) < calm[-1].began and not unseen:
                yield (
                    f"lost: {outcome.custom_id} has its answer in {batch}, and ended as "
                    f"{outcome.status} ({outcome.reason})"
                )
