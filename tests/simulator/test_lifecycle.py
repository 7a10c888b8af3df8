"""The state machine of batches, on a clock in the test's hand."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import orjson
import pytest

from batchwright.simulator import Access, ApiProblem

URL = "http://sim"


def test_object_has_exactly_ten_keys(world, access, item):
    """A batch object has the ten documented keys in the order of the wire."""
    batch = world.create(access, [item()])
    assert list(batch.public(world.now(), URL)) == [
        "id",
        "type",
        "processing_status",
        "request_counts",
        "ended_at",
        "created_at",
        "expires_at",
        "archived_at",
        "cancel_initiated_at",
        "results_url",
    ]


def test_counts_stay_in_processing_until_the_end(world, access, item, clock):
    """Every request counts as processing until the whole batch has ended."""
    batch = world.create(access, [item(f"a{n}") for n in range(5)])
    clock.advance(99.9)
    assert batch.counts(world.now())["processing"] == 5
    clock.advance(0.2)
    assert batch.counts(world.now()) == {
        "processing": 0,
        "succeeded": 5,
        "errored": 0,
        "canceled": 0,
        "expired": 0,
    }


def test_live_counts_are_a_switch(world, access, item, clock):
    """With `live_counts` the counts move, and always sum to the number of requests."""
    world.configure(live_counts=True)
    batch = world.create(access, [item(f"a{n}") for n in range(40)])
    clock.advance(50)
    counts = batch.counts(world.now())
    assert 0 < counts["succeeded"] < 40
    assert sum(counts.values()) == 40


def test_expires_at_is_24_hours_after_created_at_exactly(world, access, item):
    """`expires_at` is `created_at` plus 24 hours to the microsecond."""
    public = world.create(access, [item()]).public(world.now(), URL)
    created, expires = (
        datetime.fromisoformat(public[name]) for name in ("created_at", "expires_at")
    )
    assert expires - created == timedelta(hours=24)
    assert created.tzinfo == UTC
    assert public["created_at"].endswith("Z")
    assert len(public["created_at"]) == len("2025-01-29T05:34:24.123456Z")


def test_never_ending_batch_expires_whole(world, access, item, clock, kinds):
    """A batch that never gets its turn ends at 24 hours with every request expired."""
    world.configure(never_ends=True)
    batch = world.create(access, [item("a"), item("b")])
    clock.advance(86_399)
    assert batch.status(world.now()) == "in_progress"
    clock.advance(1)
    assert batch.status(world.now()) == "ended"
    assert kinds(world, access, batch) == {"a": "expired", "b": "expired"}


def test_slow_batch_expires_in_part(world, access, item, clock, kinds):
    """A batch that would take 48 hours ends at 24 with some requests done and some expired."""
    world.configure(duration=(172_800, 172_800))
    batch = world.create(access, [item(f"a{n}") for n in range(60)])
    clock.advance(86_400)
    assert set(kinds(world, access, batch).values()) == {"succeeded", "expired"}


def test_stuck_batch_outlives_its_expiry(world, access, item, clock):
    """A stuck batch stays in progress past `expires_at` until the test lets it end."""
    world.configure(stuck=True)
    batch = world.create(access, [item()])
    clock.advance(200_000)
    assert batch.status(world.now()) == "in_progress"
    world.finish(batch.id)
    assert batch.status(world.now()) == "ended"


def test_stuck_batch_can_be_canceled(world, access, item, clock, kinds):
    """Cancel ends even a stuck batch; what never ran is canceled."""
    world.configure(stuck=True, cancel_in_flight=0)
    batch = world.create(access, [item()])
    clock.advance(5000)
    world.cancel(access, batch.id)
    clock.advance(10)
    assert kinds(world, access, batch) == {"a": "canceled"}


def test_cancel_takes_time_and_is_idempotent(world, access, item, clock):
    """Cancel goes through `canceling`; a second one changes nothing."""
    batch = world.create(access, [item(f"a{n}") for n in range(50)])
    first = world.cancel(access, batch.id).public(world.now(), URL)
    assert first["processing_status"] == "canceling"
    assert first["request_counts"]["processing"] == 50
    clock.advance(5)
    assert world.cancel(access, batch.id).public(world.now(), URL) == first
    clock.advance(5)
    ended = batch.public(world.now(), URL)
    assert ended["processing_status"] == "ended"
    assert ended["cancel_initiated_at"] == first["cancel_initiated_at"]


def test_cancel_lets_requests_in_flight_succeed(world, access, item, clock):
    """A cancel half-way keeps what was done or in flight, and cancels the rest."""
    batch = world.create(access, [item(f"a{n}") for n in range(60)])
    clock.advance(50)
    world.cancel(access, batch.id)
    clock.advance(10)
    counts = batch.counts(world.now())
    assert counts["succeeded"] > 0
    assert counts["canceled"] > 0
    assert counts["succeeded"] + counts["canceled"] == 60


@pytest.mark.parametrize(("share", "kind"), [(0.0, "canceled"), (1.0, "succeeded")])
def test_cancel_can_cancel_all_or_nothing(world, access, item, clock, share, kind, kinds):
    """The share of requests in flight is a switch: a cancel may cancel all, or none at all."""
    world.configure(cancel_in_flight=share)
    batch = world.create(access, [item(f"a{n}") for n in range(9)])
    world.cancel(access, batch.id)
    clock.advance(10)
    assert set(kinds(world, access, batch).values()) == {kind}


def test_cancel_of_an_ended_batch_is_refused(world, access, item, clock):
    """Cancel after the end is a 400, or a 200 by switch."""
    batch = world.create(access, [item()])
    clock.advance(100)
    with pytest.raises(ApiProblem, match="already ended") as caught:
        world.cancel(access, batch.id)
    assert caught.value.status == 400
    world.configure(cancel_ended_ok=True)
    assert world.cancel(access, batch.id).cancel_initiated_at is None


def test_results_before_the_end_are_a_404(world, access, item):
    """Results of a running batch: 404 with `x-should-retry: false`."""
    batch = world.create(access, [item()])
    with pytest.raises(ApiProblem) as caught:
        world.results(access, batch.id)
    assert caught.value.status == 404
    assert caught.value.message == f"Message Batch {batch.id} has no available results."
    assert caught.value.headers == {"x-should-retry": "false"}


def test_results_are_shuffled_the_same_way_each_time(world, access, item, clock):
    """Lines come in another order than sent, and in the same order on each reading."""
    sent = [f"a{n}" for n in range(30)]
    batch = world.create(access, [item(name) for name in sent])
    clock.advance(100)
    first, second = list(world.results(access, batch.id)), list(world.results(access, batch.id))
    assert first == second
    got = [orjson.loads(line)["custom_id"] for line in first]
    assert got != sent
    assert sorted(got) == sorted(sent)


def test_archive_after_29_days(world, access, item, clock):
    """29 days after creation results are gone and the object says so."""
    batch = world.create(access, [item()])
    clock.advance(29 * 86_400 - 1)
    assert list(world.results(access, batch.id))
    clock.advance(1)
    public = batch.public(world.now(), URL)
    assert public["archived_at"] is not None
    assert public["results_url"] is None
    with pytest.raises(ApiProblem, match="no available results"):
        world.results(access, batch.id)


def test_delete(world, access, item, clock):
    """Delete is refused while running; afterwards the batch was never there."""
    batch = world.create(access, [item()])
    with pytest.raises(ApiProblem, match="In progress batches cannot be deleted"):
        world.delete(access, batch.id)
    clock.advance(100)
    assert world.delete(access, batch.id) == {"id": batch.id, "type": "message_batch_deleted"}
    for call in (world.find, world.delete, world.cancel, world.results):
        with pytest.raises(ApiProblem, match="not found"):
            call(access, batch.id)


def test_other_workspaces_see_nothing(world, access, item):
    """Another workspace gets a 404 and an empty list; a second key of the same one sees all."""
    batch = world.create(access, [item()])
    stranger = Access(key="x", workspace="other")
    with pytest.raises(ApiProblem, match=r"Message Batch msgbatch_\w+ not found"):
        world.find(stranger, batch.id)
    assert world.list(stranger, {}, URL) == {
        "data": [],
        "has_more": False,
        "first_id": None,
        "last_id": None,
    }
    assert world.find(Access(key="y", workspace="acme/main"), batch.id) is batch


def test_new_batches_may_be_invisible_for_a_while(world, access, item, clock):
    """With `visible_after` a new batch is a 404 and not listed at first."""
    world.configure(visible_after=2)
    batch = world.create(access, [item()])
    with pytest.raises(ApiProblem, match="not found"):
        world.find(access, batch.id)
    assert world.list(access, {}, URL)["data"] == []
    clock.advance(2)
    assert world.find(access, batch.id) is batch
    assert world.list(access, {}, URL)["first_id"] == batch.id


def test_pages_in_both_directions(world, access, item, clock):
    """Lists are newest first; both cursors page, and has_more is about their direction."""
    ids = []
    for number in range(7):
        ids.insert(0, world.create(access, [item(f"a{number}")]).id)
        clock.advance(1)

    def page(**query):
        got = world.list(access, query, URL)
        return [ids.index(batch["id"]) for batch in got["data"]], got["has_more"]

    assert page() == ([0, 1, 2, 3, 4, 5, 6], False)
    assert page(limit="3") == ([0, 1, 2], True)
    assert page(limit="3", after_id=ids[2]) == ([3, 4, 5], True)
    assert page(limit="3", after_id=ids[5]) == ([6], False)
    assert page(limit="3", before_id=ids[5]) == ([2, 3, 4], True)
    assert page(limit="3", before_id=ids[2]) == ([0, 1], False)


@pytest.mark.parametrize(
    "query",
    [
        {"limit": "0"},
        {"limit": "1001"},
        {"limit": "x"},
        {"after_id": "msgbatch_nope"},
        {"after_id": "a", "before_id": "b"},
    ],
)
def test_bad_list_queries(world, access, query):
    """Bad limits, unknown cursors and both cursors at once are a 400."""
    with pytest.raises(ApiProblem) as caught:
        world.list(access, query, URL)
    assert caught.value.status == 400
