"""Both stages of validation, with the texts of the wire."""

from __future__ import annotations

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from batchwright.simulator import Access, ApiProblem
from batchwright.simulator.envelope import read_requests

TOO_LONG = "x" * 65
PATTERN = "requests.0.custom_id: String should match pattern '^[a-zA-Z0-9_-]{1,64}$'"


@pytest.mark.parametrize(
    ("request_", "message"),
    [
        ({"params": {}}, "requests.0.custom_id: Field required"),
        ({"custom_id": "a"}, "requests.0.params: Field required"),
        (
            {"custom_id": TOO_LONG, "params": {}},
            "requests.0.custom_id: String should have at most 64 characters",
        ),
        ({"custom_id": "a.b", "params": {}}, PATTERN),
        ({"custom_id": "a\n", "params": {}}, PATTERN),
        ({"custom_id": "é", "params": {}}, PATTERN),
        (
            {"custom_id": "", "params": {}},
            "requests.0.custom_id: String should have at least 1 character",
        ),
        ({"custom_id": 7, "params": {}}, "requests.0.custom_id: Input should be a valid string"),
        ({"custom_id": "a", "params": []}, "requests.0.params: Input should be a valid dictionary"),
        (
            {"custom_id": "a", "params": {}, "x": 1},
            "requests.0.x: Extra inputs are not permitted",
        ),
    ],
)
def test_envelope_faults(world, access, request_, message):
    """A fault of the envelope refuses the whole create with the API's text."""
    with pytest.raises(ApiProblem) as caught:
        world.create(access, [request_])
    assert (caught.value.status, caught.value.type) == (400, "invalid_request_error")
    assert caught.value.message == message
    assert world.batches == {}


def test_duplicates_and_counts(world, access, item):
    """Duplicate ids, an empty list and too many requests refuse the whole create."""
    world.configure(max_requests=3)
    for requests, message in (
        (
            [item("dup"), item("dup")],
            "requests: custom_id's must be unique within a batch. Duplicate custom_id found: dup",
        ),
        ([], "requests: List should have at least 1 item after validation, not 0"),
        (
            [item(f"a{n}") for n in range(4)],
            "requests: List should have at most 3 items after validation, not 4",
        ),
        ([item("a"), {"custom_id": "b"}], "requests.1.params: Field required"),
    ):
        with pytest.raises(ApiProblem) as caught:
            world.create(access, requests)
        assert caught.value.message == message


def fault_of(world, clock, params, *, version="2026-10-21", betas=()):
    """Return the inner error of the line that these params get."""
    access = Access(key="k", workspace="w", version=version, betas=betas)
    batch = world.create(access, [{"custom_id": "a", "params": params}])
    clock.advance(100)
    (line,) = map(orjson.loads, world.results(access, batch.id))
    if line["result"]["type"] != "errored":
        return line["result"]["type"]
    outer = line["result"]["error"]
    assert outer["type"] == "error"
    return f"{outer['error']['type']}: {outer['error']['message']}"


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        ({"messages": None}, "invalid_request_error: messages: Field required"),
        ({"model": "nope"}, "not_found_error: model: nope"),
        (
            {"stream": True},
            "invalid_request_error: `stream=True` is not supported in the Message Batches API",
        ),
        (
            {"max_tokens": 0},
            "invalid_request_error: max_tokens: must be greater than or equal to 1",
        ),
        (
            {"max_tokens": 9999999},
            (
                "invalid_request_error: max_tokens: 9999999 > 64000, which is the maximum "
                "allowed number of output tokens for claude-haiku-4-5-20251001"
            ),
        ),
        ({"betas": ["x"]}, "invalid_request_error: betas: Extra inputs are not permitted"),
        ({"fallbacks": []}, "invalid_request_error: fallbacks: Extra inputs are not permitted"),
        (
            {"temperature": 0.5},
            "invalid_request_error: temperature: not supported in API version 2026-10-21",
        ),
        (
            {"messages": []},
            "invalid_request_error: messages: at least one message is required",
        ),
    ],
)
def test_faults_of_params_come_as_lines(world, clock, params, change, fault):
    """A fault of params is accepted at first and told by its line after the end."""
    body = {**params(), **change}
    body = {key: value for key, value in body.items() if value is not None}
    assert fault_of(world, clock, body) == fault


def user(*blocks):
    """Return messages of one user turn."""
    return [{"role": "user", "content": list(blocks)}]


