"""The models this world knows: ids, snapshots, ceilings and which rules bind them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Model:
    """One model.

    Attributes:
        id: The id that answers carry: the dated snapshot where one exists.
        alias: The undated id that callers may send; equal to `id` where there is no snapshot.
        max_tokens: Ceiling of `max_tokens` without the extended-output beta.
        adaptive_only: `thinking.type: enabled` is refused.
        prefill: A last message of the assistant is allowed.
        extended: The 300k-output beta applies.
        retires: Day on which the model is retired; it is deprecated then.
    """

    id: str
    alias: str
    max_tokens: int = 128_000
    adaptive_only: bool = True
    prefill: bool = False
    extended: bool = True
    retires: str | None = None

    def public(self) -> dict[str, Any]:
        """Return the object that `GET /v1/models` gives."""
        return {
            "type": "model",
            "id": self.id,
            "display_name": self.alias.replace("-", " ").title(),
            "created_at": "2026-01-01T00:00:00Z",
            "lifecycle": "active" if self.retires is None else "deprecated",
            "deprecated_at": None if self.retires is None else "2026-07-01T00:00:00Z",
            "retires_at": None if self.retires is None else f"{self.retires}T00:00:00Z",
            "line": None,
            "max_input_tokens": 200_000 if "haiku" in self.id else 1_000_000,
            "max_tokens": self.max_tokens,
            "capabilities": {"batch": {"supported": True}},
        }


def _plain(name: str, *, extended: bool = True) -> Model:
    return Model(id=f"claude-{name}", alias=f"claude-{name}", extended=extended)


def _dated(name: str, date: str, **rules: Any) -> Model:
    return Model(id=f"claude-{name}-{date}", alias=f"claude-{name}", **rules)


#: Models with batch support, newest first; the ids are those the SDK 2.14 types.
MODELS: tuple[Model, ...] = (
    _plain("fable-5-2", extended=False),
    _plain("mythos-5-2", extended=False),
    _plain("haiku-5-5"),
    _plain("sonnet-5-5"),
    _plain("fable-5-1", extended=False),
    _plain("opus-5-5"),
    _plain("mythos-5-1", extended=False),
    _plain("sonnet-5"),
    _plain("fable-5", extended=False),
    _plain("mythos-5", extended=False),
    _plain("opus-5"),
    _plain("opus-4-8"),
    _plain("opus-4-7"),
    Model(id="claude-opus-4-6", alias="claude-opus-4-6", adaptive_only=False),
    Model(id="claude-sonnet-4-6", alias="claude-sonnet-4-6", adaptive_only=False),
    _dated(
        "haiku-4-5",
        "20251001",
        max_tokens=64_000,
        adaptive_only=False,
        prefill=True,
        extended=False,
    ),
    _dated(
        "opus-4-5",
        "20251101",
        retires="2027-01-22",
        max_tokens=64_000,
        adaptive_only=False,
        prefill=True,
        extended=False,
    ),
    _dated(
        "sonnet-4-5",
        "20250929",
        retires="2026-11-30",
        max_tokens=64_000,
        adaptive_only=False,
        prefill=True,
        extended=False,
    ),
)

_BY_NAME = {name: model for model in MODELS for name in (model.id, model.alias)}


def find_model(name: object) -> Model | None:
    """Return the model of that id or alias, or None."""
    return _BY_NAME.get(name) if isinstance(name, str) else None
