"""The second stage of validation: faults of one request, told only when its batch has ended.

The texts are those seen on the wire; where none has been seen, a generic one of the same type
stands in, because clients are told to branch on the type.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from batchwright.simulator.catalog import Model, find_model

_KNOWN = frozenset(
    (
        "cache_control",
        "container",
        "context_management",
        "diagnostics",
        "inference_geo",
        "max_tokens",
        "mcp_servers",
        "messages",
        "metadata",
        "model",
        "output_config",
        "service_tier",
        "speed",
        "stop_sequences",
        "stream",
        "system",
        "temperature",
        "thinking",
        "tool_choice",
        "tools",
        "top_k",
        "top_p",
        "user_profile_id",
    )
)
_SAMPLING = ("temperature", "top_p", "top_k")
_EXTENDED_BETA = "output-300k-2026-03-24"
_EXTENDED_MAX = 300_000


@dataclass(frozen=True, slots=True)
class Fault:
    """Why a request cannot be run: the inner error of its line.

    Attributes:
        type: `error.type`.
        message: `error.message`.
        worker: It failed while running, so the line carries a `workerreq_` id.
    """

    type: str
    message: str
    worker: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """What the headers of a create, or of a direct call, say about its params.

    Attributes:
        version: `anthropic-version` of the call; it governs all its requests.
        betas: Names in `anthropic-beta`.
        batch: The request is part of a batch, where `stream` and `max_tokens: 0` are refused.
        models: Extra model ids that exist.
    """

    version: str
    betas: Collection[str] = ()
    batch: bool = True
    models: Collection[str] = ()


def resolve(name: str) -> str:
    """Return the id that an answer carries for a model sent as `name`."""
    model = find_model(name)
    return model.id if model else name


def check_params(params: Mapping[str, Any], rules: Rules) -> Fault | None:
    """Return the first fault of a request, or None."""
    return next((fault for check in _CHECKS for fault in check(params, rules)), None)


def _invalid(message: str) -> Fault:
    return Fault("invalid_request_error", message)


def _required(params: Mapping[str, Any], _: Rules) -> Iterator[Fault]:
    for key in ("model", "messages", "max_tokens"):
        if key not in params:
            yield _invalid(f"{key}: Field required")


def _keys(params: Mapping[str, Any], rules: Rules) -> Iterator[Fault]:
    for key in params:
        if key not in _KNOWN:
            yield _invalid(f"{key}: Extra inputs are not permitted")
    if rules.batch and params.get("speed") not in (None, "standard"):
        yield _invalid("speed: not supported in the Message Batches API")
    if rules.batch and params.get("stream"):
        yield _invalid("`stream=True` is not supported in the Message Batches API")


def _model(params: Mapping[str, Any], rules: Rules) -> Iterator[Fault]:
    name = params["model"]
    if not isinstance(name, str):
        yield _invalid("model: Input should be a valid string")
    elif find_model(name) is None and name not in rules.models:
        yield Fault("not_found_error", f"model: {name}")


def _max_tokens(params: Mapping[str, Any], rules: Rules) -> Iterator[Fault]:
    value = params["max_tokens"]
    if not isinstance(value, int) or isinstance(value, bool):
        yield _invalid("max_tokens: Input should be a valid integer")
        return
    least = 1 if rules.batch else 0
    if value < least:
        yield _invalid(f"max_tokens: must be greater than or equal to {least}")
    model = find_model(params["model"])
    if model and value > (ceiling := _ceiling(model, rules)):
        yield _invalid(
            f"max_tokens: {value} > {ceiling}, which is the maximum allowed number of output "
            f"tokens for {model.id}"
        )


def _ceiling(model: Model, rules: Rules) -> int:
    extended = rules.batch and model.extended and _EXTENDED_BETA in rules.betas
    return _EXTENDED_MAX if extended else model.max_tokens


def _sampling(params: Mapping[str, Any], rules: Rules) -> Iterator[Fault]:
    if rules.version < "2026-10-21":
        return
    for key in _SAMPLING:
        if params.get(key) is not None:
            yield _invalid(f"{key}: not supported in API version {rules.version}")


def _thinking(params: Mapping[str, Any], _: Rules) -> Iterator[Fault]:
    model, thinking = find_model(params["model"]), params.get("thinking")
    enabled = isinstance(thinking, dict) and thinking.get("type") == "enabled"
    if enabled and model and model.adaptive_only:
        yield _invalid(
            '"thinking.type.enabled" is not supported for this model. Use '
            '"thinking.type.adaptive" and "output_config.effort" to control thinking behavior.'
        )


def _messages(params: Mapping[str, Any], rules: Rules) -> Iterator[Fault]:
    messages = params["messages"]
    if not isinstance(messages, list):
        yield _invalid("messages: Input should be a valid list")
        return
    if not messages:
        yield _invalid("messages: at least one message is required")
    for place, message in enumerate(messages):
        yield from _message(place, message, rules)
    model = find_model(params["model"])
    if model and not model.prefill and messages and messages[-1].get("role") == "assistant":
        yield _invalid(
            "This model does not support assistant message prefill. The conversation must end "
            "with a user message."
        )


def _message(place: int, message: object, rules: Rules) -> Iterator[Fault]:
    if not isinstance(message, dict):
        yield _invalid(f"messages.{place}: Input should be a valid dictionary")
        return
    if message.get("role") not in ("user", "assistant", "system"):
        yield _invalid(f"messages.{place}.role: Input should be 'user' or 'assistant'")
    content = message.get("content")
    if content is None:
        yield _invalid(f"messages.{place}.content: Field required")
    for number, block in enumerate(content if isinstance(content, list) else ()):
        if isinstance(block, dict):
            yield from _block(f"messages.{place}.content.{number}", block, message, rules)


def _block(
    path: str, block: Mapping[str, Any], message: Mapping[str, Any], rules: Rules
) -> Iterator[Fault]:
    role, kind, source = message.get("role"), block.get("type"), block.get("source")
    if kind == "text" and block.get("text") == "":
        yield _invalid("messages: text content blocks must be non-empty")
    # A stand-in for "the worker could not fetch it": `.invalid` never resolves (RFC 2606).
    if isinstance(source, dict) and ".invalid/" in str(source.get("url", "")):
        message_text = "Unable to download the file. Please verify the URL and try again."
        yield Fault("invalid_request_error", message_text, worker=True)
    if rules.version >= "2026-10-21" and role == "assistant" and kind == "document":
        yield _invalid(f"{path}: document blocks are not permitted in assistant messages")
    if (
        rules.version >= "2026-10-21"
        and role == "user"
        and kind == "text"
        and block.get("citations")
    ):
        yield _invalid(f"{path}.citations: not permitted on user text blocks")


_CHECKS: tuple[Callable[[Mapping[str, Any], Rules], Iterator[Fault]], ...] = (
    _required,
    _keys,
    _model,
    _max_tokens,
    _sampling,
    _thinking,
    _messages,
)
