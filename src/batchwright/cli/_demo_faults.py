"""
The demo's faults on purpose: what goes wrong, for which items, and what should become of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from batchwright.simulator import CutBody, Drop, Error, Fate, Simulator, errored, expire, succeed
from batchwright.types import Item, Outcome


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """
    One thing that goes wrong.

    Attributes:
        what: In words.
        places: Which items, as shares of the whole list.
        change: What is changed in the request's params.
        fate: What the server does with the item, for each attempt in turn or for all.
        status: The outcome that is right.
        reason: Its reason.
    """

    what: str
    places: Sequence[float]
    change: Mapping[str, object] | None = None
    fate: Fate | Sequence[Fate] | None = None
    status: str = "succeeded"
    reason: str | None = None


FAULTS = (
    Fault(
        what="asks for more tokens than the model gives",
        places=(0.05, 0.55),
        change={"max_tokens": 10_000_000},
        status="quarantined",
        reason="invalid_request_error",
    ),
    Fault(
        what="has no messages at all",
        places=(0.15,),
        change={"messages": None},
        status="quarantined",
        reason="refused_at_intake",
    ),
    Fault(
        what="meets a server error at the first try",
        places=(0.25, 0.45, 0.75),
        fate=(errored("api_error", "Internal server error"),),
    ),
    Fault(what="expires at the first try", places=(0.35, 0.65), fate=(expire(),)),
    Fault(
        what="meets an overloaded model each time",
        places=(0.85,),
        fate=errored("overloaded_error", "Overloaded"),
        status="unresolved",
        reason="exhausted",
    ),
    Fault(
        what="gets an answer that is cut off",
        places=(0.30,),
        fate=succeed(stop_reason="max_tokens"),
    ),
    Fault(
        what="gets a refusal of the model",
        places=(0.60,),
        fate=succeed(stop_reason="refusal"),
    ),
)


def spoil(items: Sequence[Item]) -> tuple[list[Item], dict[str, Fault]]:
    """Return the items with the faulty requests among them, and which id has which fault."""
    spoiled, faulty = list(items), {}
    for fault in FAULTS:
        for place in fault.places:
            index = int(place * len(items))
            item = spoiled[index]
            faulty[item.id] = fault
            if fault.change is not None:
                params = {k: v for k, v in {**item.params, **fault.change}.items() if v is not None}
                spoiled[index] = replace(item, params=params)
    return spoiled, faulty


def script(simulator: Simulator, faulty: Mapping[str, Fault], codes: Mapping[str, str]) -> None:
    """Tell the simulator what shall go wrong; *codes* are the items' stems on the wire."""
    for item_id, fault in faulty.items():
        if fault.fate is not None:
            simulator.fate_for(codes[item_id], fault.fate)
    simulator.on("create", Error(529), times=1)
    simulator.on("retrieve", Drop(), times=1)
    simulator.on("results", CutBody(after_lines=5), times=1)


def went_as_meant(fault: Fault, outcome: Outcome) -> bool:
    """Tell whether the right thing became of a faulty item."""
    return outcome.status == fault.status and outcome.reason == fault.reason


def told(fault: Fault, outcome: Outcome) -> str:
    """Return what became of a faulty item, in one line."""
    tries = f"{outcome.attempts} tries" if outcome.attempts != 1 else "1 try"
    kind = f"{outcome.status}" + (f" ({outcome.reason})" if outcome.reason else "")
    mark = " [cut off]" if outcome.truncated else " [refused]" if outcome.refused else ""
    return f"{outcome.id} {fault.what}: {kind}{mark} after {tries}"
