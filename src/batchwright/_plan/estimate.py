"""
Tokens and money of requests that have not been sent: pure, and always as ranges.

Input is measured by counted requests where there are any, else by bytes. Output is bounded by
`max_tokens`; what it comes to is known only where answers of the same model are.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from batchwright._plan.sample import Stratum
from batchwright._prices import BATCH_SHARE, BYTES_PER_TOKEN, Prices, full_price, undated
from batchwright.store import Spent
from batchwright.types import Tokens

#: Bytes of text that make one token: low, likely and high end of the tokens.
TEXT: Final = (6.0, BYTES_PER_TOKEN, 2.5)
#: Tokens of one image.
IMAGE: Final = (50.0, 1_600.0, 4_800.0)
#: Bytes of one page of a document, and tokens of a page.
PAGE_BYTES: Final = (400_000.0, 75_000.0, 10_000.0)
PAGE_TOKENS: Final = (1_500.0, 3_000.0, 5_000.0)
#: How far a measured ratio is trusted at best, and where it rests on a single request.
LEAST_SPREAD: Final = 0.03
SINGLE_SPREAD: Final = 0.3
#: Fewer answers than this say nothing about the next ones.
ENOUGH_ANSWERS: Final = 10
#: How much longer or shorter than earlier ones the answers of a run may come out.
OUTPUT_SPREAD: Final = 1.5
#: What a one-hour cache write costs, in writes of five minutes.
LONG_WRITE: Final = 1.6
#: What `inference_geo: us` costs, in prices without it.
IN_US: Final = 1.1

ROUGH: Final = "bytes of the requests"
COUNTED: Final = "requests counted by the API"
BOUND: Final = "max_tokens of the requests"
UNKNOWN: Final = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class Range:
    """A number that is not known yet, with what it rests on; `None` where an end is not known."""

    low: float | None
    likely: float | None
    high: float | None
    source: str

    def times(self, factor: float) -> Range:
        """Return the range times a number."""
        low, likely, high = (None if v is None else v * factor for v in self.ends)
        return Range(low=low, likely=likely, high=high, source=self.source)

    @property
    def ends(self) -> tuple[float | None, float | None, float | None]:
        """The three numbers."""
        return self.low, self.likely, self.high


def total(ranges: Iterable[Range], *, empty: str = "nothing to send") -> Range:
    """Return the sum; an end that one of the ranges does not know is not known."""
    parts = list(ranges)
    sources = dict.fromkeys(source for part in parts for source in part.source.split(", "))

    def summed(pick: Callable[[Range], float | None]) -> float | None:
        known = [value for part in parts if (value := pick(part)) is not None]
        return sum(known) if len(known) == len(parts) else None

    return Range(
        low=summed(lambda r: r.low),
        likely=summed(lambda r: r.likely),
        high=summed(lambda r: r.high),
        source=", ".join(sources) or empty,
    )


# -- input --------------------------------------------------------------------------------------


def input_of(stratum: Stratum) -> Range:
    """Return the input tokens of all requests of *stratum*."""
    counted = stratum.counted
    if not counted:
        return _rough(stratum)
    size = sum(bytes_ for bytes_, _ in counted)
    ratio = sum(tokens for _, tokens in counted) / size
    spread = _spread(counted, ratio)
    likely = ratio * stratum.size
    return Range(
        low=likely * (1.0 - spread), likely=likely, high=likely * (1.0 + spread), source=COUNTED
    )


def _spread(counted: Sequence[tuple[int, int]], ratio: float) -> float:
    """Return twice the standard error of the ratio, as a share of it."""
    if len(counted) < 2 or ratio <= 0:
        return SINGLE_SPREAD
    mean = sum(size for size, _ in counted) / len(counted)
    squares = sum((tokens - ratio * size) ** 2 for size, tokens in counted)
    error = math.sqrt(squares / (len(counted) * (len(counted) - 1))) / mean
    return min(max(2.0 * error / ratio, LEAST_SPREAD), 0.9)


def _rough(stratum: Stratum) -> Range:
    low, likely, high = (
        stratum.text / TEXT[end]
        + stratum.images * IMAGE[end]
        + max(stratum.document_bytes / PAGE_BYTES[end], stratum.documents) * PAGE_TOKENS[end]
        for end in range(3)
    )
    if stratum.elsewhere:
        # What only the API can see may be a line or a book.
        return Range(low=low, likely=None, high=None, source=ROUGH)
    return Range(low=low, likely=likely, high=high, source=ROUGH)


# -- output -------------------------------------------------------------------------------------


def average_output(spent: Iterable[Spent]) -> Mapping[str, float]:
    """Return the output tokens of one answer by model, where enough answers are known."""
    answers: dict[str, list[int]] = {}
    for row in spent:
        if row.via != "cache":
            sums = answers.setdefault(undated(row.model), [0, 0])
            sums[0] += row.answers
            sums[1] += row.tokens.output
    return {
        model: output / count
        for model, (count, output) in answers.items()
        if count >= ENOUGH_ANSWERS
    }


def output_of(stratum: Stratum, averages: Mapping[str, float]) -> Range:
    """Return the output tokens of all requests of *stratum*."""
    least, most = float(stratum.items), float(stratum.max_tokens)
    average = averages.get(undated(stratum.model))
    if average is None:
        return Range(low=least, likely=None, high=most, source=BOUND)
    likely = min(max(average * stratum.items, least), most)
    return Range(
        low=max(likely / OUTPUT_SPREAD, least),
        likely=likely,
        high=min(likely * OUTPUT_SPREAD, most),
        source="answers in the store",
    )


# -- money --------------------------------------------------------------------------------------


def sync_cost(
    stratum: Stratum,
    inputs: Range,
    outputs: Range,
    *,
    at: datetime,
    prices: Prices | None = None,
) -> Range | None:
    """Return what direct calls would cost, USD; `None` where the model's price is not known."""
    cached = stratum.cached / stratum.items
    long = stratum.cached_long / stratum.items
    # Read from the cache at best; at worst each request writes its whole prompt anew.
    best, plain = (cached, 0.0), (0.0, 0.0)
    worst = (0.0, cached - long + long * LONG_WRITE)
    ends: list[float | None] = []
    for end, (read, written) in enumerate((best, plain, worst)):
        tokens = _tokens(inputs.ends[end], outputs.ends[end], read, written, cached)
        if tokens is None:
            ends.append(None)
            continue
        price = full_price(stratum.model, stratum.items, tokens, at=at, prices=prices)
        if price is None:
            return None
        ends.append(price * (1.0 + (IN_US - 1.0) * stratum.in_us / stratum.items))
    low, likely, high = ends
    source = total([inputs, outputs]).source
    return Range(low=low, likely=likely, high=high, source=f"{source}, prices of genai-prices")


def _tokens(
    inputs: float | None, outputs: float | None, read: float, written: float, cached: float
) -> Tokens | None:
    if inputs is None or outputs is None:
        return None
    fresh = inputs if not (read or written) else inputs * (1.0 - cached)
    return Tokens(
        input=round(fresh),
        output=round(outputs),
        cache_write=round(inputs * written),
        cache_read=round(inputs * read),
    )


def batch_cost(sync: Range) -> Range:
    """Return what batches would cost where direct calls cost *sync*."""
    return sync.times(BATCH_SHARE)


def unknown_price(model: str) -> Range:
    """Return the cost of a model without a price."""
    return Range(low=None, likely=None, high=None, source=f"{UNKNOWN}: no price of {model!r}")
