"""Tokens and money of requests that nobody has sent."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support import params

from batchwright import Item
from batchwright._intake import IntakeRules, encode_item
from batchwright._plan.estimate import (
    Range,
    average_output,
    batch_cost,
    input_of,
    output_of,
    sync_cost,
    total,
)
from batchwright._plan.measure import Weight
from batchwright._plan.sample import KEPT, KEPT_BYTES, MODELS, OTHER_MODELS, STRATA, Sample
from batchwright.store import NewItem, Spent
from batchwright.types import Tokens

AT = datetime(2026, 11, 29, tzinfo=UTC)
#: 4 and 20 USD per million tokens.
OPUS = "claude-opus-5-5"
RULES = IntakeRules(run_id="run", max_bytes=250_000_000, api_version="2026-10-21")


def row(number: int, model: str = OPUS, size: int = 100) -> NewItem:
    """Return an encoded item of about *size* bytes of text."""
    text = f"{number} ".ljust(size, "x")
    return encode_item(Item(f"doc-{number}", params(text, model=model)), number, RULES)


def sampled(count: int = 10, **weight: object) -> Sample:
    """Return the sample of *count* requests of one shape."""
    sample = Sample()
    for number in range(count):
        sample.add(
            row(number), Weight(**{"size": 400, "text": 400, "max_tokens": 1_000, **weight}), "s"
        )
    return sample


def stratum(count: int = 10, **weight: object):
    """Return the one stratum of such a sample."""
    (found,) = sampled(count, **weight).strata
    return found


# -- input ------------------------------------------------------------------------------------


def test_rough_input_is_a_wide_range():
    """Without counting, bytes tell the input within a factor of two and more."""
    tokens = input_of(stratum())

    assert tokens.ends == pytest.approx((4_000 / 6, 1_000, 1_600))
    assert tokens.source == "bytes of the requests"


def test_images_have_their_own_range():
    """An image counts as an image, not as its bytes."""
    assert input_of(stratum(count=1, text=0, images=2)).ends == (100, 3_200, 9_600)


def test_documents_count_by_pages():
    """A document has at least one page; of a long one only the size is known."""
    one = input_of(stratum(count=1, text=0, documents=1, document_bytes=100))
    long = input_of(stratum(count=1, text=0, documents=1, document_bytes=7_500_000))

    assert one.ends == (1_500, 3_000, 5_000)
    assert long.likely == 300_000


def test_what_only_the_api_sees_has_no_bound():
    """A document that is only named makes the upper end unknown, not zero."""
    tokens = input_of(stratum(elsewhere=1))

    assert tokens.low is not None
    assert tokens.likely is None
    assert tokens.high is None


def test_counted_requests_make_it_narrow():
    """Bytes and tokens of a few requests tell the ratio of all of their shape."""
    counted = stratum()
    counted.counted = [(400, 100), (800, 200), (400, 100)]
    tokens = input_of(counted)

    assert tokens.ends == pytest.approx((970, 1_000, 1_030))
    assert "counted" in tokens.source


def test_uneven_counts_make_it_wider():
    """Where the counted requests differ, the range says so; one alone is hardly trusted."""
    uneven, single = stratum(), stratum()
    uneven.counted = [(400, 50), (400, 150), (400, 100)]
    single.counted = [(400, 100)]

    assert input_of(uneven).high > 1_200
    assert input_of(single).ends == pytest.approx((700, 1_000, 1_300))


# -- output -----------------------------------------------------------------------------------


def test_output_is_bounded_by_what_is_asked_for():
    """Without earlier answers there are bounds and no guess."""
    assert output_of(stratum(), {}).ends == (10, None, 10_000)


def test_earlier_answers_tell_the_output():
    """The average of earlier answers of the model is the guess, dated name or not."""
    spent = Spent(via="batch", model=f"{OPUS}-20261101", answers=20, tokens=Tokens(output=4_000))
    averages = average_output([spent])
    tokens = output_of(stratum(), averages)

    assert tokens.ends == pytest.approx((2_000 / 1.5, 2_000, 3_000))
    assert tokens.source == "answers in the store"


def test_few_or_cached_answers_tell_nothing():
    """A handful is an anecdote, and what came from the cache is counted where it was made."""
    few = Spent(via="batch", model=OPUS, answers=3, tokens=Tokens(output=300))
    cached = Spent(via="cache", model=OPUS, answers=100, tokens=Tokens(output=300))

    assert average_output([few, cached]) == {}


def test_output_stays_below_its_bound():
    """Answers are never guessed longer than they may be."""
    assert output_of(stratum(), {OPUS: 5_000.0}).high == 10_000


# -- money ------------------------------------------------------------------------------------

EXACT = Range(low=1e6, likely=1e6, high=1e6, source="s")


def test_batches_cost_half():
    """Direct calls at full price, batches at half of it, in every end of the range."""
    sync = sync_cost(stratum(), EXACT, EXACT, at=AT)

    assert sync is not None
    assert sync.ends == pytest.approx((24.0, 24.0, 24.0))
    assert batch_cost(sync).ends == pytest.approx((12.0, 12.0, 12.0))


def test_an_unknown_price_is_not_zero():
    """A model without a price has no cost at all."""
    strange = Sample()
    strange.add(row(1, "claude-stranger-9"), Weight(size=1, text=1, max_tokens=1), "s")

    assert sync_cost(strange.strata[0], EXACT, EXACT, at=AT) is None


@pytest.mark.parametrize(("cache", "written"), [("5m", 1.25), ("1h", 2.0)])
def test_the_prompt_cache_widens_the_range(cache, written):
    """At best everything is read from the cache, at worst written to it."""
    nothing = Range(low=0.0, likely=0.0, high=0.0, source="s")
    sync = sync_cost(stratum(cache=cache), EXACT, nothing, at=AT)

    assert sync is not None
    assert sync.ends == pytest.approx((0.2, 4.0, 4.0 * written))


def test_work_in_the_us_costs_more():
    """`inference_geo: us` is a tenth more."""
    sync = sync_cost(stratum(in_us=True), EXACT, EXACT, at=AT)

    assert sync is not None
    assert sync.likely == pytest.approx(26.4)


def test_a_sum_knows_only_what_all_parts_know():
    """One unknown end makes the sum's end unknown; sources are told once each."""
    half = Range(low=1.0, likely=None, high=2.0, source="a, b")
    whole = Range(low=1.0, likely=1.0, high=None, source="b")

    assert total([half, whole]) == Range(low=2.0, likely=None, high=None, source="a, b")
    assert total([]).ends == (0, 0, 0)


