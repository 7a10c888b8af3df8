"""
The ids of items on the wire: readable, and a proof of what was asked.
"""

from __future__ import annotations

import functools
import hashlib
import re

#: What the API takes for a `custom_id`, and what ours are made of.
CUSTOM_ID_PATTERN = "^[a-zA-Z0-9_-]{1,64}$"
CUSTOM_ID_OF = ("run_id", "item id", "digest of the request")

_ALPHABET = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
#: Two letters of a code at a time.
_PAIRS = [first + second for first in _ALPHABET for second in _ALPHABET]
_STEM_LENGTH = 52
_ILLEGAL = re.compile(r"[^a-zA-Z0-9_-]")


def make_custom_id(run_id: str, item_id: str, digest: bytes) -> str:
    """
    Return the item's id on the wire: `stem-code`.

    The stem is the readable start of the id; the code proves that an answer belongs to exactly
    this question of this run, on any machine. The API takes `^[a-zA-Z0-9_-]{1,64}$`.
    """
    return f"{stem_of(item_id)}-{make_code(run_id, item_id, digest)}"


def stem_of(item_id: str) -> str:
    """Return the readable start of an item's id, in the characters that the API takes."""
    return _ILLEGAL.sub("_", item_id[:_STEM_LENGTH]) or "item"


def make_code(run_id: str, item_id: str, digest: bytes) -> str:
    """Return 11 base-62 characters (64 bits) of a hash of run id, item id and digest."""
    item = item_id.encode()
    # Lengths stand before the parts, so that no two triples run together into the same bytes.
    parts = _measured(run_id) + len(item).to_bytes(4) + item + digest
    return _base62(int.from_bytes(hashlib.blake2b(parts, digest_size=8).digest()))


@functools.lru_cache(maxsize=8)
def _measured(text: str) -> bytes:
    data = text.encode()
    return len(data).to_bytes(4) + data


def _base62(number: int) -> str:
    """Return 64 bits as 11 letters; cut into halves first, since small integers divide fast."""
    high, low = divmod(number, 62**6)
    first, high = divmod(high, 62**4)
    second, third = divmod(high, 62**2)
    fourth, low = divmod(low, 62**4)
    fifth, sixth = divmod(low, 62**2)
    return (
        f"{_ALPHABET[first]}{_PAIRS[second]}{_PAIRS[third]}"
        f"{_PAIRS[fourth]}{_PAIRS[fifth]}{_PAIRS[sixth]}"
    )
