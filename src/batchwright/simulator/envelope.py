"""The first stage of validation: the envelope of a create, refused as a whole."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

import orjson

from batchwright.simulator.problems import ApiProblem, invalid

_LEGAL_ID = re.compile(r"[a-zA-Z0-9_-]{1,64}", re.ASCII)
#: The usual start of a create; bodies of another form are parsed in one go.
_HEAD = re.compile(rb'\s*\{\s*"requests"\s*:\s*\[\s*')
#: Strings are skipped whole, so that only real brackets are counted.
_MARK = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"|[{}\[\]]', re.DOTALL)
_OPEN, _CLOSE = b"{[", b"}]"
_NEXT = re.compile(rb"\s*,\s*")
_TAIL = re.compile(rb"\s*\]\s*\}\s*")


def read_requests(body: bytes | bytearray) -> Iterator[Any]:
    """Yield the values of `requests` one by one.

    A body of the usual form is cut into its requests first and each is parsed on its own, so
    that a caller can let go of the event loop in between even when the body has 250 MB.

    Raises:
        ApiProblem: It is not JSON, or not an object with a list of requests.
    """
    seen = 0
    head = _HEAD.match(body)
    place = head.end() if head else -1
    with memoryview(body) as view:
        while place >= 0 and body[place : place + 1] == b"{":
            end = _end_of_object(body, place)
            yield _loads(view[place:end])
            seen += 1
            more = _NEXT.match(body, end)
            if more is None and _TAIL.fullmatch(body, end):
                return
            place = more.end() if more else -1
    # Anything unusual: the whole body goes to the parser, which says what is wrong with it.
    yield from _all_at_once(body)[seen:]


def _end_of_object(body: bytes | bytearray, place: int) -> int:
    depth = 0
    for mark in _MARK.finditer(body, place):
        letter = body[mark.start()]
        if letter in _OPEN:
            depth += 1
        elif letter in _CLOSE:
            depth -= 1
            if depth == 0:
                return mark.end()
    raise _not_json("unexpected end of data")


def _all_at_once(body: bytes | bytearray) -> list[Any]:
    data = _loads(body)
    if not isinstance(data, dict):
        raise invalid("Input should be a valid dictionary")
    if "requests" not in data:
        raise invalid("requests: Field required")
    for key in data:
        if key != "requests":
            raise invalid(f"{key}: Extra inputs are not permitted")
    requests = data["requests"]
    if not isinstance(requests, list):
        raise invalid("requests: Input should be a valid list")
    return requests


def _loads(part: bytes | bytearray | memoryview) -> Any:
    try:
        return orjson.loads(part)
    except orjson.JSONDecodeError as error:
        raise _not_json(str(error)) from None


def _not_json(why: str) -> ApiProblem:
    return invalid(f"The request body is not valid JSON: {why}")


def check_request(place: int, request: object) -> tuple[str, Mapping[str, Any]]:
    """Return custom id and params of one request of the envelope.

    Raises:
        ApiProblem: With the API's text for the first fault.
    """
    where = f"requests.{place}"
    if not isinstance(request, dict):
        raise invalid(f"{where}: Input should be a valid dictionary")
    custom_id = _check_id(where, request)
    if "params" not in request:
        raise invalid(f"{where}.params: Field required")
    params = request["params"]
    if not isinstance(params, dict):
        raise invalid(f"{where}.params: Input should be a valid dictionary")
    for key in request:
        if key not in ("custom_id", "params"):
            raise invalid(f"{where}.{key}: Extra inputs are not permitted")
    return custom_id, params


def _check_id(where: str, request: Mapping[str, Any]) -> str:
    if "custom_id" not in request:
        raise invalid(f"{where}.custom_id: Field required")
    custom_id = request["custom_id"]
    if not isinstance(custom_id, str):
        raise invalid(f"{where}.custom_id: Input should be a valid string")
    if not custom_id:
        raise invalid(f"{where}.custom_id: String should have at least 1 character")
    if len(custom_id) > 64:
        raise invalid(f"{where}.custom_id: String should have at most 64 characters")
    if not _LEGAL_ID.fullmatch(custom_id):
        pattern = "^[a-zA-Z0-9_-]{1,64}$"
        raise invalid(f"{where}.custom_id: String should match pattern '{pattern}'")
    return custom_id


def check_count(count: int, most: int) -> None:
    """Refuse an empty batch and one with too many requests."""
    if count == 0:
        raise invalid("requests: List should have at least 1 item after validation, not 0")
    if count > most:
        raise invalid(
            f"requests: List should have at most {most} items after validation, not {count}"
        )
