"""
What every store decides in the same way: pure functions on plain values.

How a settlement meets an item, what is counted, and how a stored item is told as an outcome.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Final, NamedTuple

from batchwright._json import dump_json, load_json
from batchwright.errors import NotWaiting, RunLocked, ShardClaimed, StoreError
from batchwright.store import (
    FINAL,
    ItemState,
    Lease,
    NewItem,
    OnChanged,
    Owner,
    Settled,
    Settlement,
    Shard,
    ShardPlan,
    ShardState,
)
from batchwright.stores._tally import Tally
from batchwright.types import ItemError, Outcome, Status, Via

#: How many committed intakes can be read back by their number.
KEPT_INTAKES: Final = 8

#: Reasons that the next wave takes up by itself, within the budget already used.
TAKEN_UP_BY_WAVE: Final = ("missing", "unreadable")

#: Fields of a shard that `move_shard` may set.
SHARD_FACTS: Final = frozenset(
    {"reason", "batch_id", "cancel", "org", "sent_at", "created_at", "expires_at"}
    | {"ended_at", "done_at", "polls", "counts", "facts"}
)

_STATUS: Final[Mapping[ItemState, Status]] = {
    ItemState.SUCCEEDED: "succeeded",
    ItemState.QUARANTINED: "quarantined",
    ItemState.REJECTED: "rejected",
}
#: Named once: to look a member up in its enum takes long in some versions of Python.
_SUCCEEDED: Final = ItemState.SUCCEEDED
_DONE: Final = (ItemState.SUCCEEDED, None, "")
_BORN: Final = (ItemState.PENDING, None)
_OPEN: Final = (ItemState.PENDING, ItemState.IN_FLIGHT)


class Facts(NamedTuple):
    """What the last applied settlement said beside the state."""

    via: Via | None = None
    org: str | None = None
    batch_id: str | None = None
    error: ItemError | None = None
    raw: bytes | None = None


NO_FACTS: Final = Facts()


class Holder(NamedTuple):
    """What an item's shard lends to its outcome."""

    reason: str | None
    org: str
    batch_id: str | None


@dataclass(slots=True)
class Standing:
    """
    One item as the rules see it.

    `facts.raw` may be absent where the settlement at hand names a batch: the batch tells.
    """

    state: ItemState = ItemState.PENDING
    reason: str | None = None
    flag: str = ""
    shard: int | None = None
    attempts: int = 0
    used: int = 0
    facts: Facts = NO_FACTS
    #: Batches whose answer for this item came too late and was counted as waste.
    late: set[str] = field(default_factory=set)


# -- settlements ------------------------------------------------------------------------------


def is_answer(said: Settlement) -> bool:
    """Tell whether the model answered, and the answer is to stand."""
    return said.tokens is not None and said.state is not ItemState.PENDING


def is_same(item: Standing, settlement: Settlement) -> bool:
    """Tell whether what stands for the item is this very result, told before."""
    facts = item.facts
    if item.state in _OPEN or (facts.via, facts.batch_id) != (settlement.via, settlement.batch_id):
        return False
    if settlement.batch_id is not None:
        return True
    return settlement.raw is not None and facts.raw == settlement.raw


def judge(item: Standing, number: int | None, said: Settlement) -> Settled:
    """Decide what becomes of *said*, which came with shard *number*; change nothing."""
    same = is_same(item, said)
    if item.state in FINAL:
        if same or (is_answer(said) and said.batch_id in item.late):
            return "again"
        return "late" if is_answer(said) else "stale"
    if same:
        # Only judged otherwise than before: an answer that waited for its validator.
        before = (item.state, item.reason)
        return "again" if (said.state, said.reason) == before else "applied"
    return "applied" if is_answer(said) or item.shard == number else "stale"


