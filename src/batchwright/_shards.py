"""
How waiting items are cut into sub-batches: pure.

Never one huge batch: at most `max_requests` items and `max_bytes` of body each, whichever comes
first, and of about the same size (90,000 items make twelve of 7,500, not eleven of 8,000 and a
rest).
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from itertools import islice

from batchwright._wire import COMMA, ENVELOPE
from batchwright.store import Pending
from batchwright.types import Spans


@dataclass(frozen=True, slots=True)
class Cut:
    """The items of one sub-batch: their positions, their number, the bytes of the body."""

    seqs: tuple[int, ...]
    size: int

    @property
    def count(self) -> int:
        """Number of items."""
        return len(self.seqs)

    @property
    def spans(self) -> Spans:
        """The positions as spans of consecutive numbers."""
        return spans_of(self.seqs)


def spans_of(seqs: Iterable[int]) -> list[tuple[int, int]]:
    """Return ascending *seqs* as spans, both ends included."""
    spans: list[tuple[int, int]] = []
    for seq in seqs:
        if spans and spans[-1][1] == seq - 1:
            spans[-1] = (spans[-1][0], seq)
        else:
            spans.append((seq, seq))
    return spans


def share_of(waiting: int, max_requests: int) -> int:
    """Return how many items the next shard should take, so that all come out about equal."""
    return math.ceil(waiting / math.ceil(waiting / max_requests))


def distinct_count(wanted: int, taken: AbstractSet[int], waiting: int, max_requests: int) -> int:
    """
    Return the largest count up to *wanted* that no shard in doubt has, if there is one near.

    A create whose answer is lost can only be found again by its number of requests, so creates
    that are under way together get different numbers; never at the price of one more shard.
    """
    shards = math.ceil(waiting / max_requests)
    lowest = max(1, wanted - len(taken), waiting - (shards - 1) * max_requests)
    return next((count for count in range(wanted, lowest - 1, -1) if count not in taken), wanted)


def next_count(waiting: int, most: int, doubtful: AbstractSet[int]) -> int:
    """
    Return how many of *waiting* items the next shard should take.

    Args:
        waiting: Items that may travel together; at least one.
        most: Most of them in one shard; at least one.
        doubtful: Counts of the shards whose creates are under way.
    """
    return distinct_count(share_of(waiting, most), doubtful, waiting, most)


def cut_all(
    sizes: Sequence[int],
    *,
    max_requests: int,
    max_bytes: int,
    abreast: int,
    under_way: deque[int],
) -> Iterator[Cut]:
    """
    Yield the shards of all items, as a wave cuts them when every create is answered in its turn.

    Args:
        sizes: Bytes of the items' entries on the wire, in the order in which they wait.
        max_requests: Most requests in one shard.
        max_bytes: Most bytes of one body.
        abreast: Most creates under way at once.
        under_way: Counts of the shards that are being sent; brought up to date.
    """
    at = 0
    while at < len(sizes):
        while len(under_way) >= abreast:
            under_way.popleft()
        count = next_count(len(sizes) - at, max_requests, frozenset(under_way))
        rest = (Pending(seq=seq, size=sizes[seq]) for seq in range(at, len(sizes)))
        piece = cut(rest, max_requests=count, max_bytes=max_bytes)
        under_way.append(piece.count)
        at += piece.count
        yield piece


def cut(items: Iterable[Pending], *, max_requests: int, max_bytes: int) -> Cut:
    """Return the first shard of *items*: as many from the front as both limits allow."""
    seqs: list[int] = []
    size = ENVELOPE
    for item in islice(items, max_requests):
        grown = size + item.size + (len(COMMA) if seqs else 0)
        if seqs and grown > max_bytes:
            break
        seqs.append(item.seq)
        size = grown
    return Cut(tuple(seqs), size)


def halves(seqs: Sequence[int]) -> tuple[Sequence[int], Sequence[int]]:
    """Return *seqs* in two parts of about the same length, for isolating a bad item."""
    middle = (len(seqs) + 1) // 2
    return seqs[:middle], seqs[middle:]


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiting:
    """
    What decides whether a shard leaves now.

    Attributes:
        fresh: Items never tried.
        again: Items that wait for another try.
        live: Shards that are planned, being sent, alive or being read.
        gathering_for: Seconds since the first of the *again* items began to wait.
        backoff: Seconds a repeated item waits at least.
        gather: Seconds it waits at most for company.
        max_requests: What fills a shard.
    """

    fresh: int
    again: int
    live: int
    gathering_for: float
    backoff: float
    gather: float
    max_requests: int


def leaves_now(waiting: Waiting) -> bool:
    """
    Tell whether the next shard should be cut now.

    Fresh items leave at once. Retries leave when a shard is full, when nothing else can add to
    them, or when they have gathered long enough: they never wait for the slowest batch.
    """
    if waiting.fresh:
        return True
    if not waiting.again or waiting.gathering_for < waiting.backoff:
        return False
    full = waiting.again >= waiting.max_requests
    return full or waiting.live == 0 or waiting.gathering_for >= waiting.gather
