"""
What must hold for direct calls and for the switch to them.

A direct answer can neither be looked up nor read again. So one that was given and never learned of
(it was lost, or the process died before it was on disk) may be asked, and billed, again; any other
may not.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from tests.simulation.history import Op
from tests.simulation.loop import DAY
from tests.simulation.play import Played

from batchwright.simulator import expected_text


@dataclass(frozen=True, slots=True)
class Asked:
    """One direct call of an item: the operation, and whether it was billed."""

    op: Op
    billed: bool


def asked_of(played: Played) -> dict[str, list[Asked]]:
    """Return the direct calls of each item, in their order; probes are nobody's."""
    server = played.world.server
    item_of = {item.params["messages"][0]["content"]: item for item in played.items}
    given = {(left, text) for left, _, text in server.asked}
    found: dict[str, list[Asked]] = {}
    for op in played.world.history.named("api.message"):
        item = item_of.get(op.facts["text"])
        if item is not None:
            text = expected_text(item.params, server.seed)
            billed = (op.facts.get("left"), text) in given
            found.setdefault(item.id, []).append(Asked(op, billed))
    return found


def excuse_of(played: Played, seq: int, asked: Asked) -> str | None:
    """Return why a billed direct answer could not keep its item from being asked again."""
    if asked.op.how != "ok":
        return "a direct answer was lost, or nobody was there to take it"
    ending = next((e for e in played.endings if e.life == asked.op.life), None)
    for op in played.world.history.named("store.settle"):
        after = op.life == asked.op.life and op.number > asked.op.number
        stored = op.facts.get("stored") or () if after else ()
        if any(said[0] == seq and said[1] == "SUCCEEDED" for said in stored):
            return None
    if ending is not None and ending.how != "returned":
        return "the process ended before a direct answer was on disk"
    if any(at >= asked.op.began for at in played.world.lives[asked.op.life - 1].paused_at):
        return "the process was stopped, and succeeded, before a direct answer was on disk"
    return None


def direct_payment(played: Played) -> Iterator[str]:
    """No item that was answered is asked directly, and none directly twice, but by an excuse."""
    server = played.world.server
    billed = server.books(3 * DAY).billed
    rows = {row.outcome.id: row for row in played.rows}
    for item_id, calls in asked_of(played).items():
        row = rows[item_id]
        paid = [asked for asked in calls if asked.billed]
        for asked in paid[:-1]:
            if excuse_of(played, row.seq, asked) is None:
                yield f"payment: {item_id} was answered directly and asked directly again"
        for batch in billed.get(row.outcome.custom_id, ()):
            made = server.created.get(batch)
            before = [a for a in paid if made is not None and a.op.began < made.left]
            if any(excuse_of(played, row.seq, asked) is None for asked in before):
                yield f"payment: {item_id} was answered directly and again in {batch}"
            if len(before) < len(paid) and not _unseen(played, batch, row.outcome.custom_id, paid):
                yield f"payment: {item_id} was answered in {batch} and asked directly"


def _unseen(played: Played, batch: str, custom_id: str, paid: list[Asked]) -> bool:
    """Tell whether the last two whole bodies of *batch* had no line for it, or it was hidden."""
    server = played.world.server
    last = max(asked.op.began for asked in paid)
    if server.created[batch].visible > last:
        return True
    proper = [s for s in server.served.get(batch, ()) if s.proper and s.at <= last]
    return len(proper) >= 2 and all(custom_id not in served.ids for served in proper[-2:])


def one_switch(played: Played) -> Iterator[str]:
    """A wave switches once: what was decided stands until it is over, over all crashes."""
    stands = False
    for op in played.world.history.named("store.put_facts"):
        if "stored" not in op.facts or "switch" not in op.facts:
            continue
        if op.facts["switch"] and stands:
            yield f"switch: life {op.life} decided again what was decided"
        stands = op.facts["switch"]


def answered_first(played: Played) -> Iterator[str]:
    """What is on disk as answered is not asked directly any more."""
    content = {item.params["messages"][0]["content"]: item.id for item in played.items}
    places = {row.outcome.id: row.seq for row in played.rows}
    done: set[int] = set()
    for op in played.world.history.ops:
        if op.name == "store.settle" and "stored" in op.facts:
            done |= {said[0] for said in op.facts["stored"] if said[1] == "SUCCEEDED"}
        elif op.name == "api.message" and op.facts["text"] in content:
            item_id = content[op.facts["text"]]
            if places[item_id] in done:
                yield f"switch: {item_id} is asked directly though its answer is on disk"
