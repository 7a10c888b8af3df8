"""From what the caller gives to the bytes that will be sent."""

from __future__ import annotations

import collections
import datetime
import json
import math
import re
import types

import pydantic
import pytest
from anthropic.types import TextBlock
from hypothesis import given
from hypothesis import strategies as st

from batchwright import Item
from batchwright._custom_ids import make_code, make_custom_id
from batchwright._intake import (
    IntakeRules,
    Refused,
    as_item,
    encode_item,
    encode_params,
)

LEGAL = re.compile(r"^[a-zA-Z0-9_-]{1,64}$")
RULES = IntakeRules(run_id="run", max_bytes=1_000_000, api_version="2026-10-21")
OLD = IntakeRules(run_id="run", max_bytes=1_000_000, api_version="2023-06-01")
ASK = {"model": "m", "max_tokens": 5, "messages": [{"role": "user", "content": "x"}]}


def refusal(params, rules=RULES, **item):
    """Return the message with which an item is refused; it must be."""
    row = encode_item(Item("a", params, **item), 0, rules)
    assert row.refusal is not None
    assert row.body == b""
    return row.refusal.message


@given(st.text(), st.text(min_size=1), st.binary(max_size=16))
def test_custom_ids_are_always_legal(item_id, run_id, digest):
    """R9: whatever the id, the wire id matches the API's pattern."""
    if not item_id.isprintable():
        item_id = item_id.encode("utf-8", "replace").decode()
    run_id = run_id.encode("utf-8", "replace").decode()

    assert LEGAL.match(make_custom_id(run_id, item_id, digest))


def test_custom_ids_are_readable_and_deterministic():
    """R9: derived from the business id alone; the same on any machine, for ever."""
    assert make_custom_id("default", "doc.17", b"0" * 16) == "doc_17-" + make_code(
        "default", "doc.17", b"0" * 16
    )
    assert make_code("default", "doc.17", b"0" * 16) == "Gw2aKruwIgd"
    assert make_custom_id("r", "x" * 70, b"").startswith("x" * 52 + "-")
    assert len(make_custom_id("r", "x" * 70, b"")) == 64
    assert make_custom_id("r", "", b"").startswith("item-")


def test_custom_ids_tell_similar_ids_apart():
    """Ids that look alike on the wire, and the same id in other runs, differ in their code."""
    ids = {
        make_custom_id(run, item, digest)
        for run in ("a", "ab")
        for item in ("b", "", "user:7", "user.7", "user_7")
        for digest in (b"", b"1")
    }

    assert len(ids) == 2 * 5 * 2


def test_the_callers_key_order_is_kept():
    """Order can change what a model answers, so it is part of the digest."""
    one = encode_item(Item("a", ASK), 0, RULES)
    other = encode_item(Item("a", dict(reversed(ASK.items()))), 0, RULES)

    assert one.body == b'{"model":"m","max_tokens":5,"messages":[{"role":"user","content":"x"}]}'
    assert one.digest != other.digest


def test_headers_are_part_of_the_digest():
    """Another beta flag is another question."""
    plain = encode_item(Item("a", ASK), 0, RULES)
    beta = encode_item(Item("a", ASK, headers={"Anthropic-Beta": "x-2026-01-01"}), 0, RULES)

    assert plain.digest != beta.digest
    assert beta.headers == '{"anthropic-beta":"x-2026-01-01"}'


def test_the_callers_dicts_are_unchanged():
    """What is merged or dropped is merged or dropped in a copy."""
    params = {**ASK, "extra_body": {"top_k": 1}}
    before = json.dumps(params)
    row = encode_item(Item("a", params), 0, OLD)

    assert json.dumps(params) == before
    assert b'"top_k":1' in row.body
    assert b"extra_body" not in row.body


@pytest.mark.parametrize(
    ("value", "told"),
    [
        (math.nan, "params.tools[0].x is nan"),
        (-math.inf, "params.tools[0].x is -inf"),
        ("a\ud83d", "lone surrogate U+D83D at 1"),
        (b"bytes", "params.tools[0].x is a bytes"),
        (datetime.datetime(2026, 1, 1), "params.tools[0].x is a datetime"),
        (datetime.date(2026, 1, 1), "params.tools[0].x is a date"),
        ({1, 2}, "params.tools[0].x is a set"),
        (object(), "params.tools[0].x is a object"),
        (2**70, "beyond 64 bits"),
        ({7: "x"}, "has the key 7"),
        ({"\udc00": 1}, "lone surrogate U+DC00"),
        ([1, [math.nan]], "params.tools[0].x[1][0] is nan"),
    ],
)
def test_what_is_not_json_is_refused_with_its_path(value, told):
    """Strict JSON only: nothing is turned into null or into text silently."""
    assert told in refusal({**ASK, "tools": [{"x": value}]})


