"""
Checks of the store port: life, ownership, facts.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from batchwright.errors import RunLocked, StoreError
from batchwright.store import ItemState, Lease, ShardState
from batchwright.testing._store_desk import (
    ALL,
    LATER,
    NOW,
    OWNER,
    RIVAL,
    Desk,
    answer,
    desk_on,
    plan_of,
    question,
)

if TYPE_CHECKING:
    from batchwright.testing.conformance import StoreMaker


async def refuses(call: Awaitable[object], promise: str) -> None:
    """Demand that *call* raises `RunLocked`."""
    try:
        await call
    except RunLocked:
        return
    raise AssertionError(promise)


async def opens_again(maker: StoreMaker) -> None:
    """Opening twice and closing twice are harmless; a closed store can be opened again."""
    store = await maker.fresh()
    await store.open()
    desk = await desk_on(store)
    await desk.fill(2)
    await store.close()
    await store.close()
    await store.open()
    assert await desk.states() == "PP", "a store that is opened again holds what it held"


async def keeps_everything(maker: StoreMaker) -> None:
    """What a method returned is there for another object on the same place."""
    desk = await desk_on(await maker.fresh())
    await desk.fill(5)
    shard = await desk.ship(0, 1, 3)
    await desk.settle(shard.number, answer(0))
    await desk.store.put_facts(desk.lease, {"a": 1})
    before = (await desk.info(), await desk.rows(), await desk.store.read_shards("run"))
    desk.store = await maker.reopen(desk.store)
    after = (await desk.info(), await desk.rows(), await desk.store.read_shards("run"))
    assert after == before, "everything durable is the same after reopening"
    assert await desk.store.read_lease("run") == desk.lease, "the lease survives reopening"
    assert await desk.settle(1, answer(1), answer(0)) == ["applied", "again"], "work goes on"


async def lends_to_one(maker: StoreMaker) -> None:
    """A run has one owner; who read an older lease does not get it."""
    store = await maker.fresh()
    assert await store.read_lease("run") is None, "a run that does not exist has no lease"
    first = await store.acquire("run", OWNER, NOW, replacing=None)
    assert first == Lease(run_id="run", token=first.token, owner=OWNER, beat_at=NOW)
    assert await store.read_lease("run") == first, "read_lease returns the lease"
    await refuses(
        store.acquire("run", RIVAL, LATER, replacing=None), "a held run is not given to a newcomer"
    )
    second = await store.acquire("run", RIVAL, LATER, replacing=first.token)
    assert second.token > first.token, "tokens grow"
    await refuses(
        store.acquire("run", OWNER, LATER, replacing=first.token),
        "an outdated token does not replace the lease of another",
    )
    await refuses(store.renew(first, LATER), "a lease that was taken over is not renewed")


async def beats(maker: StoreMaker) -> None:
    """A renewal is seen, defeats a takeover that read the lease before, and fences nobody's own."""
    store = await maker.fresh()
    first = await store.acquire("run", OWNER, NOW, replacing=None)
    renewed = await store.renew(first, LATER)
    assert renewed.beat_at == LATER, "renew sets the beat"
    assert renewed.owner == OWNER, "renew keeps the owner"
    assert await store.read_lease("run") == renewed, "read_lease returns what renew returned"
    await refuses(
        store.acquire("run", RIVAL, LATER, replacing=first.token),
        "a takeover is refused when the owner renewed after the lease was read",
    )
    await store.put_facts(first, {"x": 1})
    await store.put_facts(renewed, {"y": 1})
    taken = await store.acquire("run", RIVAL, LATER, replacing=renewed.token)
    assert taken.token > renewed.token, "the token of a new owner is higher than any before it"


async def releases(maker: StoreMaker) -> None:
    """A released run is free at once; releasing what is not ours is harmless."""
    store = await maker.fresh()
    first = await store.acquire("run", OWNER, NOW, replacing=None)
    await store.release(first)
    await store.release(first)
    assert await store.read_lease("run") is None, "a released run has no lease"
    await refuses(store.put_facts(first, {"x": 1}), "a released lease does not write")
    second = await store.acquire("run", RIVAL, NOW, replacing=None)
    assert second.token > first.token, "tokens grow over a release"
    await store.release(first)
    assert await store.read_lease("run") == second, "an old lease releases nothing"


