"""Result lines: cutting, parsing, and what each means for its item."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from batchwright._lines import LineSplitter, Reading, error_of, parse_line, settle_line, tokens_of
from batchwright.store import ItemState, Member
from batchwright.types import ItemError, Outcome, Tokens

READING = Reading(org="o", batch_id="b", cancel="", max_attempts=3)


def member(used: int = 0) -> Member:
    return Member(
        seq=4, id="a", custom_id="a-x", state=ItemState.IN_FLIGHT, attempts=used, used=used, shard=1
    )


def line(result: object) -> bytes:
    return json.dumps({"custom_id": "a-x", "result": result}, separators=(",", ":")).encode()


def settled(result: object, reading: Reading = READING, used: int = 0):
    parsed = parse_line(line(result))
    assert parsed is not None
    return settle_line(parsed, member(used), reading)


def errored(type_: str, message: str = "m", **inner: object) -> dict[str, object]:
    error = {"type": type_, "message": message, **inner}
    return {
        "type": "errored",
        "error": {"type": "error", "error": error, "request_id": "workerreq_1"},
    }


ODD = "a\u2028b\u2029c\u0085d\x0be\x0cf\x1cg"


@given(st.integers(1, 9), st.lists(st.text(), max_size=8))
def test_lines_are_cut_at_0x0a_only(size, texts):
    """Whatever the chunks and the characters, the lines come out as they went in."""
    wanted = [json.dumps({"t": text + ODD}, ensure_ascii=False, default=str) for text in texts]
    wanted = [w.encode("utf-8", "replace") for w in wanted]
    data = b"".join(w + b"\n" for w in wanted)
    splitter = LineSplitter()
    got = []
    for start in range(0, len(data), size):
        got.extend(splitter.feed(data[start : start + size]))

    assert got == wanted
    assert splitter.rest() == b""


def test_carriage_returns_blank_lines_and_a_missing_end():
    """Windows line ends and blank lines do no harm; a last line without an end is kept apart."""
    splitter = LineSplitter()
    got = list(splitter.feed(line({"type": "expired"}) + b'\r\n\n \n{"custom_id"'))

    assert len(got) == 1
    assert parse_line(got[0]).type == "expired"
    assert splitter.rest() == b'{"custom_id"'
    assert parse_line(splitter.rest()) is None


def test_raw_is_the_result_as_it_came():
    """Not a rewriting: numbers, spaces and escapes stay what the server wrote."""
    raw = b'{"type":"succeeded","message":{"content":[], "n":1.0,"s":"\\u00e9"}}'
    parsed = parse_line(b'{"custom_id":"a-x","result":' + raw + b"}\r")

    assert parsed.raw == raw


def test_raw_of_an_unusual_line_is_rewritten():
    """Other key orders and further keys are understood."""
    parsed = parse_line(b'{"result":{"type":"canceled"},"custom_id":"a-x","more":1}')

    assert parsed.custom_id == "a-x"
    assert json.loads(parsed.raw) == {"type": "canceled"}


def test_a_lone_surrogate_in_an_answer():
    """Half an emoji is stored and read back; nothing crashes."""
    message = {"content": [{"type": "text", "text": "x\ud83d"}], "stop_reason": "end_turn"}
    parsed = parse_line(line({"type": "succeeded", "message": message}))
    settlement = settle_line(parsed, member(), READING)
    outcome = Outcome(id="a", custom_id="a-x", status="succeeded", raw=settlement.raw)

    assert settlement.state is ItemState.SUCCEEDED
    assert outcome.text == "x\ud83d"


@pytest.mark.parametrize(
    "data",
    [b"", b"{", b"[]", b"3", b'{"custom_id":"a"}', b'{"custom_id":3,"result":{}}', b"\xff\xfe"],
)
def test_what_is_no_result_line(data):
    """A torn or foreign line is none; it never surfaces."""
    assert parse_line(data) is None


def test_both_error_shapes():
    """The envelope with the error inside, and the flattened form."""
    inner = {"type": "api_error", "message": "m", "details": {"error_code": "c"}}

    assert error_of({"type": "error", "error": inner, "request_id": "r"}) == ItemError(
        type="api_error", message="m", request_id="r", code="c"
    )
    assert error_of({"type": "api_error", "message": "m"}) == ItemError("api_error", "m")
    assert error_of(None).type == "unknown_error"
    assert error_of({}).message == "no message given"


def test_succeeded():
    """Kept with its tokens and its model; charged one try."""
    message = {
        "model": "m",
        "content": [],
        "stop_reason": "max_tokens",
        "usage": {"input_tokens": 3, "output_tokens": 4, "cache_read_input_tokens": 5},
    }
    got = settled({"type": "succeeded", "message": message})

    assert got.state is ItemState.SUCCEEDED
    assert got.tokens == Tokens(input=3, output=4, cache_read=5)
    assert (got.model, got.flag, got.charge) == ("m", "truncated", 1)


@pytest.mark.parametrize(
    ("result", "used", "state", "reason", "charge"),
    [
        (errored("invalid_request_error"), 0, ItemState.QUARANTINED, "invalid_request_error", 1),
        (errored("not_found_error"), 0, ItemState.QUARANTINED, "not_found_error", 1),
        (errored("api_error"), 0, ItemState.PENDING, "api_error", 1),
        (errored("api_error"), 2, ItemState.UNRESOLVED, "exhausted", 1),
        (errored("billing_error"), 2, ItemState.PENDING, "account", 0),
        (errored("new_error"), 0, ItemState.PENDING, "new_error", 1),
        (errored("new_error"), 2, ItemState.QUARANTINED, "new_error", 1),
        ({"type": "expired"}, 0, ItemState.PENDING, "expired", 1),
        ({"type": "expired"}, 2, ItemState.UNRESOLVED, "exhausted", 1),
        ({"type": "canceled"}, 0, ItemState.PENDING, "canceled", 1),
        ({"type": "canceled"}, 2, ItemState.UNRESOLVED, "exhausted", 1),
        ({"type": "paused"}, 0, ItemState.PENDING, "unknown_result", 1),
        ({"type": "paused"}, 2, ItemState.QUARANTINED, "unknown_result", 1),
        ({"type": "succeeded"}, 0, ItemState.PENDING, "unknown_result", 1),
    ],
)
def test_every_other_line(result, used, state, reason, charge):
    """R7: the table of result lines."""
    got = settled(result, used=used)

    assert (got.state, got.reason, got.charge) == (state, reason, charge)
    assert got.error is not None
    assert got.error.message not in {"", "undefined", "error"}


@pytest.mark.parametrize(
    ("cancel", "state", "reason", "charge"),
    [
        ("user", ItemState.UNRESOLVED, "canceled", 0),
        ("overdue", ItemState.UNRESOLVED, "overdue", 1),
        ("drain", ItemState.PENDING, None, 0),
    ],
)
def test_canceled_means_what_the_cancel_was_for(cancel, state, reason, charge):
    """By intent, and only for lines: an answer in a canceled batch is an answer."""
    reading = Reading(org="o", batch_id="b", cancel=cancel, max_attempts=3)
    got = settled({"type": "canceled"}, reading)

    assert (got.state, got.reason, got.charge) == (state, reason, charge)
    assert settled({"type": "succeeded", "message": {}}, reading).state is ItemState.SUCCEEDED


def test_a_try_that_was_charged_already_costs_nothing_more():
    """A held batch charged its items when it was held."""
    reading = Reading(org="o", batch_id="b", cancel="", max_attempts=3, charge=0)

    assert settled({"type": "expired"}, reading, used=1).charge == 0
    assert settled({"type": "expired"}, reading, used=2).state is ItemState.PENDING
    assert settled({"type": "expired"}, reading, used=3).reason == "exhausted"


def test_tokens_of_odd_usage():
    """No usage, or another shape of it, counts nothing and breaks nothing."""
    assert tokens_of({}) == Tokens()
    assert tokens_of({"usage": None}) == Tokens()
    assert tokens_of({"usage": {"input_tokens": None}}) == Tokens()


@pytest.mark.parametrize(
    ("content", "text"),
    [
        ([], ""),
        (None, ""),
        ([{"type": "thinking", "thinking": "t"}, {"type": "text", "text": "a"}], "a"),
        ([{"type": "text", "text": "a"}, {"type": "text", "text": "b"}], "ab"),
        ([{"type": "tool_use", "input": {}}], ""),
        (["odd", {"type": "text"}], ""),
    ],
)
def test_text_never_raises(content, text):
    """All text blocks joined, whatever stands between them."""
    raw = json.dumps({"type": "succeeded", "message": {"content": content}}).encode()
    outcome = Outcome(id="a", custom_id="a-x", status="succeeded", raw=raw)

    assert outcome.text == text


def test_an_outcome_without_an_answer():
    """Everything that would come from the answer is empty, and nothing raises."""
    outcome = Outcome(id="a", custom_id="a-x", status="unresolved", reason="missing")

    assert outcome.message is None
    assert outcome.usage is None
    assert outcome.text == ""
    assert outcome.stop_reason is None
    assert not outcome.truncated
    assert not outcome.refused
