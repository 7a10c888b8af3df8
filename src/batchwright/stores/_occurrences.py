"""
Which answer of an earlier run belongs to which waiting item: pure, and the same for every store.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import NamedTuple


class Asked(NamedTuple):
    """
    One item that asks a question.

    Attributes:
        rank: 0 in the run that looks for answers, from 1 in its sources, in their order.
        seq: The item's place in its run.
        digest: The question.
        fit: In the run: whether it looks for an answer; in a source: whether it holds one.
    """

    rank: int
    seq: int
    digest: bytes
    fit: bool


def match(rows: Iterable[Asked]) -> list[tuple[int, tuple[int, int]]]:
    """
    Return the `seq` of items that are answered, each with rank and `seq` of what answers it.

    *rows* are all items of the questions at hand, those of each rank in the order of `seq`. The
    nth item of a question is answered by the nth one of a source, so an answer serves one item of
    the run alone, however often it is asked and whatever the sources gain meanwhile.
    """
    seen: Counter[tuple[int, bytes]] = Counter()
    looking: dict[tuple[bytes, int], int] = {}
    held: dict[tuple[bytes, int], tuple[int, int]] = {}
    for rank, seq, digest, fit in rows:
        seen[rank, digest] += 1
        sample = (digest, seen[rank, digest])
        if not fit:
            continue
        if rank == 0:
            looking[sample] = seq
        else:
            held[sample] = min(held.get(sample, (rank, seq)), (rank, seq))
    return sorted((seq, held[sample]) for sample, seq in looking.items() if sample in held)
