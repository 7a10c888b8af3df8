"""What one request weighs before its tokens are counted."""

from __future__ import annotations

import base64
import json

import pytest
from tests.support import params

from batchwright._intake import encode_params
from batchwright._plan.measure import Weight, weigh

PIXELS = base64.b64encode(b"x" * 3_000).decode()


def block(kind: str, **source: object) -> dict[str, object]:
    """Return a content block of a file."""
    return {"type": kind, "source": source}


def asked(*content: object, **more: object) -> bytes:
    """Return the body of a request with this content."""
    return encode_params({**params(""), "messages": [{"role": "user", "content": content}], **more})


def test_text_counts_with_all_its_bytes():
    """Of a plain request every byte is text."""
    body = encode_params(params("a question"))

    assert weigh(body) == Weight(size=len(body), text=len(body), max_tokens=64)


def test_encoded_files_are_not_text():
    """The base64 of an image or a document is not read as text; its bytes are told apart."""
    inside = {"type": "base64", "media_type": "image/png", "data": PIXELS}
    body = asked(block("image", **inside), block("document", **inside), "text")
    weight = weigh(body)

    assert weight.text == len(body) - 2 * len(PIXELS)
    assert (weight.images, weight.documents, weight.document_bytes) == (1, 1, 3_000)


def test_files_inside_tool_results_are_found():
    """A file may lie deeper, as in what a tool gave back."""
    image = block("image", type="base64", media_type="image/png", data=PIXELS)
    weight = weigh(asked({"type": "tool_result", "tool_use_id": "t", "content": [image]}))

    assert weight.images == 1


@pytest.mark.parametrize(
    "named",
    [
        block("document", type="url", url="https://example.com/a.pdf"),
        block("document", type="file", file_id="file_1"),
        {"type": "container_upload", "file_id": "file_1"},
    ],
)
def test_documents_elsewhere(named):
    """A document that is only named is told: nobody but the API knows how long it is."""
    weight = weigh(asked(named))

    assert (weight.elsewhere, weight.documents) == (1, 0)


def test_images_elsewhere_are_images():
    """An image has its bound wherever its bytes are."""
    assert weigh(asked(block("image", type="url", url="https://example.com/a.png"))).images == 1


def test_words_that_look_like_files():
    """Text, documents given as text, and schemas that speak of a source are text."""
    talk = json.dumps(block("image", type="base64", data=PIXELS))
    tool = {
        "name": "cite",
        "input_schema": {"type": "object", "properties": {"source": {"type": "string"}}},
    }
    body = asked(talk, block("document", type="text", data="a long text"), tools=[tool])
    weight = weigh(body)

    assert weight.text == len(body)
    assert (weight.images, weight.documents, weight.elsewhere) == (0, 0, 0)


@pytest.mark.parametrize(("ttl", "cache"), [({}, "5m"), ({"ttl": "1h"}, "1h")])
def test_prompt_cache(ttl, cache):
    """Whether the prompt cache is used, and for how long, decides what input costs."""
    text = {"type": "text", "text": "t", "cache_control": {"type": "ephemeral", **ttl}}

    assert weigh(asked(text)).cache == cache


def test_where_and_with_what():
    """Work in the US and tools at the server cost more than their tokens."""
    search = {"type": "web_search_20250305", "name": "web_search"}

    assert weigh(asked("t", inference_geo="us")).in_us
    assert weigh(asked("t", tools=[search])).at_server
    assert weigh(asked("t", mcp_servers=[{"url": "https://example.com"}])).at_server
    assert not weigh(asked("t", tools=[{"name": "mine", "input_schema": {}}])).at_server
