"""
The requests of a reading, summed by shape, with a few of each kept to be counted.

However many items there are, what is kept is bounded: the sums of `STRATA` shapes, and of each some
requests. Which ones is decided by the hash of what they ask, so the same items give the same plan.
"""

from __future__ import annotations

import heapq
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, field

from batchwright._plan.measure import Weight
from batchwright.store import NewItem

#: Shapes that are told apart; the others of a model are taken together.
STRATA = 24
#: Models that are told apart; a name of its own for each item would be a mistake.
MODELS = 50
OTHER_MODELS = "(other models)"
#: Different `max_tokens` of one model that are told apart.
ASKED = 1_000
#: The beta with which a request may ask for more than its model's ceiling.
EXTENDED_BETA = "output-300k"
#: Requests kept of one shape, and the bytes they may have together.
KEPT = 32
KEPT_BYTES = 2_000_000
#: Larger requests are not counted: they would be most of the traffic of a plan.
LARGEST = 1_000_000


@dataclass(frozen=True, slots=True, order=True)
class Kept:
    """One request that may be counted; `rank` is a hash of it, the lowest are kept."""

    rank: int
    body: bytes = field(compare=False)
    headers: str = field(compare=False)


@dataclass(slots=True)
class Stratum:
    """
    The requests of one model and one shape, summed as in `Weight`.

    `counted`: bytes and tokens of those that the API has counted.
    """

    model: str
    items: int = 0
    size: int = 0
    text: int = 0
    max_tokens: int = 0
    images: int = 0
    documents: int = 0
    document_bytes: int = 0
    elsewhere: int = 0
    cached: int = 0
    cached_long: int = 0
    in_us: int = 0
    at_server: int = 0
    counted: list[tuple[int, int]] = field(default_factory=list)
    _kept: list[tuple[int, Kept]] = field(default_factory=list)
    _held: int = 0

    def add(self, weight: Weight, row: NewItem) -> None:
        """Add one request."""
        self.items += 1
        self.size += weight.size
        self.text += weight.text
        self.max_tokens += weight.max_tokens
        self.images += weight.images
        self.documents += weight.documents
        self.document_bytes += weight.document_bytes
        self.elsewhere += weight.elsewhere
        self.cached += weight.cache != ""
        self.cached_long += weight.cache == "1h"
        self.in_us += weight.in_us
        self.at_server += weight.at_server
        if weight.size <= LARGEST:
            self._keep(row)

    def _keep(self, row: NewItem) -> None:
        rank = int.from_bytes(row.digest[:8])
        full = len(self._kept) >= KEPT or self._held + len(row.body) > KEPT_BYTES
        if full and self._kept and rank >= -self._kept[0][0]:
            return
        heapq.heappush(self._kept, (-rank, Kept(rank, row.body, row.headers)))
        self._held += len(row.body)
        while len(self._kept) > KEPT or (self._held > KEPT_BYTES and len(self._kept) > 1):
            _, dropped = heapq.heappop(self._kept)
            self._held -= len(dropped.body)

    @property
    def kept(self) -> Sequence[Kept]:
        """The requests that were kept, the lowest ranks first."""
        return sorted(kept for _, kept in self._kept)


class Sample:
    """All requests that would be sent."""

    def __init__(self) -> None:
        self._strata: dict[Hashable, Stratum] = {}
        #: By model: how many items ask for how many tokens, without the beta that allows more.
        self.asked: dict[str, dict[int, int]] = {}

    @property
    def strata(self) -> Sequence[Stratum]:
        """The sums, the largest shape first."""
        return sorted(self._strata.values(), key=lambda s: -s.items)

    def add(self, row: NewItem, weight: Weight, shape: Hashable) -> None:
        """Add one request of *shape*."""
        model = self._model_of(row.model)
        if EXTENDED_BETA not in row.headers:
            asked = self.asked[model]
            # Nobody asks for so many different numbers but by chance.
            if weight.max_tokens in asked or len(asked) < ASKED:
                asked[weight.max_tokens] = asked.get(weight.max_tokens, 0) + 1
        key: Hashable = (model, shape)
        if key not in self._strata and len(self._strata) >= STRATA:
            key = model
        self._strata.setdefault(key, Stratum(model)).add(weight, row)

    def _model_of(self, name: str) -> str:
        if name not in self.asked and len(self.asked) >= MODELS:
            name = OTHER_MODELS
        self.asked.setdefault(name, {})
        return name

    def chosen(self, most: int) -> Iterator[tuple[Stratum, Kept]]:
        """
        Yield up to *most* requests to be counted.

        One of each shape first, the common shapes before the rare ones, then in turns.
        """
        strata = [(stratum, stratum.kept) for stratum in self.strata]
        turns = [
            (stratum, kept[turn])
            for turn in range(KEPT)
            for stratum, kept in strata
            if turn < len(kept)
        ]
        yield from turns[:most]
