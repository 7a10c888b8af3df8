"""
What happened, in order: operations as they were begun, and how each of them ended.

`invoke` begins one; `ok` and `fail` end it with a known effect; `info` ends it with an unknown one.
Checkers are functions of this, and of nothing inside the library.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any


@dataclass(slots=True)
class Op:
    """
    One operation.

    Attributes:
        number: Place in the history.
        life: The incarnation that asked for it.
        name: `store.settle`, `api.create`, …
        facts: What it was asked with.
        began: Virtual time.
        ended: Virtual time of its end.
        how: `open`, `ok`, `fail` or `info`.
        result: What came of it.
        after: Number of the last operation that had begun when this one ended.
    """

    number: int
    life: int
    name: str
    facts: dict[str, Any]
    began: float
    ended: float | None = None
    how: str = "open"
    result: Any = None
    after: int = 0


@dataclass(slots=True)
class Note:
    """Something that happened to the world or to an incarnation: a crash, a fault, a start."""

    at: float
    life: int
    text: str


@dataclass
class History:
    """All operations and notes of one simulated run."""

    ops: list[Op] = field(default_factory=list)
    notes: list[Note] = field(default_factory=list)
    lines: list[tuple[float, int, str]] = field(default_factory=list)

    def invoke(self, at: float, life: int, name: str, **facts: Any) -> Op:
        """Begin an operation."""
        op = Op(len(self.ops), life, name, facts, at)
        self.ops.append(op)
        self.lines.append((at, life, f"{name} > {facts}"))
        return op

    def end(self, op: Op, at: float, how: str, result: Any = None) -> None:
        """End an operation."""
        if op.how != "open":
            return
        op.how, op.ended, op.result, op.after = how, at, result, len(self.ops) - 1
        self.lines.append((at, op.life, f"{op.name} {how} {result}"))

    def note(self, at: float, life: int, text: str) -> None:
        """Write down what was done to the world."""
        self.notes.append(Note(at, life, text))
        self.lines.append((at, life, text))

    def named(self, *names: str) -> Iterator[Op]:
        """Yield the operations of these names."""
        return (op for op in self.ops if op.name in names)

    def digest(self) -> str:
        """Return a hash of everything that happened: equal for equal runs, in any process."""
        text = "\n".join(f"{at:.6f} {life} {what}" for at, life, what in self.lines)
        return blake2b(text.encode(), digest_size=12).hexdigest()

    def text(self) -> str:
        """Return the trace for people."""
        return "\n".join(f"{at:>12.3f} #{life} {what}" for at, life, what in self.lines)
