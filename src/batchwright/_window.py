"""
How many direct calls of one org may be under way: additive increase, multiplicative decrease.

The API tells of its limits by refusing (429, 529). Each success widens the window a little, each
refusal halves it, so that the pool settles where the limit is, whatever the limit is.
"""

from __future__ import annotations

import anyio

from batchwright._clock import clock

#: Calls under way at the beginning; every success adds one until the first refusal.
FIRST = 8
#: Seconds between two halvings: refusals of calls that left together count once.
CALM = 1.0


class Window:
    """The window of one org. `size` is how many calls may be under way."""

    def __init__(self, most: int) -> None:
        self.most = most
        self.size = float(min(FIRST, most))
        self.under_way = 0
        self.successes = 0
        self._slow_start = True
        self._halved_at = float("-inf")
        self._closed_until = float("-inf")
        self._changed = anyio.Event()

    async def enter(self) -> None:
        """Wait until one more call may leave, and count it in."""
        while True:
            rest = self._closed_until - clock().monotonic()
            if rest <= 0 and self.under_way < int(self.size):
                self.under_way += 1
                return
            changed = self._changed
            if rest > 0:
                with anyio.move_on_after(rest):
                    await changed.wait()
            else:
                await changed.wait()

    def leave(self) -> None:
        """Count a call out."""
        self.under_way -= 1
        self.wake()

    def succeeded(self) -> None:
        """Widen: by one for each success at first, later by one for each full window of them."""
        self.successes += 1
        step = 1.0 if self._slow_start else 1.0 / self.size
        self.size = min(self.size + step, float(self.most))

    def refused(self, wait: float) -> None:
        """Halve, once for refusals that belong together; let nothing leave for *wait* seconds."""
        now = clock().monotonic()
        self._slow_start = False
        self._closed_until = max(self._closed_until, now + wait)
        if now - self._halved_at >= CALM or wait >= CALM:
            self._halved_at = now
            self.size = max(min(self.size, float(self.under_way)) / 2.0, 1.0)

    def wake(self) -> None:
        """Let those who wait look again."""
        self._changed.set()
        self._changed = anyio.Event()