def settle_one(item: Standing, number: int | None, said: Settlement, tally: Tally) -> Settled:
    """Judge *said*, change the item accordingly, and count."""
    verdict = judge(item, number, said)
    if verdict == "late":
        tally.answer("waste", said)
        if said.batch_id is not None:
            item.late.add(said.batch_id)
    if verdict != "applied":
        return verdict
    told_before = is_same(item, said)
    if said.tokens is not None and not told_before:
        tally.answer("spent", said)
    tally.item(item.state, item.reason, item.flag, -1)
    _apply(item, said, 0 if told_before else said.charge)
    tally.item(item.state, item.reason, item.flag, +1)
    if item.state is ItemState.PENDING:
        tally.put_back(item.reason, item.used, 1)
    return verdict


def end_of(said: Settlement) -> tuple[ItemState, str | None, str]:
    """Return state, reason and flag of an item to which *said* is applied."""
    if said.state is _SUCCEEDED:
        return _DONE if not said.flag else (_SUCCEEDED, None, said.flag)
    return said.state, said.reason, ""


def count_ends(
    settlements: Sequence[Settlement],
    fates: Iterable[tuple[ItemState, str | None, str]],
    tally: Tally,
) -> None:
    """
    Count, as `settle_one` would, settlements that end items travelling in their shard.

    *fates*: what `end_of` says of each.
    """
    tally.item(ItemState.IN_FLIGHT, None, "", -len(settlements))
    for (state, reason, flag), count in Counter(fates).items():
        tally.item(state, reason, flag, count)
    for said in settlements:
        if said.tokens is not None:
            tally.answer("spent", said)


def _apply(item: Standing, said: Settlement, charge: int) -> None:
    item.state, item.reason, item.flag = end_of(said)
    item.attempts += charge
    item.used += charge
    item.facts = Facts(said.via, said.org, said.batch_id, said.error, said.raw)
    if said.state is ItemState.PENDING:
        item.shard = None
        item.facts = Facts(error=said.error)


# -- intake -----------------------------------------------------------------------------------


def is_changed(stored: bytes, passed: NewItem) -> bool:
    """Tell whether a known item came with another question; *stored* is its digest."""
    return stored not in {b"", passed.digest}


def is_replaced(stored: bytes, passed: NewItem, on_changed: OnChanged) -> bool:
    """Tell whether the passed question takes the place of the stored one."""
    return stored == b"" or (on_changed == "rerun" and is_changed(stored, passed))


def count_births(rows: Sequence[NewItem]) -> Tally:
    """Count items that are new to a run."""
    tally = Tally()
    for (state, reason), count in Counter(map(birth, rows)).items():
        tally.item(state, reason, "", count)
    for model, count in Counter(row.model for row in rows).items():
        tally.model(model, count)
    return tally


def birth(row: NewItem) -> tuple[ItemState, str | None]:
    """Return state and reason with which an item begins."""
    if row.refusal is None:
        return _BORN
    return ItemState.QUARANTINED, row.reason


# -- shards -----------------------------------------------------------------------------------


def check_plan(plan: ShardPlan) -> None:
    """Refuse a plan whose spans do not hold as many items as it says."""
    held = sum(last - first + 1 for first, last in plan.spans)
    if held != plan.count or any(last < first for first, last in plan.spans):
        raise StoreError(f"the planned shard says {plan.count} items and its spans hold {held}")


def not_pending(plan: ShardPlan, moved: int) -> NotWaiting:
    """Return the error for a plan that names items that do not wait."""
    return NotWaiting(f"only {moved} of the {plan.count} items of the planned shard are pending")


def not_inside(plan: ShardPlan, parent: int, found: int) -> StoreError:
    """Return the error for a part whose items are not all in flight in the shard it is cut from."""
    return StoreError(f"only {found} of the {plan.count} items are in flight in shard {parent}")


def check_facts(facts: Mapping[str, Any]) -> None:
    """Refuse names that `move_shard` does not know."""
    if unknown := facts.keys() - SHARD_FACTS:
        raise TypeError(f"move_shard does not know {', '.join(sorted(unknown))}")


def check_move(shard: Shard, expect: frozenset[ShardState], to: ShardState) -> None:
    """Refuse to move a shard that stands elsewhere than its mover believes."""
    if shard.state not in expect:
        raise StoreError(
            f"shard {shard.number} is {shard.state}, not {' or '.join(sorted(expect))}, "
            f"and cannot become {to}"
        )


