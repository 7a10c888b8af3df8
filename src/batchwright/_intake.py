"""
From what the caller gives to the bytes that will be sent: pure, and once per item.

The encoded bytes are measured, stored, hashed and sent. What the API is known to refuse is refused
here, with the place in the item and the remedy, before it has waited a day for the same answer.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import orjson
import pydantic

from batchwright._custom_ids import make_custom_id
from batchwright._wire import ENVELOPE, entry_size
from batchwright.errors import IntakeError
from batchwright.store import NewItem
from batchwright.types import Item, ItemError

#: Headers an item may bring; a short list, so that no secret travels into the store.
ALLOWED_HEADERS = frozenset({"anthropic-beta", "anthropic-user-profile-id"})

#: Sampling parameters that API version 2026-10-21 rejects.
_SAMPLING = ("temperature", "top_p", "top_k")
_VERSION_WITHOUT_SAMPLING = "2026-10-21"

#: Options of an SDK call that are no part of a request body, and what to do instead.
_CALL_OPTIONS = {
    "betas": 'give beta flags with the item: Item(..., headers={"anthropic-beta": "..."})',
    "extra_headers": "give headers with the item: Item(..., headers={...})",
    "extra_query": "the Batches API has no per-request query; drop it",
    "timeout": "a batch has no per-request timeout; drop it",
}

#: What no request holds as it is sent.
_SPECIAL = frozenset({*_CALL_OPTIONS, "extra_body"})

#: Levels of nesting that are looked into; no request of the API comes near.
MAX_DEPTH = 100

_ORJSON_OPTIONS = orjson.OPT_PASSTHROUGH_DATETIME | orjson.OPT_PASSTHROUGH_DATACLASS


class Refused(Exception):
    """This item cannot be sent; *args[0]* says where, why and what to do."""

    def __init__(self, message: str, *, kind: str, reason: str = "refused_at_intake") -> None:
        self.kind = kind
        self.reason = reason
        super().__init__(message)


@dataclass(frozen=True, slots=True)
class IntakeRules:
    """What decides how items are taken: the run, the byte limit, the API version in force."""

    run_id: str
    max_bytes: int
    api_version: str


def as_item(given: Any, position: int) -> Item:
    """
    Return *given* as an `Item`.

    Raises:
        IntakeError: It is none of the forms that are taken; the message names its position.
    """
    if isinstance(given, Item):
        item = given
    elif isinstance(given, tuple | list) and len(given) == 2:
        item = Item(given[0], given[1])
    elif isinstance(given, Mapping):
        item = _from_mapping(given, position)
    else:
        raise IntakeError(
            f"the item at position {position} is a {type(given).__name__}; an item is an "
            'Item(id, params), a pair (id, params), or a dict {"custom_id": …, "params": …}'
        )
    _check_id(item.id, position)
    return item


def _from_mapping(given: Mapping[Any, Any], position: int) -> Item:
    key = "custom_id" if "custom_id" in given else "id"
    if key not in given:
        raise IntakeError(
            f'the item at position {position} has neither "custom_id" nor "id"; every item needs '
            "a stable id of its own (from your data, not from its position)"
        )
    if "params" not in given:
        raise IntakeError(f'item {given[key]!r} at position {position} has no "params"')
    extra = set(given) - {"custom_id", "id", "params", "headers", "metadata"}
    if extra:
        names = ", ".join(sorted(map(repr, extra)))
        raise IntakeError(
            f"item {given[key]!r} at position {position} has unknown keys beside params: {names}; "
            "request fields belong into params, your own data into metadata"
        )
    return Item(given[key], given["params"], given.get("headers"), given.get("metadata"))


def _check_id(item_id: Any, position: int) -> None:
    if not isinstance(item_id, str):
        raise IntakeError(
            f"the item at position {position} has the id {item_id!r}, a {type(item_id).__name__}; "
            f"ids are strings (7 and '7' would be one): use str(id)"
        )
    try:
        item_id.encode()
    except UnicodeEncodeError:
        raise IntakeError(
            f"the id {item_id!r} at position {position} holds half of a character (a lone "
            "surrogate), which no file can store; repair the id"
        ) from None


def encode_item(item: Item, position: int, rules: IntakeRules) -> NewItem:
    """Return the item as it will be stored and sent, or as refused with the reason why."""
    try:
        metadata = _encode_metadata(item.metadata)
        headers = _encode_headers(item.headers)
        params = _request_of(item.params)
        body = encode_params(params)
        _check_params(params, rules)
    except Refused as refusal:
        return _refused(item, position, rules, refusal)
    digest = _digest(body, headers)
    custom_id = make_custom_id(rules.run_id, item.id, digest)
    size = ENVELOPE + entry_size(custom_id, len(body))
    if size > rules.max_bytes:
        too_large = Refused(
            f"the request is {size:,} bytes on the wire, the limit of a batch is "
            f"{rules.max_bytes:,}; shorten it, or upload large parts as files and name them",
            kind="request_too_large",
            reason="too_large",
        )
        return _refused(item, position, rules, too_large)
    return NewItem(
        position=position,
        id=item.id,
        custom_id=custom_id,
        digest=digest,
        body=body,
        headers=headers,
        metadata=metadata,
        model=str(params["model"]),
    )


def _refused(item: Item, position: int, rules: IntakeRules, refusal: Refused) -> NewItem:
    return NewItem(
        position=position,
        id=item.id,
        custom_id=make_custom_id(rules.run_id, item.id, b""),
        digest=b"",
        body=b"",
        refusal=ItemError(type=refusal.kind, message=str(refusal)),
        reason=refusal.reason,
    )


# -- identity ---------------------------------------------------------------------------------


def _digest(body: bytes, headers: str) -> bytes:
    digest = hashlib.blake2b(body, digest_size=16)
    if headers:
        digest.update(b"\0" + headers.encode())
    return digest.digest()


# -- encoding ---------------------------------------------------------------------------------


def encode_params(params: Mapping[str, Any]) -> bytes:
    """
    Return strict JSON bytes in the caller's key order.

    Raises:
        Refused: Something in it is not JSON; the message names its path.
    """
    try:
        body = orjson.dumps(params, default=_known_object, option=_ORJSON_OPTIONS)
    except (orjson.JSONEncodeError, RecursionError) as error:
        fault = _find_fault(params, "params")
        raise Refused(
            fault or f"params cannot be written as JSON: {error}", kind="not_json"
        ) from None
    # orjson writes NaN and infinities as null, so only a body with a null in it can hide one.
    if not _is_plain(params) and b"null" in body and (fault := _find_fault(params, "params")):
        raise Refused(fault, kind="not_json")
    return body


def _is_plain(params: Mapping[str, Any]) -> bool:
    """Tell whether *params* certainly hold no number with a point, the only one that can be NaN."""
    if type(params) is not dict:
        return False
    todo: list[Any] = [params]
    for value in todo:
        for inner in value.values() if type(value) is dict else value:
            kind = type(inner)
            if kind is dict or kind is list:
                todo.append(inner)
            elif not (kind is str or kind is int or kind is bool or inner is None):
                return False
    return True


def _known_object(value: Any) -> Any:
    """Take what the SDK takes in a request: its pydantic content blocks, written as it does."""
    if isinstance(value, pydantic.BaseModel):
        exclude = getattr(value, "__api_exclude__", None)
        return value.model_dump(mode="json", exclude_unset=True, by_alias=True, exclude=exclude)
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(f"a {type(value).__name__} is not JSON")


def _find_fault(value: Any, path: str, depth: int = 0) -> str | None:
    """Return what is not JSON in *value*, with its path, or `None`."""
    if depth > MAX_DEPTH:
        return f"{path[:80]}… is nested more than {MAX_DEPTH} levels deep; flatten it"
    if isinstance(value, Mapping):
        return _fault_in_mapping(value, path, depth)
    if isinstance(value, list | tuple):
        faults = (_find_fault(inner, f"{path}[{i}]", depth + 1) for i, inner in enumerate(value))
        return next((fault for fault in faults if fault), None)
    if isinstance(value, pydantic.BaseModel):
        return _find_fault(_known_object(value), path, depth + 1)
    return _fault_of_scalar(value, path)


def _fault_in_mapping(value: Mapping[Any, Any], path: str, depth: int) -> str | None:
    for key, inner in value.items():
        if not isinstance(key, str):
            return f"{path} has the key {key!r}; JSON keys are strings"
        fault = _fault_of_scalar(key, f"a key of {path}") or _find_fault(
            inner, f"{path}.{key}", depth + 1
        )
        if fault:
            return fault
    return None


def _fault_of_scalar(value: Any, path: str) -> str | None:
    if isinstance(value, str):
        return _fault_of_text(value, path)
    if isinstance(value, float) and not math.isfinite(value):
        return f"{path} is {value!r}, which JSON does not have; use null, a string, or a number"
    if isinstance(value, int) and not -(2**63) <= value < 2**64:
        return f"{path} is an integer beyond 64 bits; send it as a string"
    try:
        orjson.dumps(value, option=_ORJSON_OPTIONS)
    except orjson.JSONEncodeError:
        kind = type(value).__name__
        return f"{path} is a {kind}, which is not JSON; convert it (for instance to a string) first"
    return None


def _fault_of_text(value: str, path: str) -> str | None:
    try:
        value.encode()
    except UnicodeEncodeError as error:
        half = f"U+{ord(value[error.start]):04X}"
        return (
            f"{path} holds half of a character (the lone surrogate {half} at {error.start}); "
            "strict JSON cannot carry it: repair the text, for instance with "
            'text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")'
        )
    return None


def _encode_metadata(metadata: Any) -> bytes | None:
    if metadata is None:
        return None
    try:
        return orjson.dumps(metadata)
    except (orjson.JSONEncodeError, RecursionError) as error:
        raise Refused(
            f"metadata cannot be written as JSON ({error}); keep only JSON values in it",
            kind="not_json",
        ) from None


def _encode_headers(headers: Mapping[str, str] | None) -> str:
    if not headers:
        return ""
    lowered: dict[str, Any] = {str(name).lower(): value for name, value in headers.items()}
    for name, value in lowered.items():
        if name not in ALLOWED_HEADERS:
            raise Refused(
                f"header {name!r} may not travel with an item; allowed are "
                f"{', '.join(sorted(ALLOWED_HEADERS))}. Other headers belong to the client "
                "(default_headers)",
                kind="bad_header",
            )
        if not isinstance(value, str) or not value.isascii() or not value.isprintable():
            raise Refused(f"header {name!r} has a value that is no header text", kind="bad_header")
    return orjson.dumps(lowered, option=orjson.OPT_SORT_KEYS).decode()


# -- what the API is known to refuse ----------------------------------------------------------


def _request_of(params: Any) -> Mapping[str, Any]:
    """Return the request body meant: `extra_body` of an SDK call is merged at its root."""
    request = params if isinstance(params, dict) else _mapping_of(params)
    return request if _SPECIAL.isdisjoint(request) else _merged(request)


def _mapping_of(params: Any) -> Mapping[str, Any]:
    if isinstance(params, pydantic.BaseModel):
        params = _known_object(params)
    if not isinstance(params, Mapping):
        kind = type(params).__name__
        raise Refused(f"params is a {kind}; it must be a mapping such as a dict", kind="bad_params")
    return params


def _merged(params: Mapping[str, Any]) -> Mapping[str, Any]:
    for option, remedy in _CALL_OPTIONS.items():
        if option in params:
            raise Refused(
                f"params.{option} is an option of an SDK call, not of a request: {remedy}",
                kind="bad_params",
            )
    extra = params["extra_body"]
    rest = {key: value for key, value in params.items() if key != "extra_body"}
    if extra is None:
        return rest
    if not isinstance(extra, Mapping):
        raise Refused("params.extra_body must be a mapping", kind="bad_params")
    return {**rest, **extra}


def _check_params(params: Mapping[str, Any], rules: IntakeRules) -> None:
    if not isinstance(params.get("model"), str) or not params["model"]:
        raise Refused(
            'params.model is missing: name a model, such as "claude-haiku-4-5"', kind="bad_params"
        )
    messages = params.get("messages")
    if not isinstance(messages, list | tuple) or not messages:
        raise Refused(
            "params.messages is missing: it is a list of at least one message", kind="bad_params"
        )
    _check_max_tokens(params)
    if params.get("stream"):
        raise Refused("params.stream cannot be used in a batch; drop it", kind="bad_params")
    if rules.api_version >= _VERSION_WITHOUT_SAMPLING:
        _check_sampling(params, rules.api_version)


def _check_max_tokens(params: Mapping[str, Any]) -> None:
    tokens = params.get("max_tokens")
    if not isinstance(tokens, int) or isinstance(tokens, bool):
        raise Refused(
            "params.max_tokens is missing: a whole number of at least 1", kind="bad_params"
        )
    if tokens < 1:
        raise Refused(
            f"params.max_tokens is {tokens}; a batch takes only 1 or more (0, the cache warm-up, "
            "works in direct calls alone)",
            kind="bad_params",
        )


def _check_sampling(params: Mapping[str, Any], version: str) -> None:
    for name in _SAMPLING:
        if name in params:
            raise Refused(
                f"params.{name} is rejected by API version {version}: drop it, or keep the older "
                "version with AsyncAnthropic(default_headers="
                '{"anthropic-version": "2023-06-01"})',
                kind="bad_params",
            )