def test_null_itself_is_fine():
    """A null in the body is looked at, and taken."""
    row = encode_item(Item("a", {**ASK, "system": None}), 0, RULES)

    assert row.refusal is None


def test_nesting_without_end_is_refused():
    """A body that contains itself is no JSON."""
    deep: list[object] = []
    deep.append(deep)

    assert "params" in refusal({**ASK, "tools": deep})


def test_content_blocks_of_the_sdk_are_taken():
    """What the SDK itself takes in a request is written as the SDK writes it."""
    block = TextBlock(type="text", text="from an earlier answer")
    messages = [{"role": "assistant", "content": [block]}, {"role": "user", "content": "go on"}]
    row = encode_item(Item("a", {**ASK, "messages": messages}), 0, RULES)

    assert json.loads(row.body)["messages"][0]["content"] == [
        {"type": "text", "text": "from an earlier answer"}
    ]


def test_a_nan_inside_a_model_is_found():
    """The walk looks into pydantic values too."""

    class Block(pydantic.BaseModel):
        score: float

    params = {**ASK, "metadata": Block(score=math.nan)}
    row = encode_item(Item("a", params), 0, RULES)

    assert row.refusal is not None
    assert "params.metadata.score is nan" in row.refusal.message


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"stream": True}, "stream"),
        ({"max_tokens": 0}, "max_tokens is 0"),
        ({"max_tokens": None}, "max_tokens is missing"),
        ({"max_tokens": True}, "max_tokens is missing"),
        ({"model": ""}, "model is missing"),
        ({"messages": []}, "messages is missing"),
        ({"betas": ["x"]}, "anthropic-beta"),
        ({"extra_headers": {}}, "headers"),
        ({"extra_body": 3}, "extra_body"),
        ({"temperature": 0.0}, "2023-06-01"),
        ({"top_p": 1}, "drop it"),
        ({"top_k": 1}, "2026-10-21"),
    ],
)
def test_what_the_api_is_known_to_refuse(change, told):
    """Refused here, with the remedy, instead of after a day in a batch."""
    assert told in refusal({**ASK, **change})


def test_sampling_is_fine_under_the_older_version():
    """The message's second remedy works."""
    assert encode_item(Item("a", {**ASK, "temperature": 0.0}), 0, OLD).refusal is None


def test_params_must_be_a_mapping():
    """A string or a list is told what is wanted."""
    assert "must be a mapping" in refusal("text")


def test_an_item_above_the_limit_is_never_sent():
    """Size and limit are named; the size is counted on the wire."""
    small = IntakeRules(run_id="run", max_bytes=300, api_version="2026-10-21")
    row = encode_item(Item("a", {**ASK, "system": "🙂" * 60}), 0, small)

    assert row.reason == "too_large"
    assert "300" in row.refusal.message


@pytest.mark.parametrize(
    ("headers", "told"),
    [
        ({"x-api-key": "secret"}, "may not travel"),
        ({"authorization": "secret"}, "may not travel"),
        ({"anthropic-beta": "a\nb"}, "no header text"),
        ({"anthropic-beta": 3}, "no header text"),
    ],
)
def test_only_harmless_headers_travel(headers, told):
    """Secrets must not come into the store through an item."""
    message = refusal(ASK, headers=headers)

    assert told in message
    assert "secret" not in message


def test_metadata_must_be_json():
    """It is stored, so it is checked; it is never sent."""
    assert "metadata" in refusal(ASK, metadata=object())
    assert encode_item(Item("a", ASK, metadata={"gold": 1}), 0, RULES).metadata == b'{"gold":1}'


@pytest.mark.parametrize(
    "wrap",
    [
        lambda nan: {"a": nan},
        lambda nan: types.MappingProxyType({"a": nan}),
        lambda nan: {"a": {"b": ("x", nan)}},
        lambda nan: {"a": [types.MappingProxyType({"b": nan})]},
        lambda nan: {"a": [collections.OrderedDict(b=[nan])]},
    ],
)
def test_a_nan_is_found_in_whatever_holds_it(wrap):
    """NaN is refused in each kind of container that JSON can be written from."""
    assert json.loads(encode_params(wrap(1.5)))
    with pytest.raises(Refused, match=r"is nan"):
        encode_params(wrap(math.nan))


def test_as_item_takes_lists_of_two():
    """JSON has no tuples, so a pair may be a list."""
    assert as_item(["a", ASK], 0) == Item("a", ASK)
