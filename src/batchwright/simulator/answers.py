"""What the simulated model says: an answer that proves which question it belongs to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any, TypeAlias

import orjson

from batchwright.simulator._seeded import token

#: What a simulated model says: a text, or whole content blocks such as the use of a tool.
Answer: TypeAlias = str | Sequence[Mapping[str, Any]]

#: Characters of the last user text that come back in an answer.
ECHO_LENGTH = 60


@dataclass(frozen=True, slots=True)
class Prompt:
    """What is kept of a request's question.

    Attributes:
        echo: The first characters of the last user text.
        digest: Hash of system, messages and tools.
        tokens: Estimated input tokens: about one for four bytes, at least one.
    """

    echo: str
    digest: str
    tokens: int

    def text(self, seed: int) -> str:
        """Return the simulated model's answer."""
        return f"echo:{self.echo} #{token(8, seed, self.digest)}"


def read_prompt(params: Mapping[str, Any]) -> Prompt:
    """Return what is kept of a request's question."""
    asked = [params.get("system"), params.get("messages"), params.get("tools")]
    encoded = orjson.dumps(asked, option=orjson.OPT_SORT_KEYS)
    digest = blake2b(encoded, digest_size=12).hexdigest()
    tokens = max(1, (len(encoded) + 3) // 4)
    return Prompt(last_user_text(params)[:ECHO_LENGTH], digest, tokens)


def expected_text(params: Mapping[str, Any], seed: int = 0) -> str:
    """Return the answer that a simulator of this seed gives to `params`.

    Args:
        params: The Messages API body of one request.
        seed: The seed the simulator was made with.
    """
    return read_prompt(params).text(seed)


def last_user_text(params: Mapping[str, Any]) -> str:
    """Return the text of the last user message, or an empty string."""
    messages = params.get("messages")
    for message in reversed(messages if isinstance(messages, list) else []):
        if isinstance(message, dict) and message.get("role") == "user":
            return _text_of(message.get("content"))
    return ""


def _text_of(content: object) -> str:
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        return ""
    texts = [block.get("text") for block in content if isinstance(block, dict)]
    return " ".join(text for text in texts if isinstance(text, str))


def message(
    *,
    id: str,  # noqa: A002 - the API's own word
    model: str,
    said: Answer,
    stop_reason: str,
    input_tokens: int,
    output_tokens: int,
    service_tier: str,
) -> dict[str, Any]:
    """Return a whole Message; a refusal carries no content."""
    refused = stop_reason == "refusal"
    return {
        "id": id,
        "type": "message",
        "role": "assistant",
        "model": model,
        "content": [] if refused else _content(said),
        "stop_reason": _stop_reason(said, stop_reason),
        "stop_sequence": None,
        "stop_details": None,
        "container": None,
        "usage": usage(input_tokens, output_tokens, service_tier),
    }


def _content(said: Answer) -> list[Mapping[str, Any]]:
    if isinstance(said, str):
        return [{"type": "text", "text": said, "citations": None}]
    return list(said)


def _stop_reason(said: Answer, scripted: str) -> str:
    if scripted == "end_turn" and not isinstance(said, str):
        used = any(block.get("type") == "tool_use" for block in said)
        return "tool_use" if used else scripted
    return scripted


def usage(input_tokens: int, output_tokens: int, service_tier: str) -> dict[str, Any]:
    """Return the usage block of a Message."""
    return {
        "input_tokens": input_tokens,
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": 0,
        "cache_creation": {"ephemeral_5m_input_tokens": 0, "ephemeral_1h_input_tokens": 0},
        "output_tokens": output_tokens,
        "server_tool_use": None,
        "service_tier": service_tier,
        "inference_geo": "not_available",
    }
