"""What answers cost, and what a switch costs more."""

from __future__ import annotations

import builtins
import threading
from datetime import UTC, datetime

import pytest
from genai_prices.data import providers
from genai_prices.types import Usage
from hypothesis import given
from hypothesis import strategies as st

from batchwright._prices import Sample, cost_of, full_price, load_prices, premium
from batchwright.store import Spent
from batchwright.types import Tokens

AT = datetime(2026, 11, 29, tzinfo=UTC)
#: 4 and 20 USD per million tokens.
OPUS = "claude-opus-5-5"
STRANGER = "claude-stranger-9"
MILLION = Tokens(input=1_000_000, output=1_000_000)


def spent(model: str = OPUS, *, via: str = "batch", answers: int = 100, tokens=MILLION) -> Spent:
    """Return what so many answers of a model used."""
    return Spent(via=via, model=model, answers=answers, tokens=tokens)


# -- cost -------------------------------------------------------------------------------------


def test_batch_answers_cost_half():
    """C36: batch answers at half price, direct ones in full, cached ones nothing."""
    rows = [spent(), spent(via="sync"), spent(via="cache")]

    assert cost_of(rows[:1], at=AT).usd == pytest.approx(12.0)
    assert cost_of(rows[1:2], at=AT).usd == pytest.approx(24.0)
    assert cost_of(rows[2:], at=AT).usd == 0
    assert cost_of(rows, at=AT).usd == pytest.approx(36.0)
    assert cost_of(rows, at=AT).tokens == MILLION + MILLION


def test_cache_tokens_are_counted():
    """C36: tokens written to and read from the prompt cache have prices of their own."""
    tokens = Tokens(input=100_000, output=1_000, cache_write=500_000, cache_read=400_000)
    cost = cost_of([spent(via="sync", tokens=tokens)], at=AT)

    assert cost.usd == pytest.approx(0.1 * 4 + 0.001 * 20 + 0.5 * 5 + 0.4 * 0.2)


def test_long_prompts_have_their_own_price():
    """The price steps by the length of one prompt, not by the sum over all."""
    tokens = Tokens(input=1_000_000)

    assert full_price("claude-haiku-5-5", 100, tokens, at=AT) == pytest.approx(0.1)
    assert full_price("claude-haiku-5-5", 5, tokens, at=AT) == pytest.approx(0.5)


def test_unknown_prices_are_unknown_not_zero():
    """C36: without a price the tokens are counted and the cost is unknown."""
    cost = cost_of([spent(), spent(STRANGER)], at=AT)

    assert cost.usd is None
    assert cost.known_usd == pytest.approx(12.0)
    assert cost.tokens == MILLION + MILLION
    assert cost.unknown_models == (STRANGER,)


def test_nothing_spent():
    """Nothing costs nothing, and that is known."""
    assert cost_of([], at=AT).usd == 0


def test_prices_of_the_caller_go_first():
    """A price the table does not know, or knows otherwise, can be given; for dated names too."""
    prices = {STRANGER: (3.0, 15.0), OPUS: (1.0, 1.0)}
    tokens = Tokens(input=1_000_000, cache_write=1_000_000, cache_read=1_000_000)

    assert cost_of([spent(STRANGER)], at=AT, prices=prices).usd == pytest.approx(9.0)
    assert full_price(OPUS + "-20261001", 1, MILLION, at=AT, prices=prices) == pytest.approx(2.0)
    assert full_price(STRANGER, 1, tokens, at=AT, prices=prices) == pytest.approx(3 + 3.75 + 0.3)


