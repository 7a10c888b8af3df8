"""
What waits to be sent, by the headers that items share: plain counts, no items.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from batchwright.store import Group


@dataclass(slots=True)
class Heap:
    """
    The waiting items of one header group.

    `since`: when the oldest retry began to wait. `skip`: up to this `seq` none fits a direct call;
    `batch_only`: none at all does.
    """

    fresh: int = 0
    again: int = 0
    since: float | None = None
    batch_only: bool = False
    skip: int = -1

    @property
    def waiting(self) -> int:
        """Number of waiting items."""
        return self.fresh + self.again

    def due(self, wait: float) -> float:
        """Return when its retries have waited for *wait* seconds."""
        return -math.inf if self.since is None else self.since + wait

    def has_rested(self, now: float, backoff: float) -> bool:
        """Tell whether something may leave: fresh items, or retries past their backoff."""
        return self.fresh > 0 or now >= self.due(backoff)

    def changed(self) -> None:
        """Note that other items wait now: what fits is to be seen anew."""
        self.batch_only, self.skip = False, -1


@dataclass(slots=True)
class Backlog:
    """All that waits, by header group."""

    heaps: dict[str, Heap] = field(default_factory=dict)

    @classmethod
    def of(cls, groups: Iterable[Group], now: float) -> Backlog:
        """Return the backlog with which a wave begins; what waited before has waited enough."""
        return cls({g.headers: Heap(g.fresh + g.again, 0, now) for g in groups})

    @property
    def waiting(self) -> int:
        """Number of waiting items."""
        return sum(heap.waiting for heap in self.heaps.values())

    def take(self, headers: str, count: int) -> None:
        """Note that *count* items left in a shard; the repeated ones are counted off first."""
        heap = self.heaps[headers]
        again = min(count, heap.again)
        heap.again -= again
        heap.fresh = max(heap.fresh - (count - again), 0)
        if not heap.again:
            heap.since = None

    def emptied(self, headers: str) -> None:
        """Note that nothing of this group waits after all: late answers came for the rest."""
        self.heaps[headers] = Heap()

    def give_back(self, headers: str, count: int) -> None:
        """Note that *count* items wait again because their shard was certainly not taken."""
        heap = self.heaps.setdefault(headers, Heap())
        heap.fresh += count
        heap.changed()

    def retry(self, headers: str, count: int, now: float) -> None:
        """Note that *count* items wait for another try."""
        if count:
            heap = self.heaps.setdefault(headers, Heap())
            heap.again += count
            heap.changed()
            heap.since = now if heap.since is None else heap.since

    def recount(self, groups: Iterable[Group], now: float) -> None:
        """Take over what the store counts, where others let items wait as well."""
        counted = {group.headers: group for group in groups}
        for headers in self.heaps.keys() | counted.keys():
            group = counted.get(headers)
            heap = self.heaps.setdefault(headers, Heap())
            before = heap.waiting
            heap.fresh, heap.again = (group.fresh, group.again) if group else (0, 0)
            if heap.waiting > before:
                heap.changed()
            heap.since = None if not heap.again else now if heap.since is None else heap.since

    def groups(self) -> Mapping[str, Heap]:
        """Return the groups in which something waits."""
        return {headers: heap for headers, heap in self.heaps.items() if heap.waiting}
