"""
The counters that every store keeps of a run.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from batchwright.store import ItemState, PutBack, Settlement, Spent
from batchwright.types import Tokens


class Tally:
    """Kept counters, or changes to them: five numbers (count and tokens) by kind and name."""

    __slots__ = ("sums",)

    def __init__(self) -> None:
        self.sums: dict[tuple[str, str, str], list[int]] = {}

    def add(self, kind: str, name: str, other: str, numbers: tuple[int, ...]) -> None:
        """Add *numbers* to one counter."""
        sums = self._of_name(kind, name, other)
        for place, number in enumerate(numbers):
            sums[place] += number

    def _of_name(self, kind: str, name: str, other: str) -> list[int]:
        sums = self.sums.get((kind, name, other))
        if sums is None:
            sums = self.sums[kind, name, other] = [0, 0, 0, 0, 0]
        return sums

    def item(self, state: ItemState, reason: str | None, flag: str, count: int) -> None:
        """Count *count* items (negative: take them off) that stand so."""
        self.add("state", str(int(state)), "", (count,))
        if state is ItemState.SUCCEEDED:
            if flag:
                self.add("flag", flag, "", (count,))
        elif reason is not None:
            self.add("reason", reason, "", (count,))

    def model(self, name: str, count: int) -> None:
        """Count *count* items (negative: take them off) that ask for a model."""
        self.add("model", name, "", (count,))

    def answer(self, kind: str, said: Settlement) -> None:
        """Count one answer as `spent` or `waste`."""
        sums = self._of_name(kind, said.via, said.model)
        sums[0] += 1
        if (tokens := said.tokens) is not None:
            sums[1] += tokens.input
            sums[2] += tokens.output
            sums[3] += tokens.cache_write
            sums[4] += tokens.cache_read

    def put_back(self, reason: str | None, used: int, count: int) -> None:
        """Count *count* items that wait again, each after *used* tries of its budget."""
        self.add("again", reason or "", str(used), (count,))

    def merge(self, other: Tally) -> None:
        """Add the counters of *other*."""
        for (kind, name, second), numbers in other.sums.items():
            self.add(kind, name, second, tuple(numbers))

    def standing(self) -> dict[str, Any]:
        """Return the fields of `RunInfo` that are counted."""
        return {
            "states": {state: self._count("state", str(int(state))) for state in ItemState},
            "reasons": {name: numbers[0] for name, _, numbers in self._of("reason")},
            "truncated": self._count("flag", "truncated"),
            "refused": self._count("flag", "refused"),
            "spent": self._spent("spent"),
            "waste": self._spent("waste"),
            "models": {name: numbers[0] for name, _, numbers in self._of("model") if name},
            "put_back": self._put_back(),
        }

    def _put_back(self) -> tuple[PutBack, ...]:
        told = [
            PutBack(reason=reason, after=int(used), items=numbers[0])
            for reason, used, numbers in self._of("again")
        ]
        return tuple(sorted(told, key=lambda put: (put.reason, put.after)))

    def _of(self, wanted: str) -> Iterator[tuple[str, str, list[int]]]:
        """Yield the counters of one kind that are not zero, by name."""
        for (kind, name, other), numbers in sorted(self.sums.items()):
            if kind == wanted and numbers[0]:
                yield name, other, numbers

    def _count(self, kind: str, name: str) -> int:
        return self.sums.get((kind, name, ""), [0])[0]

    def _spent(self, wanted: str) -> tuple[Spent, ...]:
        return tuple(
            Spent(via=via, model=model, answers=numbers[0], tokens=Tokens(*numbers[1:]))  # type: ignore[arg-type]
            for via, model, numbers in self._of(wanted)
        )