def test_without_the_package_all_is_unknown(monkeypatch):
    """A missing table never stops a run."""
    real = builtins.__import__

    def refuse(name, *args, **kwargs):
        if name == "genai_prices":
            raise ModuleNotFoundError(name)
        return real(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", refuse)

    assert not load_prices()
    assert cost_of([spent()], at=AT).usd is None


def test_the_table_is_read_without_a_thread():
    """Prices are read offline: no thread is started, nothing is fetched."""
    before = threading.active_count()

    assert load_prices()
    assert threading.active_count() == before


def test_the_table_agrees_that_batches_cost_half():
    """Wherever the table itself knows a batch price it is half of the full one."""
    (anthropic,) = (provider for provider in providers if provider.id == "anthropic")
    usage = Usage(input_tokens=900, output_tokens=70, cache_read_tokens=300, cache_write_tokens=200)
    halved = 0
    for model in anthropic.models:
        full, batch = (
            model.calc_price(
                usage, anthropic, genai_request_timestamp=AT, price_context={"processing": kind}
            ).total_price
            for kind in ("standard", "batch")
        )
        # Retired models have no batch price in it: there the full one comes back.
        assert batch in {full, full / 2}
        halved += batch == full / 2
    assert halved >= 10


# -- premium ----------------------------------------------------------------------------------


def test_premium_from_this_runs_answers():
    """R23: the remainder at full price minus the remainder at batch price, and as a ratio."""
    estimate = premium(300, [spent()], at=AT)

    assert estimate.usd == pytest.approx(36.0)
    assert estimate.ratio == pytest.approx((12 + 72) / (12 + 36))
    assert estimate.tokens == Tokens(input=3_000_000, output=3_000_000)
    assert estimate.source == "answers of this run"


def test_premium_by_model():
    """Each model's remainder is estimated from its own answers; a dated name is its alias."""
    rows = [spent("claude-haiku-4-5-20251001"), spent(OPUS)]
    cheap = premium({"claude-haiku-4-5": 100}, rows, at=AT)
    dear = premium({OPUS: 100}, rows, at=AT)

    assert cheap.usd == pytest.approx(3.0)
    assert dear.usd == pytest.approx(12.0)
    assert premium(200, rows, at=AT).usd == pytest.approx(15.0)


def test_premium_of_an_unknown_price():
    """R23: without a price the tokens are counted and the money is unknown, never 0."""
    estimate = premium(300, [spent(STRANGER)], at=AT)

    assert (estimate.usd, estimate.ratio) == (None, None)
    assert estimate.tokens == Tokens(input=3_000_000, output=3_000_000)
    assert estimate.unknown_models == (STRANGER,)


def test_premium_before_the_first_answer():
    """Without answers a sample of the requests is estimated from; it is high on purpose."""
    sample = [Sample(model=OPUS, items=10, input_bytes=40_000, max_tokens=10_000)]
    estimate = premium(1_000, [], at=AT, sample=sample)

    assert estimate.tokens == Tokens(input=1_000_000, output=1_000_000)
    assert estimate.usd == pytest.approx(12.0)
    assert estimate.ratio == pytest.approx(2.0)
    assert estimate.source == "a sample of requests"


def test_premium_of_which_nothing_is_known():
    """Neither answers nor a sample: unknown, not free."""
    assert premium(1_000, [], at=AT).usd is None
    assert premium(1_000, [], at=AT).tokens is None
    assert premium({OPUS: 9}, [], at=AT).unknown_models == (OPUS,)


def test_premium_of_a_model_without_answers():
    """One model that nothing tells about makes the sum unknown."""
    estimate = premium({OPUS: 100, "claude-sonnet-5": 1, STRANGER: 0}, [spent()], at=AT)

    assert estimate.usd is None
    assert estimate.unknown_models == ("claude-sonnet-5",)
    assert estimate.tokens == MILLION


def test_ratio_after_answers_without_a_price():
    """The money is known where the remainder's price is; the ratio needs what was spent as well."""
    estimate = premium({OPUS: 100}, [spent(), spent(STRANGER)], at=AT)

    assert estimate.usd == pytest.approx(12.0)
    assert estimate.ratio is None


def test_rows_without_answers_are_no_average():
    """A row that holds no answer yet is nothing to divide by."""
    assert premium(9, [spent(answers=0, tokens=Tokens())], at=AT).source == "nothing known"


def test_premium_of_answers_and_a_sample():
    """What has answers goes by them, the rest by the sample."""
    sample = [Sample(model="claude-sonnet-5", items=1, input_bytes=4_000_000, max_tokens=0)]
    estimate = premium({OPUS: 100, "claude-sonnet-5": 1}, [spent()], at=AT, sample=sample)

    assert estimate.usd == pytest.approx(12.0 + 1.0)
    assert estimate.source == "answers of this run and a sample of requests"


def test_premium_of_nothing():
    """Where nothing remains a switch costs nothing more."""
    for remaining in (0, {}, {STRANGER: 0}):
        estimate = premium(remaining, [], at=AT)
        assert (estimate.usd, estimate.ratio, estimate.tokens) == (0.0, 1.0, Tokens())


COUNT = st.integers(0, 10**9)


@given(
    st.integers(0, 10**6),
    st.lists(
        st.builds(
            Spent,
            via=st.sampled_from(["batch", "sync", "cache"]),
            model=st.sampled_from([OPUS, "claude-haiku-5-5", "claude-sonnet-4-5-20250929"]),
            answers=st.integers(0, 10**6),
            tokens=st.builds(Tokens, COUNT, COUNT, COUNT, COUNT),
        ),
        max_size=5,
    ),
)
def test_any_tokens_have_a_price(remaining, rows):
    """No mix of tokens makes the table refuse; a premium never makes a run cheaper or double."""
    estimate = premium(remaining, rows, at=AT)

    assert cost_of(rows, at=AT).usd is not None
    assert estimate.usd is None or estimate.usd >= 0
    assert estimate.ratio is None or 1.0 <= estimate.ratio <= 2.0 + 1e-9