def _writes(desk: Desk, shard: int) -> dict[str, Callable[[Lease], Awaitable[object]]]:
    store = desk.store
    rows = [question(9)]
    none: frozenset[str] = frozenset()
    return {
        "renew": lambda lease: store.renew(lease, LATER),
        "begin_intake": store.begin_intake,
        "stage": lambda lease: store.stage(lease, desk.intake, rows, "error"),
        "commit_intake": lambda lease: store.commit_intake(lease, desk.intake),
        "start_wave": lambda lease: store.start_wave(lease, none),
        "plan_shard": lambda lease: store.plan_shard(lease, plan_of([2])),
        "move_shard": lambda lease: store.move_shard(lease, shard, expect=ALL, to=ShardState.ENDED),
        "settle": lambda lease: store.settle(lease, shard, [answer(0)]),
        "put_facts": lambda lease: store.put_facts(lease, {"late": True}),
    }


async def fences_every_write(maker: StoreMaker) -> None:
    """Every writing method refuses a lease that was taken over, and changes nothing."""
    desk = await desk_on(await maker.fresh())
    await desk.fill(3)
    shard = await desk.ship(0, 1)
    await desk.stage(question(0))
    lease = await desk.store.acquire("run", RIVAL, LATER, replacing=desk.lease.token)
    before = (await desk.info(), await desk.rows(), await desk.store.read_shards("run"))
    for name, write in _writes(desk, shard.number).items():
        await refuses(write(desk.lease), f"{name} refuses a lease that was taken over")
        after = (await desk.info(), await desk.rows(), await desk.store.read_shards("run"))
        assert after == before, f"a refused {name} changes nothing"
    assert await desk.store.read_lease("run") == lease, "refused writes leave the lease alone"


async def keeps_facts(maker: StoreMaker) -> None:
    """Facts are kept by name, as JSON, and replaced one by one."""
    desk = await desk_on(await maker.fresh())
    assert (await desk.info()).facts == {}, "a new run has no facts"
    await desk.store.put_facts(desk.lease, {"a": [1, None, {"b": "ü\u2028\0"}], "c": 2.5})
    await desk.store.put_facts(desk.lease, {"c": (1, 2)})
    facts = (await desk.info()).facts
    assert facts == {"a": [1, None, {"b": "ü\u2028\0"}], "c": [1, 2]}, "facts come back as JSON"


async def takes_wishes(maker: StoreMaker) -> None:
    """Anybody may leave a wish for the owner of a run; the owner reads and clears it."""
    desk = await desk_on(await maker.fresh())
    await desk.store.put_facts(desk.lease, {"a": 1})
    await desk.store.put_wish("run", "switch", {"by": "hand"})
    facts = (await desk.info()).facts
    assert facts == {"a": 1, "wish/switch": {"by": "hand"}}, "a wish stands among the facts"
    await desk.store.put_facts(desk.lease, {"wish/switch": None})
    assert (await desk.info()).facts["wish/switch"] is None, "the owner clears a wish"
    await refuses_unknown(desk.store.put_wish("nobody", "switch", True))


async def refuses_unknown(writing: Awaitable[None]) -> None:
    """Demand that a run which does not exist takes nothing."""
    try:
        await writing
    except StoreError:
        return
    raise AssertionError("a wish for a run that does not exist is refused")


async def keeps_runs_apart(maker: StoreMaker) -> None:
    """Runs of one store share nothing, and are listed oldest first."""
    store = await maker.fresh()
    assert list(await store.list_runs()) == [], "an empty store has no runs"
    assert await store.read_run("z") is None, "read_run returns None for an unknown run"
    assert list(await store.read_shards("z")) == [], "an unknown run has no shards"
    one, two = await desk_on(store, "z"), await desk_on(store, "a\0\u2028😀")
    await one.fill(3)
    await two.fill(2)
    assert list(await store.list_runs()) == ["z", "a\0\u2028😀"], "runs are listed oldest first"
    await one.ship(0, 1)
    await two.ship(1)
    await two.settle(1, answer(1))
    assert (await one.states(), await two.states()) == ("IIP", "PS"), "runs share no items"
    await two.store.release(two.lease)
    await one.settle(1, answer(0))
    info = await one.info()
    assert info.states[ItemState.SUCCEEDED] == 1, "runs share no counters"
    assert info.created_at == NOW, "created_at is when the run was first acquired"


CHECKS = (
    opens_again,
    keeps_everything,
    lends_to_one,
    beats,
    releases,
    fences_every_write,
    keeps_facts,
    takes_wishes,
    keeps_runs_apart,
)
