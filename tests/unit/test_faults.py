"""The table of faults, a row a test."""

from __future__ import annotations

import pytest

from batchwright._faults import Failure, Fault, LineFault, classify, classify_line, named_index

API = {"type": "rate_limit_error"}


@pytest.mark.parametrize(
    ("call", "facts", "fault"),
    [
        # A create: what is definite, and what is unknown.
        ("create", {"status": None}, Fault.UNKNOWN),
        ("create", {"status": None, "sent": False}, Fault.MOMENT),
        ("create", {"status": 200}, Fault.UNKNOWN),
        ("create", {"status": 500, "type": "api_error"}, Fault.UNKNOWN),
        ("create", {"status": 502}, Fault.UNKNOWN),
        ("create", {"status": 503, "type": "api_error"}, Fault.UNKNOWN),
        ("create", {"status": 504, "type": "timeout_error"}, Fault.UNKNOWN),
        ("create", {"status": 408}, Fault.UNKNOWN),
        ("create", {"status": 409, "type": "conflict_error"}, Fault.MOMENT),
        ("create", {"status": 409}, Fault.UNKNOWN),
        ("create", {"status": 429, "type": "rate_limit_error"}, Fault.BUSY),
        ("create", {"status": 429}, Fault.UNKNOWN),
        ("create", {"status": 529, "type": "overloaded_error"}, Fault.BUSY),
        ("create", {"status": 529}, Fault.UNKNOWN),
        ("create", {"status": 413}, Fault.TOO_LARGE),
        ("create", {"status": 400, "type": "invalid_request_error"}, Fault.ENVELOPE),
        ("create", {"status": 422}, Fault.ENVELOPE),
        ("create", {"status": 404, "type": "not_found_error"}, Fault.ACCOUNT),
        ("create", {"status": 405}, Fault.ACCOUNT),
        # The account's, by status, by code, by wording last.
        ("create", {"status": 401, "type": "authentication_error"}, Fault.ACCOUNT),
        ("create", {"status": 402, "type": "billing_error"}, Fault.ACCOUNT),
        ("create", {"status": 403, "type": "permission_error"}, Fault.ACCOUNT),
        ("create", {"refused_unsent": True, "sent": False}, Fault.ACCOUNT),
        (
            "create",
            {"status": 429, "type": "rate_limit_error", "code": "enforced_spend_limit_reached"},
            Fault.ACCOUNT,
        ),
        (
            "create",
            {"status": 429, "type": "rate_limit_error", "code": "contract_spend_limit_reached"},
            Fault.ACCOUNT,
        ),
        (
            "create",
            {"status": 429, "type": "rate_limit_error", "code": "ramp_limit_exceeded"},
            Fault.BUSY,
        ),
        (
            "create",
            {"status": 400, "type": "invalid_request_error", "code": "organization_on_hold"},
            Fault.ACCOUNT,
        ),
        (
            "create",
            {
                "status": 400,
                "type": "invalid_request_error",
                "message": "You have reached your specified API usage limits. You will regain…",
            },
            Fault.ACCOUNT,
        ),
        (
            "create",
            {
                "status": 400,
                "type": "invalid_request_error",
                "message": "You have reached your specified workspace API usage limits.",
            },
            Fault.ACCOUNT,
        ),
        (
            "create",
            {
                "status": 400,
                "type": "invalid_request_error",
                "message": "Your credit balance is too low to access the Anthropic API.",
            },
            Fault.ACCOUNT,
        ),
        # A known code is believed before the wording.
        (
            "create",
            {
                "status": 400,
                "type": "invalid_request_error",
                "code": "request_body_encoding_invalid",
                "message": "credit balance",
            },
            Fault.ENVELOPE,
        ),
        # Reads repeat.
        ("retrieve", {"status": None}, Fault.MOMENT),
        ("retrieve", {"status": 500}, Fault.MOMENT),
        ("retrieve", {"status": 200}, Fault.MOMENT),
        ("retrieve", {"status": 429}, Fault.BUSY),
        ("retrieve", {"status": 404}, Fault.NOT_FOUND),
        ("retrieve", {"status": 401}, Fault.ACCOUNT),
        ("results", {"status": 404}, Fault.NOT_FOUND),
        ("cancel", {"status": 400, "type": "invalid_request_error"}, Fault.ENVELOPE),
        ("cancel", {"status": 409}, Fault.ENVELOPE),
    ],
)
def test_calls(call, facts, fault):
    """Status and code before wording; creates are judged more carefully than reads."""
    assert classify(Failure(call=call, **facts)) is fault


@pytest.mark.parametrize(
    ("type_", "code", "message", "fault"),
    [
        ("invalid_request_error", None, "messages: Field required", LineFault.ITEM),
        ("not_found_error", None, "model: nope", LineFault.ITEM),
        ("request_too_large", None, "", LineFault.ITEM),
        ("api_error", None, "", LineFault.MOMENT),
        ("overloaded_error", None, "", LineFault.MOMENT),
        ("rate_limit_error", None, "", LineFault.MOMENT),
        ("timeout_error", None, "", LineFault.MOMENT),
        ("authentication_error", None, "", LineFault.ACCOUNT),
        ("permission_error", None, "", LineFault.ACCOUNT),
        ("billing_error", None, "", LineFault.ACCOUNT),
        ("invalid_request_error", None, "Your credit balance is too low", LineFault.ACCOUNT),
        ("invalid_request_error", "organization_on_hold", "", LineFault.ACCOUNT),
        ("rate_limit_error", "enforced_spend_limit_reached", "", LineFault.ACCOUNT),
        ("something_new", None, "", LineFault.ODD),
    ],
)
def test_lines(type_, code, message, fault):
    """The item's, the moment's, the account's, and what nobody knows yet."""
    assert classify_line(type_, code, message) is fault


@pytest.mark.parametrize(
    ("message", "index"),
    [
        ("requests.3.custom_id: Field required", 3),
        ("requests.0.params: Field required", 0),
        ("requests[12].params", 12),
        ("the 3 requests are bad", None),
        ("", None),
    ],
)
def test_the_index_an_envelope_error_names(message, index):
    """0-based, as the API writes it."""
    assert named_index(message) == index


def test_a_failure_reads_well():
    """What a person sees in a log line."""
    failure = Failure(
        call="create",
        status=429,
        type="rate_limit_error",
        code="enforced_spend_limit_reached",
        message="This request would exceed…",
        request_id="req_1",
    )

    assert str(failure) == (
        "HTTP 429 rate_limit_error (enforced_spend_limit_reached): This request would exceed… "
        "[req_1]"
    )
    assert str(Failure(call="list")) == "no answer"
