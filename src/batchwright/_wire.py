"""
How items stand on the wire: the exact bytes of a create's body, and their count.

The body is assembled from stored bytes, so what is measured, hashed and sent are the same bytes.
"""

from __future__ import annotations

from collections.abc import Iterable

HEAD = b'{"requests":['
TAIL = b"]}"
COMMA = b","

_ID = b'{"custom_id":"'
_PARAMS = b'","params":'
_END = b"}"

#: Bytes of an entry beside its custom_id and its params.
ENTRY_OVERHEAD = len(_ID) + len(_PARAMS) + len(_END)
#: Bytes of a body beside its entries and the commas between them.
ENVELOPE = len(HEAD) + len(TAIL)


def entry_size(custom_id: str, body_length: int) -> int:
    """Return the bytes of one entry; custom_ids are ASCII by their pattern."""
    return ENTRY_OVERHEAD + len(custom_id) + body_length


def body_size(count: int, entries: int) -> int:
    """Return the bytes of a whole body of *count* entries that sum up to *entries* bytes."""
    return ENVELOPE + entries + max(count - 1, 0) * len(COMMA)


def entries(pairs: Iterable[tuple[str, bytes]], *, first: bool = True) -> bytes:
    """Return entries of the `requests` array, after a comma where they are not the *first*."""
    parts: list[bytes] = []
    for custom_id, params in pairs:
        parts += (COMMA, _ID, custom_id.encode("ascii"), _PARAMS, params, _END)
    return b"".join(parts[1:] if first else parts)
