"""What becomes of requests: scripts, rates, answers, and the books."""

from __future__ import annotations

import orjson
import pytest

from batchwright.simulator import (
    Access,
    ApiProblem,
    ManualClock,
    World,
    WorldSettings,
    cancel,
    errored,
    expected_text,
    expire,
    never,
    succeed,
)


def test_fates_by_stem_and_attempt(world, access, item, clock, kinds):
    """Fates follow the stem of a custom id, attempt by attempt; then the rates decide again."""
    world.fate_for("doc", [errored("overloaded_error", "busy"), expire()])
    got = []
    for code in ("00000000001", "00000000001", "00000000002"):
        batch = world.create(access, [item(f"doc-{code}")])
        clock.advance(100)
        got += kinds(world, access, batch).values()
    assert got == ["errored", "expired", "succeeded"]


def test_a_refused_create_is_no_attempt(world, access, item, clock, kinds):
    """A create that was refused does not use up a scripted fate."""
    world.fate_for("a", [errored()])
    with pytest.raises(ApiProblem):
        world.create(access, [item("a"), item("a")])
    batch = world.create(access, [item("a")])
    clock.advance(100)
    assert kinds(world, access, batch) == {"a": "errored"}


def test_selectors(world, access, item, clock, kinds):
    """A selector is a whole id, a prefix with `*`, or a predicate; the newest rule counts."""
    world.fate_for("*", errored())
    world.fate_for("b*", cancel())
    world.fate_for(lambda name: name.endswith("9"), expire())
    batch = world.create(access, [item(name) for name in ("a1", "b1", "b19")])
    clock.advance(100)
    assert kinds(world, access, batch) == {"a1": "errored", "b1": "canceled", "b19": "expired"}


def test_one_request_can_hold_its_batch(world, access, item, clock, kinds):
    """A request that is never done keeps its batch open until `expires_at`."""
    world.fate_for("b", never())
    batch = world.create(access, [item("a"), item("b")])
    clock.advance(86_399)
    assert batch.status(world.now()) == "in_progress"
    clock.advance(1)
    assert kinds(world, access, batch) == {"a": "succeeded", "b": "expired"}


def test_expiry_can_wait(world, access, item, clock, kinds):
    """With `expiry_waits` a request fated to expire keeps its batch open for 24 hours."""
    world.fate_for("a", expire())
    first = world.create(access, [item("a"), item("b")])
    world.configure(expiry_waits=True)
    second = world.create(access, [item("a"), item("b")])
    clock.advance(100)
    assert [b.status(world.now()) for b in (first, second)] == ["ended", "in_progress"]
    clock.advance(86_300)
    for batch in (first, second):
        assert kinds(world, access, batch) == {"a": "expired", "b": "succeeded"}


def test_magic_words(world, access, item, clock, kinds):
    """A prompt can ask for its own fate."""
    words = {"a": "error rate_limit_error", "b": "expire", "c": "cancel", "d": "succeed"}
    batch = world.create(access, [item(k, f"x [[sim:{word}]]") for k, word in words.items()])
    clock.advance(100)
    expected = {"a": "errored", "b": "expired", "c": "canceled", "d": "succeeded"}
    assert kinds(world, access, batch) == expected
    with pytest.raises(ValueError, match="unknown magic word"):
        world.create(access, [item("a", "[[sim:explode]]")])


def test_settings_fate_comes_first(world, access, item, clock):
    """`WorldSettings.fate` sees id and params and beats the other ways."""
    seen = []

    def fate(custom_id, params):
        seen.append((custom_id, params["max_tokens"]))
        return succeed("42", stop_reason="max_tokens") if custom_id == "a" else None

    world.configure(fate=fate, answer=lambda params: "own answer")
    batch = world.create(access, [item("a"), item("b")])
    clock.advance(100)
    lines = {line["custom_id"]: line for line in map(orjson.loads, batch_lines(world, batch))}
    assert seen == [("a", 64), ("b", 64)]
    first = lines["a"]["result"]["message"]
    assert (first["content"][0]["text"], first["stop_reason"]) == ("42", "max_tokens")
    assert lines["b"]["result"]["message"]["content"][0]["text"] == "own answer"


def batch_lines(world, batch):
    """Return the lines of a batch, whoever asks."""
    return world.results(Access(key="k", workspace=batch.workspace), batch.id)


def test_rates_are_drawn_from_the_seed(access, item):
    """Rates hit about their share, the same requests for the same seed, others for another."""

    def draw(seed):
        clock = ManualClock(0)
        settings = WorldSettings(error_rate=0.2, expire_rate=0.2, refusal_rate=0.1)
        world = World(seed, clock=clock, settings=settings)
        batch = world.create(access, [item(f"a{n}") for n in range(300)])
        clock.advance(1000)
        return list(world.results(access, batch.id))

    one, again, other = draw(1), draw(1), draw(2)
    assert one == again
    assert one != other
    types = [orjson.loads(line)["result"]["type"] for line in one]
    assert 30 < types.count("errored") < 90
    assert 30 < types.count("expired") < 90


def test_answers_prove_their_question(world, access, item, clock):
    """An answer follows from seed and prompt, and `expected_text` tells it."""
    one, two = item("a", "first question"), item("b", "second question", system="s")
    batch = world.create(access, [one, two])
    clock.advance(100)
    for line in map(orjson.loads, world.results(access, batch.id)):
        asked = one if line["custom_id"] == "a" else two
        text = line["result"]["message"]["content"][0]["text"]
        assert text == expected_text(asked["params"])
        assert text.startswith(f"echo:{asked['params']['messages'][0]['content']} #")


def test_ids_do_not_follow_arrival_order(access, item):
    """The same creates get the same ids whatever the order of their arrival."""

    def ids(names):
        world = World(clock=ManualClock(0))
        return {name: world.create(access, [item(name)]).id for name in names}

    assert ids(["a", "b"]) == ids(["b", "a"])


def test_books(world, access, item, clock):
    """The books tell what was billed, in which batches, and what still lives."""
    world.fate_for("b", [errored(), succeed()])
    first = world.create(access, [item("a"), item("b")])
    clock.advance(100)
    second = world.create(access, [item("b"), item("a")])
    assert world.books().live == {"a": (second.id,), "b": (second.id,)}
    clock.advance(100)
    books = world.books()
    assert books.billed == {"a": (first.id, second.id), "b": (second.id,)}
    assert books.billed_twice == {"a": (first.id, second.id)}
    assert books.total_billed == 3
    assert books.sent == {"a": 2, "b": 2}
    assert [entry.status for entry in books.batches] == ["ended", "ended"]