DOCUMENT = {"type": "document", "source": {"type": "text", "data": "d"}}
CITING = {"type": "text", "text": "t", "citations": [{"type": "char_location"}]}


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        ({"model": ["x"]}, "model: Input should be a valid string"),
        ({"max_tokens": "9"}, "max_tokens: Input should be a valid integer"),
        ({"speed": "fast"}, "speed: not supported in the Message Batches API"),
        ({"messages": "hi"}, "messages: Input should be a valid list"),
        ({"messages": ["hi"]}, "messages.0: Input should be a valid dictionary"),
        ({"messages": [{"role": "user"}]}, "messages.0.content: Field required"),
        (
            {"messages": [{"role": "robot", "content": "x"}]},
            "messages.0.role: Input should be 'user' or 'assistant'",
        ),
        (
            {"messages": user({"type": "text", "text": ""})},
            "messages: text content blocks must be non-empty",
        ),
        (
            {"messages": user(CITING)},
            "messages.0.content.0.citations: not permitted on user text blocks",
        ),
        (
            {"messages": [{"role": "assistant", "content": [DOCUMENT]}]},
            "messages.0.content.0: document blocks are not permitted in assistant messages",
        ),
    ],
)
def test_faults_of_messages(world, clock, params, change, fault):
    """Malformed messages are the request's own fault."""
    assert fault_of(world, clock, params(**change)) == f"invalid_request_error: {fault}"


def test_content_blocks_are_echoed(world, access, clock, params):
    """The echo is the last user text, whatever form the content has."""
    blocks = user({"type": "text", "text": "one"}, DOCUMENT, {"type": "text", "text": "two"})
    batch = world.create(access, [{"custom_id": "a", "params": params(messages=blocks)}])
    clock.advance(100)
    (line,) = map(orjson.loads, world.results(access, batch.id))
    assert line["result"]["message"]["content"][0]["text"].startswith("echo:one two #")


def test_sampling_params_are_fine_in_the_old_version(world, clock, params):
    """The version of the create decides: 2023-06-01 still takes temperature."""
    body = params(temperature=0.5, top_k=3)
    assert fault_of(world, clock, body, version="2023-06-01") == "succeeded"


def test_extended_output_needs_its_beta(world, clock, params):
    """300,000 output tokens pass only with the beta, and only on some models."""
    body = params(model="claude-opus-5", max_tokens=300_000)
    assert "max_tokens: 300000 > 128000" in fault_of(world, clock, body)
    betas = ("output-300k-2026-03-24",)
    assert fault_of(world, clock, body, betas=betas) == "succeeded"


def test_newer_models_refuse_prefill_and_enabled_thinking(world, clock, params):
    """Rules bind by model: prefill and fixed thinking budgets pass only on older ones."""
    prefill = [{"role": "user", "content": "q"}, {"role": "assistant", "content": "{"}]
    thinking = {"type": "enabled", "budget_tokens": 1024}
    assert fault_of(world, clock, params(messages=prefill)) == "succeeded"
    assert fault_of(world, clock, params(thinking=thinking)) == "succeeded"
    new = params(model="claude-opus-5", messages=prefill)
    assert "prefill" in fault_of(world, clock, new)
    new = params(model="claude-opus-5", thinking=thinking)
    assert '"thinking.type.enabled" is not supported' in fault_of(world, clock, new)


def test_unreachable_files_fail_while_running(world, clock, params, access):
    """A file that cannot be fetched is an error of the worker, with its own request id."""
    image = {"type": "image", "source": {"type": "url", "url": "https://x.invalid/a.png"}}
    batch = world.create(
        access,
        [{"custom_id": "a", "params": params(messages=[{"role": "user", "content": [image]}])}],
    )
    clock.advance(100)
    (line,) = map(orjson.loads, world.results(access, batch.id))
    assert line["result"]["error"]["request_id"].startswith("workerreq_")
    assert "Unable to download" in line["result"]["error"]["error"]["message"]


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b"", "The request body is not valid JSON: "),
        (b'{"requests":[{"custom_id":"a"', "The request body is not valid JSON: "),
        (b'{"requests":[{"a":1},]}', "The request body is not valid JSON: "),
        (b'{"requests":[{"a":1}]} x', "The request body is not valid JSON: "),
        (b"[]", "Input should be a valid dictionary"),
        (b"{}", "requests: Field required"),
        (b'{"requests":{}}', "requests: Input should be a valid list"),
        (b'{"requests":[{"a":1}],"x":2}', "x: Extra inputs are not permitted"),
    ],
)
def test_bodies_that_are_no_create(body, message):
    """A body that is not JSON, or not a create, is refused with the API's text."""
    with pytest.raises(ApiProblem) as caught:
        list(read_requests(body))
    assert caught.value.message.startswith(message)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.text(max_size=6),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=8,
)


@given(st.lists(json_values, max_size=5), st.sampled_from(["", " ", "\n\t"]))
def test_cutting_equals_parsing(requests, space):
    """Cutting a body into requests gives what parsing it whole gives."""
    parts = f"{space},{space}".join(orjson.dumps(value).decode() for value in requests)
    body = f'{space}{{"requests":{space}[{space}{parts}{space}]{space}}}{space}'.encode()
    assert list(read_requests(body)) == requests
