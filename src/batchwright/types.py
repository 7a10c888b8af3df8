"""
The nouns that callers meet: `Item` goes in, `Outcome` comes out.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, get_args

from batchwright._json import load_json
from batchwright._records import record

if TYPE_CHECKING:
    from anthropic.types import Message, Usage

#: What finally became of an item.
Status: TypeAlias = Literal["succeeded", "quarantined", "rejected", "unresolved"]

#: Reasons of unresolved items that the next `run` or `resume` takes up by itself.
TAKEN_UP = frozenset({"account", "missing", "unreadable", "interrupted", "validator"})
#: Reasons of unresolved items that wait for a person: `resume(resubmit=…)`.
ON_REQUEST = frozenset(
    {"exhausted", "overdue", "ambiguous", "archived", "not_found", "foreign", "canceled"}
)

Via: TypeAlias = Literal["batch", "sync", "cache"]

STATUSES: tuple[Status, ...] = get_args(Status)


@dataclass(frozen=True, slots=True)
class Item:
    """
    One request of the caller.

    Attributes:
        id: The caller's stable business id, any string; unique within a run.
        params: Body of the Messages API: `model`, `max_tokens`, `messages`, …
        headers: Headers this item needs: `anthropic-beta`, `anthropic-user-profile-id`. In the
            Batches API they belong to a whole batch, so items that need different ones travel in
            different sub-batches.
        metadata: Anything JSON; it is never sent and comes back on the outcome.
    """

    id: str
    params: Mapping[str, Any]
    headers: Mapping[str, str] | None = None
    metadata: Any = None


#: What `run` takes for an item: an `Item`, an `(id, params)` pair, or the API's own dict.
ItemLike: TypeAlias = Item | tuple[str, Mapping[str, Any]] | Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class ItemError:
    """
    The error the API (or the intake) gave for one item.

    Attributes:
        type: The API's error type, such as `invalid_request_error`.
        message: Its text. Wording can change between API versions; do not match on it.
        request_id: The API's request id, where it gave one.
        code: The API's `error_code`, where it gave one.
    """

    type: str
    message: str
    request_id: str | None = None
    code: str | None = None


_build_message: Callable[[Mapping[str, Any]], Message] | None = None


def set_message_builder(build: Callable[[Mapping[str, Any]], Message]) -> None:
    """Let the gateway, the only importer of the SDK, lend its way to build a `Message`."""
    global _build_message  # noqa: PLW0603 - an import-time hook, set once
    _build_message = build


@dataclass(frozen=True, slots=True)
class Outcome:
    """
    What became of one item; frozen, and the same whenever it is read again.

    Attributes:
        id: The caller's id.
        custom_id: The id on the wire.
        status: `succeeded`, `quarantined`, `rejected` or `unresolved`.
        reason: Why, where the status is not `succeeded`.
        error: The API's error, where there was one.
        attempts: How often the item was tried, over all waves, paths and restarts.
        via: Which path brought the answer: `batch`, `sync` or `cache` (an earlier run).
        org: Label of the org that answered, or that holds the batch; `None` from the cache.
        batch_id: The batch that answered, or that holds the item.
        metadata: What the caller gave along.
        raw: Bytes of the API's result object (`{"type": "succeeded", "message": …}`), as received.
    """

    id: str
    custom_id: str
    status: Status
    reason: str | None = None
    error: ItemError | None = None
    attempts: int = 0
    via: Via | None = None
    org: str | None = None
    batch_id: str | None = None
    metadata: Any = None
    raw: bytes | None = None

    @property
    def answer(self) -> dict[str, Any] | None:
        """The message as a plain dict, or `None` where the model gave none."""
        if self.raw is None:
            return None
        result = load_json(self.raw)
        message = result.get("message") if isinstance(result, dict) else None
        return message if isinstance(message, dict) else None

    @property
    def message(self) -> Message | None:
        """The answer as `anthropic.types.Message`, or `None` where the model gave none."""
        answer = self.answer
        if answer is None:
            return None
        if _build_message is None:
            # Outcomes may be read in a process that never talked to the API.
            import_module("batchwright._gateway")
        assert _build_message is not None, "the gateway lends the builder when it is imported"
        return _build_message(answer)

    @property
    def text(self) -> str:
        """All text blocks joined, never raises; the use of a tool is in `message.content` only."""
        return text_of(self.answer or {})

    @property
    def usage(self) -> Usage | None:
        """The token counts of the answer; errored, canceled and expired lines have none."""
        message = self.message
        return None if message is None else message.usage

    @property
    def stop_reason(self) -> str | None:
        """Why the model stopped; `succeeded` does not mean complete."""
        reason = (self.answer or {}).get("stop_reason")
        return reason if isinstance(reason, str) else None

    @property
    def truncated(self) -> bool:
        """Whether the answer was cut off or paused before its end."""
        return self.stop_reason in TRUNCATED_STOPS

    @property
    def refused(self) -> bool:
        """Whether the model declined to answer."""
        return self.stop_reason == "refusal"


def text_of(answer: Mapping[str, Any]) -> str:
    """Return all text blocks of a message joined; empty where there is none."""
    blocks = answer.get("content")
    if not isinstance(blocks, list):
        return ""
    texts = (b.get("text") for b in blocks if isinstance(b, dict) and b.get("type") == "text")
    return "".join(t for t in texts if isinstance(t, str))


#: Stop reasons of an answer that is not whole (the API still calls the item succeeded).
TRUNCATED_STOPS = frozenset({"max_tokens", "model_context_window_exceeded", "pause_turn"})


@record(kw_only=False)
class Tokens:
    """
    Token counts, summed or of one answer.

    `input` excludes tokens written to or read from the prompt cache, as in the API's `usage`;
    `output` includes thinking.
    """

    input: int = 0
    output: int = 0
    cache_write: int = 0
    cache_read: int = 0

    def __add__(self, other: Tokens) -> Tokens:
        return Tokens(
            self.input + other.input,
            self.output + other.output,
            self.cache_write + other.cache_write,
            self.cache_read + other.cache_read,
        )


#: Spans of consecutive positions, both ends included: `((0, 7999), (8003, 8003))`.
Spans: TypeAlias = Sequence[tuple[int, int]]
