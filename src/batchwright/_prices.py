"""
What answers cost, and what a switch would cost more. Money is USD.

Prices come from `genai-prices`, offline: from the table inside the installed package, or from a
newer one where the caller's own process has loaded it. No thread is started and nothing is fetched.
The Batches API halves every kind of token, so batch answers are counted at half the full price.

A price that is not known makes the sum unknown, never smaller; tokens are counted all the same.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import astuple, dataclass
from datetime import UTC, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Final, TypeAlias

from batchwright.store import Spent
from batchwright.types import Tokens

if TYPE_CHECKING:
    from genai_prices.types import Usage

#: What the Batches API asks of the full price, for every kind of token.
BATCH_SHARE: Final = 0.5
#: Cache tokens as multiples of the price of input, for prices that the caller gives.
CACHE_WRITE: Final = 1.25
CACHE_READ: Final = 0.1
#: Bytes of a request that make about one token.
BYTES_PER_TOKEN: Final = 4.0

#: Prices that go before the table's: model -> USD per million tokens of (input, output).
Prices: TypeAlias = Mapping[str, tuple[float, float]]

#: A model that every table knows.
_PROBE: Final = "claude-opus-4-5"
_DATE = re.compile(r"-\d{8}$")
#: Averages are kept to a millionth of a token, exact in sums.
_GRAIN: Final = Decimal("0.000001")


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """
    Requests of one model, looked at before any answer is there.

    Attributes:
        model: As the requests name it.
        items: How many were looked at.
        input_bytes: Bytes of their bodies, summed.
        max_tokens: Their `max_tokens`, summed: a bound of the output, so the estimate is high.
    """

    model: str
    items: int
    input_bytes: int
    max_tokens: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """
    What answers cost.

    Attributes:
        usd: The sum; `None` where the price of one of the models is unknown.
        known_usd: The sum over the models with a price.
        tokens: All tokens that were paid for.
        unknown_models: Models without a price, sorted.
    """

    usd: float | None
    known_usd: float
    tokens: Tokens
    unknown_models: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Premium:
    """
    What a switch is estimated to cost more.

    Attributes:
        usd: The remainder at full price minus the remainder at batch price; `None` if unknown.
        ratio: Cost of the whole run with the switch over its cost without; `None` if unknown.
        tokens: What the remainder is estimated to use; `None` where nothing tells.
        unknown_models: Models without a price or without anything to estimate from, sorted.
        source: What the estimate rests on.
    """

    usd: float | None
    ratio: float | None
    tokens: Tokens | None
    unknown_models: tuple[str, ...] = ()
    source: str


@dataclass(frozen=True, slots=True, kw_only=True)
class _Use:
    """Tokens that *answers* answers of *model* used, or are estimated to use."""

    model: str
    answers: int
    tokens: Tokens


def are_loaded() -> bool:
    """Tell whether the table of prices is there, so that asking for a price takes no time."""
    return "genai_prices" in sys.modules


def load_prices() -> bool:
    """
    Import the table of prices; return whether there is one.

    The first import takes some tenths of a second: call it in a thread before it matters.
    """
    return full_price(_PROBE, 1, Tokens(1), at=datetime(2026, 1, 1, tzinfo=UTC)) is not None


def cost_of(spent: Iterable[Spent], *, at: datetime, prices: Prices | None = None) -> Cost:
    """
    Return what the answers of *spent* cost: batch answers at half price, direct ones in full.

    Answers from the cache of earlier runs cost nothing. Lines that were errored, canceled or
    expired are not billed and have no tokens. Writes to the prompt cache are counted at the price
    of the 5-minute cache: the store does not tell them apart.

    Args:
        spent: Tokens by path and model.
        at: When they were spent; prices change.
        prices: Prices that go before the table's.
    """
    paid = [row for row in spent if row.via != "cache"]
    known, unknown = 0.0, set()
    for row in paid:
        full = full_price(row.model, row.answers, row.tokens, at=at, prices=prices)
        if full is None:
            unknown.add(row.model)
        else:
            known += full * (BATCH_SHARE if row.via == "batch" else 1.0)
    return Cost(
        usd=None if unknown else known,
        known_usd=known,
        tokens=_sum(row.tokens for row in paid),
        unknown_models=tuple(sorted(unknown)),
    )


def premium(
    remaining: int | Mapping[str, int],
    spent: Sequence[Spent],
    *,
    at: datetime,
    prices: Prices | None = None,
    sample: Sequence[Sample] = (),
) -> Premium:
    """
    Return what it would cost more to carry the remainder by direct calls.

    Args:
        remaining: Items without an outcome, by model where that is known. A plain number is
            taken to be of the same models as the answers so far.
        spent: Tokens of this run's answers: what the remainder is expected to use on average.
        at: The time of the estimate; prices change.
        prices: Prices that go before the table's.
        sample: What to estimate from where a model has no answers yet.
    """
    if _count(remaining) <= 0:
        return Premium(usd=0.0, ratio=1.0, tokens=Tokens(), source="nothing remains")
    uses, blind, source = _expected(remaining, spent, sample)
    unknown = set(blind)
    full = 0.0
    for use in uses:
        price = full_price(use.model, use.answers, use.tokens, at=at, prices=prices)
        if price is None:
            unknown.add(use.model)
        else:
            full += price
    usd = None if unknown or not uses else full * (1.0 - BATCH_SHARE)
    return Premium(
        usd=usd,
        ratio=None if usd is None else _ratio(usd, full, cost_of(spent, at=at, prices=prices)),
        tokens=_sum(use.tokens for use in uses) if uses else None,
        unknown_models=tuple(sorted(unknown)),
        source=source,
    )


def full_price(
    model: str, answers: int, tokens: Tokens, *, at: datetime, prices: Prices | None = None
) -> float | None:
    """Return what *answers* answers of *model* cost by direct call, `None` where unknown."""
    own = prices or {}
    price = own.get(model, own.get(undated(model)))
    use = _Use(model=model, answers=max(answers, 1), tokens=tokens)
    return _table_price(use, at) if price is None else _own_price(use, price)


def _ratio(extra: float, full: float, so_far: Cost) -> float | None:
    if so_far.usd is None:
        return None
    without = so_far.usd + full * BATCH_SHARE
    return (without + extra) / without if without > 0 else 1.0


# -- what the remainder will use --------------------------------------------------------------


def _expected(
    remaining: int | Mapping[str, int], spent: Sequence[Spent], sample: Sequence[Sample]
) -> tuple[list[_Use], list[str], str]:
    """Return what the remainder will use, models that nothing tells about, and the source."""
    answers = _averages(
        _Use(model=row.model, answers=row.answers, tokens=row.tokens)
        for row in spent
        if row.via != "cache"
    )
    looked_at = _averages(_sampled(row) for row in sample)
    if isinstance(remaining, int):
        remaining = _spread(remaining, answers or looked_at)
    uses: list[_Use] = []
    blind: list[str] = []
    bases: set[str] = set()
    for model, count in ((model, count) for model, count in remaining.items() if count > 0):
        name = undated(model)
        use = answers.get(name) or looked_at.get(name)
        if use is None:
            blind.append(model)
        else:
            uses.append(_Use(model=model, answers=count, tokens=_scaled(use, count)))
            bases.add("answers of this run" if name in answers else "a sample of requests")
    return uses, blind, " and ".join(sorted(bases, reverse=True)) or "nothing known"


def _averages(uses: Iterable[_Use]) -> dict[str, _Use]:
    """Sum by model; a dated name and its alias are one."""
    found: dict[str, _Use] = {}
    for use in uses:
        name = undated(use.model)
        before = found.get(name)
        if use.answers > 0:
            found[name] = _Use(
                model=use.model,
                answers=use.answers + (before.answers if before else 0),
                tokens=use.tokens + (before.tokens if before else Tokens()),
            )
    return found


def _sampled(row: Sample) -> _Use:
    tokens = Tokens(input=round(row.input_bytes / BYTES_PER_TOKEN), output=row.max_tokens)
    return _Use(model=row.model, answers=row.items, tokens=tokens)


def _spread(remaining: int, basis: Mapping[str, _Use]) -> dict[str, int]:
    """Share *remaining* out over the models as they were so far; the commonest takes the rest."""
    total = sum(use.answers for use in basis.values())
    shares = {use.model: remaining * use.answers // total for use in basis.values()}
    if shares:
        shares[max(shares, key=shares.__getitem__)] += remaining - sum(shares.values())
    return shares


def _scaled(use: _Use, count: int) -> Tokens:
    """Return the tokens of *count* items like those of *use*."""
    return Tokens(*(round(kind * count / use.answers) for kind in astuple(use.tokens)))


def _count(remaining: int | Mapping[str, int]) -> int:
    return remaining if isinstance(remaining, int) else sum(remaining.values())


def _sum(tokens: Iterable[Tokens]) -> Tokens:
    return sum(tokens, Tokens())


def undated(model: str) -> str:
    """Return the name without its date: requests name the alias, answers the dated model."""
    return _DATE.sub("", model)


# -- prices -----------------------------------------------------------------------------------


def _own_price(use: _Use, price: tuple[float, float]) -> float:
    tokens = use.tokens
    inputs = tokens.input + CACHE_WRITE * tokens.cache_write + CACHE_READ * tokens.cache_read
    return (inputs * price[0] + tokens.output * price[1]) / 1_000_000


def _table_price(use: _Use, at: datetime) -> float | None:
    """Price one average answer, since prices have steps by the length of a prompt."""
    try:
        from genai_prices import calc_price  # noqa: PLC0415 - its table is large

        price = calc_price(
            _usage(use), use.model, provider_id="anthropic", genai_request_timestamp=at
        )
    except (ImportError, LookupError, ValueError):
        # A price is an estimate for people: without one the run goes on and says "unknown".
        return None
    return float(price.total_price * use.answers)


def _usage(use: _Use) -> Usage:
    from genai_prices import Usage  # noqa: PLC0415 - as above

    fresh, output, written, read = (
        (Decimal(kind) / use.answers).quantize(_GRAIN) for kind in astuple(use.tokens)
    )
    # There `input_tokens` is the whole prompt; in the API's `usage` it excludes cached tokens.
    return Usage(
        input_tokens=fresh + written + read,
        output_tokens=output,
        cache_write_tokens=written,
        cache_read_tokens=read,
    )
