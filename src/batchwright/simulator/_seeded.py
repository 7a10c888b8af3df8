"""Everything that looks random, derived from a seed and names.

Nothing here keeps state: the same names give the same draw, in any order of asking, in any
process and on any Python. That is what makes two runs of a test comparable although their
requests arrive in another order.
"""

from __future__ import annotations

from hashlib import blake2b

_ALPHABET = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
_SPAN = float(1 << 64)
#: Up to here an order is made by sorting draws: a few milliseconds.
_SORTED_MOST = 2000


def number(*names: object) -> int:
    """Return a 64-bit number that follows from the names alone."""
    text = "\x1f".join(map(str, names)).encode("utf-8", "surrogatepass")
    return int.from_bytes(blake2b(text, digest_size=8).digest(), "big")


def fraction(*names: object) -> float:
    """Return a number in [0, 1) that follows from the names alone."""
    return number(*names) / _SPAN


def between(low: float, high: float, *names: object) -> float:
    """Return a number in [low, high) that follows from the names alone."""
    # Equal ends are asked for first because both may be infinite.
    return low if low == high else low + (high - low) * fraction(*names)


def token(length: int, *names: object) -> str:
    """Return `length` base-62 characters that follow from the names alone."""
    text = "\x1f".join(map(str, names)).encode("utf-8", "surrogatepass")
    value = int.from_bytes(blake2b(text, digest_size=32).digest(), "big")
    letters = []
    for _ in range(length):
        value, place = divmod(value, 62)
        letters.append(_ALPHABET[place])
    return "".join(letters)


def api_id(prefix: str, *names: object) -> str:
    """Return an id of the API's form: a prefix and 24 base-62 characters from `01`."""
    return f"{prefix}_01{token(22, prefix, *names)}"


def shuffled(length: int, *names: object) -> list[int]:
    """Return the positions 0..length-1 in an order that follows from the names.

    Long lists are strode through in a ring instead of sorted by draws: as good as any order
    that a client must not lean on, and 100,000 positions hold nobody up.
    """
    if length <= _SORTED_MOST:
        return sorted(range(length), key=lambda place: number(*names, place))
    step = 1 + number("step", *names) % (length - 1)
    while _common(step, length) != 1:
        step += 1
    first = number("first", *names) % length
    return [(first + step * place) % length for place in range(length)]


def _common(left: int, right: int) -> int:
    while right:
        left, right = right, left % right
    return left