# -- the sample -------------------------------------------------------------------------------


def test_the_same_items_give_the_same_sample():
    """What is kept does not depend on the order of the items."""
    there, back = Sample(), Sample()
    rows = [row(number) for number in range(200)]
    for sample, order in ((there, rows), (back, rows[::-1])):
        for one in order:
            sample.add(one, Weight(size=len(one.body), text=0, max_tokens=1), "s")

    kept = [k.rank for k in there.strata[0].kept]
    assert len(kept) == KEPT
    assert kept == [k.rank for k in back.strata[0].kept] == sorted(kept)


@given(st.lists(st.integers(1, 900_000), max_size=12))
def test_what_is_kept_is_bounded(sizes):
    """Large requests do not fill the memory: a few of them are kept, and never too many bytes."""
    sample = Sample()
    for number, size in enumerate(sizes):
        one = row(number, size=size)
        sample.add(one, Weight(size=len(one.body), text=0, max_tokens=1), "s")

    held = [len(k.body) for s in sample.strata for k in s.kept]
    assert bool(held) == bool(sizes)
    assert sum(held) <= KEPT_BYTES or len(held) == 1


def test_shapes_and_models_are_bounded():
    """More shapes than can be told apart are summed by model, and strange models together."""
    sample = Sample()
    for number in range(STRATA * 3):
        sample.add(row(number), Weight(size=1, text=1, max_tokens=1), number)
    for number in range(MODELS * 2):
        sample.add(row(number, f"m-{number}"), Weight(size=1, text=1, max_tokens=1), "s")

    names = {s.model for s in sample.strata}
    assert OTHER_MODELS in names
    assert len(names) <= MODELS + 1
    assert sum(s.items for s in sample.strata) == STRATA * 3 + MODELS * 2
    assert len(sample.strata) <= STRATA + MODELS + 1


def test_every_shape_is_counted_before_any_twice():
    """The requests to be counted are spread over the shapes, the common ones first."""
    sample = Sample()
    for number in range(30):
        sample.add(row(number), Weight(size=1, text=1, max_tokens=1), number % 3 == 0)
    chosen = [s.items for s, _ in sample.chosen(6)]

    assert chosen == [20, 10, 20, 10, 20, 10]


def test_how_much_is_asked_for():
    """How many items ask for how many tokens is kept by model, but for those with the beta."""
    sample = sampled(3, max_tokens=200_000)
    beta = encode_item(
        Item("x", params("x", model=OPUS), {"anthropic-beta": "output-300k-2026-03-24"}), 0, RULES
    )
    sample.add(beta, Weight(size=1, text=1, max_tokens=300_000), "s")

    assert sample.asked == {OPUS: {200_000: 3}}
