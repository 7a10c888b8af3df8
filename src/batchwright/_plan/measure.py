"""
What one request weighs, before anybody has counted its tokens: pure, from the bytes to be sent.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from batchwright._json import load_json

#: Tools that run at the server: what they read and do is billed too, and nobody knows it before.
_AT_SERVER = ("web_search", "web_fetch", "code_execution", "mcp_toolset")
#: Bytes of a file for each character of its base64 text.
_DECODED = 0.75

Cache = Literal["", "5m", "1h"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Weight:
    """
    One request.

    Attributes:
        size: Bytes of its body.
        text: Of those, the bytes that are not encoded files.
        max_tokens: What it asks for.
        images: Images in it, wherever their bytes are.
        documents: Documents whose bytes are in it.
        document_bytes: Bytes of those documents.
        elsewhere: Documents and files that it only names: the API alone can see them.
        cache: Whether it uses the prompt cache, and for how long.
        in_us: Whether it must be worked on in the US.
        at_server: Whether it brings tools that run at the server.
    """

    size: int
    text: int
    max_tokens: int
    images: int = 0
    documents: int = 0
    document_bytes: int = 0
    elsewhere: int = 0
    cache: Cache = ""
    in_us: bool = False
    at_server: bool = False


def weigh(body: bytes) -> Weight:
    """Return what the request of *body*, which intake has taken, weighs."""
    params: dict[str, Any] = load_json(body)
    # Looked for in the bytes first: few requests have files, and walking is slow.
    files = list(_files(params)) if b'"source"' in body or b'"file_id"' in body else []
    inside = [size for kind, size in files if kind == "document" and size is not None]
    return Weight(
        size=len(body),
        text=len(body) - sum(size or 0 for _, size in files),
        max_tokens=int(params["max_tokens"]),
        images=sum(kind == "image" for kind, _ in files),
        documents=len(inside),
        document_bytes=round(sum(inside) * _DECODED),
        elsewhere=sum(kind == "document" and size is None for kind, size in files),
        cache=_cache_in(body),
        in_us=params.get("inference_geo") == "us",
        at_server=_runs_at_server(params),
    )


def _files(value: Any) -> Iterator[tuple[str, int | None]]:
    """Yield the kind of each file in *value* and the length of its text, `None` if elsewhere."""
    if isinstance(value, list):
        for inner in value:
            yield from _files(inner)
    elif isinstance(value, dict):
        if (found := _file(value)) is not None:
            yield found
        else:
            for inner in value.values():
                yield from _files(inner)


def _file(block: Mapping[str, Any]) -> tuple[str, int | None] | None:
    if block.get("type") == "container_upload":
        return "document", None
    source = block.get("source")
    if not isinstance(source, dict) or block.get("type") not in {"image", "document"}:
        return None
    data = source.get("data")
    if source.get("type") == "base64" and isinstance(data, str):
        return str(block["type"]), len(data)
    # A document may as well be given as text or as blocks, which are in the bytes like any text.
    return (str(block["type"]), None) if source.get("type") in {"url", "file"} else None


def _cache_in(body: bytes) -> Cache:
    if b'"cache_control"' not in body:
        return ""
    return "1h" if b'"ttl":"1h"' in body else "5m"


def _runs_at_server(params: Mapping[str, Any]) -> bool:
    if params.get("mcp_servers"):
        return True
    tools = params.get("tools")
    kinds = (tool.get("type") for tool in tools if isinstance(tool, dict)) if tools else ()
    return any(isinstance(kind, str) and kind.startswith(_AT_SERVER) for kind in kinds)
