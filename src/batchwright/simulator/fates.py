"""What becomes of one request of a batch, and how a test says so beforehand."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from batchwright.simulator.answers import Answer

Kind = Literal["succeeded", "errored", "expired", "canceled", "never"]

#: Our own custom ids look like `stem-code`, the code being 11 base-62 characters.
_CODE = re.compile(r"-[0-9A-Za-z]{11}$")
_MAGIC = re.compile(r"\[\[sim:([^\]]{1,200})\]\]")


@dataclass(frozen=True, slots=True, kw_only=True)
class Fate:
    """What becomes of one request.

    Attributes:
        kind: How its result line reads; `never` keeps the whole batch from ending before
            `expires_at`, when it expires with it.
        text: The answer, for `succeeded`, as text or as content blocks; None is the echo of the
            prompt.
        stop_reason: `stop_reason` of the message, for `succeeded`.
        output_tokens: For `succeeded`; None follows from the text.
        error_type: `error.type`, for `errored`.
        message: `error.message`, for `errored`.
        details: `error.details`, for `errored`.
    """

    kind: Kind = "succeeded"
    text: Answer | None = None
    stop_reason: str = "end_turn"
    output_tokens: int | None = None
    error_type: str = "api_error"
    message: str = "Internal server error"
    details: Mapping[str, Any] | None = None


SUCCEED = Fate()
EXPIRE = Fate(kind="expired")
CANCEL = Fate(kind="canceled")
NEVER = Fate(kind="never")
REFUSE = Fate(stop_reason="refusal")
TRUNCATE = Fate(stop_reason="max_tokens")


def succeed(
    text: Answer | None = None, *, stop_reason: str = "end_turn", output_tokens: int | None = None
) -> Fate:
    """Return the fate of an answer; without `text` (or blocks) it echoes the prompt."""
    return Fate(text=text, stop_reason=stop_reason, output_tokens=output_tokens)


def errored(
    type: str = "api_error",  # noqa: A002 - the API's own word
    message: str = "Internal server error",
    details: Mapping[str, Any] | None = None,
) -> Fate:
    """Return the fate of an `errored` line with this inner error."""
    return Fate(kind="errored", error_type=type, message=message, details=details)


def expire() -> Fate:
    """Return the fate of a request that was not sent to the model in time."""
    return EXPIRE


def cancel() -> Fate:
    """Return the fate of a `canceled` line, as if somebody else had canceled."""
    return CANCEL


def never() -> Fate:
    """Return the fate that keeps the whole batch in progress until `expires_at`."""
    return NEVER


FateFor = Callable[[str, Mapping[str, Any]], "Fate | None"]
Selector = str | Callable[[str], bool]


def stem_of(custom_id: str) -> str:
    """Return the readable part of a custom id: without `-` and an 11-character code."""
    return _CODE.sub("", custom_id)


@dataclass(slots=True)
class FateBook:
    """The fates that a test has laid down, and how often each stem has been tried."""

    rules: list[tuple[Selector, Fate | tuple[Fate, ...]]] = field(default_factory=list)
    attempts: dict[str, int] = field(default_factory=dict)

    def add(self, selector: Selector, fate: Fate | Sequence[Fate]) -> None:
        """Lay down a fate for every attempt, or one for each attempt in turn."""
        self.rules.append((selector, fate if isinstance(fate, Fate) else tuple(fate)))

    def attempt(self, custom_id: str) -> int:
        """Count one more attempt of this custom id's stem and return its number, from 1."""
        stem = stem_of(custom_id)
        self.attempts[stem] = self.attempts.get(stem, 0) + 1
        return self.attempts[stem]

    def find(self, custom_id: str, attempt: int) -> Fate | None:
        """Return the fate laid down for this attempt; the newest rule counts."""
        for selector, fate in reversed(self.rules):
            if _selects(selector, custom_id):
                return _of_attempt(fate, attempt)
        return None


def _selects(selector: Selector, custom_id: str) -> bool:
    if callable(selector):
        return selector(custom_id)
    if selector.endswith("*"):
        return custom_id.startswith(selector[:-1])
    return selector in (custom_id, stem_of(custom_id))


def _of_attempt(fate: Fate | tuple[Fate, ...], attempt: int) -> Fate | None:
    if isinstance(fate, Fate):
        return fate
    return fate[attempt - 1] if attempt <= len(fate) else None


_WORDS = {
    "succeed": SUCCEED,
    "expire": EXPIRE,
    "cancel": CANCEL,
    "never": NEVER,
    "refuse": REFUSE,
    "truncate": TRUNCATE,
}


def magic_fate(text: str, attempt: int) -> Fate | None:
    """Return the fate that a prompt asks for itself.

    `[[sim:expire]]` anywhere in the last user text holds for each attempt,
    `[[sim:error overloaded_error,succeed]]` gives one fate for each attempt in turn.

    Raises:
        ValueError: The word is none of those known.
    """
    found = _MAGIC.search(text)
    if found is None:
        return None
    words = [_word(word.strip()) for word in found.group(1).split(",")]
    return words[0] if len(words) == 1 else _of_attempt(tuple(words), attempt)


def _word(word: str) -> Fate:
    name, _, rest = word.partition(" ")
    if name == "error":
        return errored(rest.strip() or "api_error", "Scripted by the prompt")
    if name not in _WORDS:
        raise ValueError(f"unknown magic word {word!r}; known: error TYPE, {', '.join(_WORDS)}")
    return _WORDS[name]
