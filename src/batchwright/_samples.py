"""
Which of several calls with the same question is which: pure.
"""

from __future__ import annotations

from heapq import heappop, heappush


class Samples:
    """
    Numbers the calls that ask the same, from 1.

    A number whose call got no answer is given out again before a new one: an answer that comes
    for it later is somebody's, and a retry is not another sample.
    """

    def __init__(self) -> None:
        self._last: dict[bytes, int] = {}
        self._free: dict[bytes, list[int]] = {}

    def take(self, digest: bytes) -> int:
        """Return the lowest free number of a question."""
        free = self._free.get(digest)
        if free:
            number = heappop(free)
            if not free:
                del self._free[digest]
            return number
        number = self._last[digest] = self._last.get(digest, 0) + 1
        return number

    def give_back(self, digest: bytes, number: int) -> None:
        """Let a number be taken again."""
        heappush(self._free.setdefault(digest, []), number)