# -- what is not there ------------------------------------------------------------------------


def no_run(run_id: str) -> StoreError:
    """Return the error for a run that does not exist."""
    return StoreError(f"the store has no run {run_id!r}")


def no_shard(run_id: str, number: int) -> StoreError:
    """Return the error for a shard that does not exist."""
    return StoreError(f"run {run_id!r} has no shard {number}")


def no_item(run_id: str, seq: int) -> StoreError:
    """Return the error for an item that does not exist."""
    return StoreError(f"run {run_id!r} has no item with seq {seq}")


def not_open(run_id: str, intake: int) -> StoreError:
    """Return the error for staging into an intake that is not being read."""
    return StoreError(f"intake {intake} of run {run_id!r} is not open")


def no_intake(run_id: str, intake: int) -> StoreError:
    """Return the error for reading an intake that is not, or no longer, known."""
    return StoreError(
        f"run {run_id!r} has no complete intake {intake}, or it is not among its last "
        f"{KEPT_INTAKES}. Read the run without naming an intake."
    )


# -- telling ----------------------------------------------------------------------------------


def told_reason(state: ItemState, reason: str | None, holder: Holder | None) -> str | None:
    """Return the reason as an outcome tells it: the item's own, else its shard's."""
    if reason is None and holder is not None and state not in FINAL:
        return holder.reason
    return reason


def tell(
    item_id: str,
    custom_id: str,
    item: Standing,
    metadata: bytes | None,
    holder: Holder | None,
) -> Outcome:
    """Build the outcome of an item as it stands; *holder* is the shard it belongs to, if any."""
    facts = Facts(error=item.facts.error) if item.state in _OPEN else item.facts
    held = holder if item.state in {ItemState.IN_FLIGHT, ItemState.UNRESOLVED} else None
    return Outcome(
        id=item_id,
        custom_id=custom_id,
        status=_STATUS.get(item.state, "unresolved"),
        reason=told_reason(item.state, item.reason, holder),
        error=facts.error,
        attempts=item.attempts,
        via=facts.via,
        org=facts.org if facts.org is not None or held is None else held.org,
        batch_id=facts.batch_id if facts.batch_id is not None or held is None else held.batch_id,
        metadata=load_metadata(metadata),
        raw=facts.raw,
    )


def load_metadata(data: bytes | None) -> Any:
    """Read the caller's metadata."""
    return None if data is None else load_json(data)


def dump_error(error: ItemError | None) -> bytes | None:
    """Write an error as JSON bytes."""
    return None if error is None else dump_json(asdict(error))


def load_error(data: bytes | None) -> ItemError | None:
    """Read what `dump_error` wrote."""
    return None if data is None else ItemError(**load_json(data))


# -- ownership --------------------------------------------------------------------------------


def describe(owner: Owner) -> str:
    """Name an owner for a message."""
    return f"process {owner.pid} on {owner.host}"


def buried(lease: Lease) -> RunLocked:
    """Return the error for a worker that others have succeeded, or that has left."""
    return RunLocked(lease.run_id, f"worker {lease.worker} was succeeded by others")


def not_claimed(lease: Lease, number: int | None) -> RunLocked:
    """Return the error for a worker that writes to what it has not claimed."""
    what = "what belongs to no shard" if number is None else f"shard {number}"
    return RunLocked(lease.run_id, f"{what} is not claimed by worker {lease.worker}")


def claimed(run_id: str, number: int, worker: int) -> ShardClaimed:
    """Return the error for the owner of a run that writes to what a worker has claimed."""
    return ShardClaimed(f"shard {number} of run {run_id!r} is claimed by worker {worker}")


def locked(lease: Lease, owner: Owner | None) -> RunLocked:
    """Return the error for a write under a lease that does not hold any more."""
    return RunLocked(lease.run_id, "the lease was given up" if owner is None else describe(owner))
