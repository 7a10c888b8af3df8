"""The Messages API beside the batches: plain answers, streamed ones, and token counts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import orjson

from batchwright.simulator._seeded import api_id
from batchwright.simulator.access import Access
from batchwright.simulator.answers import last_user_text, message, read_prompt
from batchwright.simulator.draft import with_answer
from batchwright.simulator.fates import SUCCEED, FateBook, magic_fate
from batchwright.simulator.lines import output_tokens
from batchwright.simulator.params import Rules, check_params, resolve
from batchwright.simulator.problems import ApiProblem, invalid
from batchwright.simulator.settings import WorldSettings

#: Characters of one text delta of a stream.
_DELTA = 20
#: What the endpoint that counts tokens takes; `max_tokens` and the like are not among it.
_COUNTED = frozenset(
    (
        "cache_control",
        "context_management",
        "mcp_servers",
        "messages",
        "model",
        "output_config",
        "output_format",
        "speed",
        "system",
        "thinking",
        "tool_choice",
        "tools",
        "user_profile_id",
    )
)
_STATUS = {
    "invalid_request_error": 400,
    "authentication_error": 401,
    "billing_error": 402,
    "permission_error": 403,
    "not_found_error": 404,
    "rate_limit_error": 429,
    "api_error": 500,
    "timeout_error": 504,
    "overloaded_error": 529,
}


def parse_params(body: bytes | bytearray) -> dict[str, Any]:
    """Return the JSON object of a body.

    Raises:
        ApiProblem: 400, it is none.
    """
    try:
        params = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise invalid(f"The request body is not valid JSON: {error}") from None
    if not isinstance(params, dict):
        raise invalid("Input should be a valid dictionary")
    return params


def direct_answer(
    params: Mapping[str, Any],
    access: Access,
    settings: WorldSettings,
    seed: int,
    book: FateBook,
) -> dict[str, Any]:
    """Return the Message that a direct call gets, with the text a batch would give.

    Raises:
        ApiProblem: The params are at fault, or the prompt asks for an error.
    """
    rules = Rules(version=access.version, betas=access.betas, batch=False, models=settings.models)
    fault = check_params(params, rules)
    if fault is not None:
        raise ApiProblem(_STATUS[fault.type], fault.type, fault.message)
    prompt = read_prompt(params)
    attempt = book.attempt(f"direct {prompt.digest}")
    fate = magic_fate(last_user_text(params), attempt) or SUCCEED
    if fate.kind == "errored":
        raise ApiProblem(_STATUS.get(fate.error_type, 500), fate.error_type, fate.message)
    fate = with_answer(fate, params, settings.answer)
    said = prompt.text(seed) if fate.text is None else fate.text
    return message(
        id=api_id("msg", seed, prompt.digest, attempt),
        model=resolve(params["model"]),
        said=said,
        stop_reason=fate.stop_reason,
        input_tokens=prompt.tokens,
        output_tokens=output_tokens(
            said, fate.stop_reason, fate.output_tokens, params["max_tokens"]
        ),
        service_tier="standard",
    )


def count_tokens(params: Mapping[str, Any]) -> dict[str, int]:
    """Return the answer of `/v1/messages/count_tokens`."""
    for key in ("model", "messages"):
        if key not in params:
            raise invalid(f"{key}: Field required")
    for key in params:
        if key not in _COUNTED:
            raise invalid(f"{key}: Extra inputs are not permitted")
    return {"input_tokens": read_prompt(params).tokens}


def stream_events(answer: Mapping[str, Any]) -> Iterator[bytes]:
    """Yield the server-sent events of a streamed answer."""
    usage = answer["usage"]
    opening = {**answer, "content": [], "stop_reason": None}
    opening["usage"] = {**usage, "output_tokens": 1}
    yield _event("message_start", {"message": opening})
    for place, block in enumerate(answer["content"]):
        opened, deltas = _pieces(block)
        yield _event("content_block_start", {"index": place, "content_block": opened})
        for delta in deltas:
            yield _event("content_block_delta", {"index": place, "delta": delta})
        yield _event("content_block_stop", {"index": place})
    ending = {"stop_reason": answer["stop_reason"], "stop_sequence": None}
    closing = {"output_tokens": usage["output_tokens"], "input_tokens": usage["input_tokens"]}
    yield _event("message_delta", {"delta": ending, "usage": closing})
    yield _event("message_stop", {})


def _pieces(block: Mapping[str, Any]) -> tuple[Mapping[str, Any], list[dict[str, str]]]:
    """Return a block as it is opened, and the deltas that fill it."""
    if block["type"] == "text":
        return {**block, "text": ""}, _deltas("text", block["text"])
    if block["type"] == "tool_use":
        written = orjson.dumps(block["input"]).decode()
        return {**block, "input": {}}, _deltas("input_json", written, field="partial_json")
    return block, []


def _deltas(kind: str, text: str, field: str = "text") -> list[dict[str, str]]:
    return [
        {"type": f"{kind}_delta", field: text[start : start + _DELTA]}
        for start in range(0, len(text), _DELTA)
    ]


def _event(name: str, data: Mapping[str, Any]) -> bytes:
    return b"event: %s\ndata: %s\n\n" % (name.encode(), orjson.dumps({"type": name, **data}))
