"""
Reading JSON that somebody else wrote.
"""

from __future__ import annotations

import json
from typing import Any

import orjson


def load_json(data: bytes) -> Any:
    """
    Parse *data*; take what strict parsers refuse but real answers may hold.

    An escaped lone surrogate (a model can emit half an emoji) is legal JSON text, yet orjson
    refuses it; the standard library takes it.

    Raises:
        ValueError: *data* is not JSON at all.
    """
    try:
        return orjson.loads(data)
    except orjson.JSONDecodeError:
        return json.loads(data)


def dump_json(value: Any) -> bytes:
    """Write compact JSON bytes; lone surrogates stay escaped, so that the bytes are UTF-8."""
    try:
        return orjson.dumps(value)
    except (orjson.JSONEncodeError, UnicodeEncodeError):
        return json.dumps(value, separators=(",", ":")).encode("ascii")
