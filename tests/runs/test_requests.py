"""What watching many batches costs in requests."""

from __future__ import annotations

import asyncio

import anthropic
import pytest
from tests.support import Heard, assert_own_answers, items, params, runner_on, sent

from batchwright import ShardLimits, ShardSubmitted
from batchwright.simulator import Access, Error, WorldSettings
from batchwright.testing import simulate


async def test_many_batches_are_watched_through_pages():
    """Two hundred batches cost a few lists per interval, not two hundred reads."""
    settings = WorldSettings(duration=(30_000, 40_000), rpm=100_000)
    async with (
        simulate(settings=settings) as sim,
        runner_on(sim, limits=ShardLimits(max_requests=1)) as runner,
    ):
        result = await runner.run(items(200))

        assert result.complete
        assert len(sim.creates) == 200
        rounds = max(batch.polls for batch in result.report.batches)
        assert rounds > 5
        assert looks(sim) < rounds * 200 / 3


async def test_pages_begin_at_our_newest_batch_where_others_came_later(monkeypatch):
    """In a workspace full of others' newer batches a page still answers for all of ours."""
    monkeypatch.setattr("batchwright._lookout.PAGE", 20)
    settings = WorldSettings(duration=(30_000, 40_000))
    async with (
        simulate(settings=settings) as sim,
        anthropic.AsyncAnthropic(**sim.client_options()) as other,
        runner_on(sim, limits=ShardLimits(max_requests=1)) as runner,
    ):
        task = asyncio.create_task(runner.run(items(12)))
        while len(sim.world.batches) < 12:
            await asyncio.sleep(0.002)
        for n in range(30):
            request = {"custom_id": f"x{n}", "params": params("x")}
            await other.messages.batches.create(requests=[request])
        before = looks(sim)
        result = await task

        assert result.complete
        assert_own_answers(result, items(12))
        rounds = max(batch.polls for batch in result.report.batches)
        assert looks(sim) - before < rounds * 12 / 2


async def test_pages_among_many_others_are_given_up(monkeypatch):
    """Where ours lie thinly among others' pages do not pay, and single reads are used."""
    monkeypatch.setattr("batchwright._lookout.PAGE", 5)
    settings = WorldSettings(duration=(30_000, 40_000))

    def others(event):
        if isinstance(event, ShardSubmitted):
            ours = sim.world.batches[event.batch_id]
            access = Access(key="theirs", workspace=ours.workspace, version="2026-10-21")
            for n in range(6):
                sim.world.create(access, [{"custom_id": f"x{n}", "params": params("x")}])

    limits = ShardLimits(max_requests=1, concurrency=1)
    async with (
        simulate(settings=settings) as sim,
        runner_on(sim, limits=limits, on_event=others) as runner,
    ):
        result = await runner.run(items(12))

        assert result.complete
        rounds = max(batch.polls for batch in result.report.batches)
        assert len(sim.calls("list")) < rounds
        assert len(sim.calls("retrieve")) > rounds * 6


def looks(sim):
    """Return how often a batch, or a page of them, was read."""
    return len(sim.calls("retrieve")) + len(sim.calls("list"))


async def test_a_list_that_fails_falls_back_to_single_reads():
    """The page is an economy and nothing that a run depends on."""
    settings = WorldSettings(duration=(10_000, 20_000))
    heard = Heard()
    async with (
        simulate(settings=settings) as sim,
        runner_on(sim, limits=ShardLimits(max_requests=1), on_event=heard) as runner,
    ):
        sim.on("list", Error(500))
        result = await runner.run(items(20))

        assert result.complete
        assert set(sent(sim).values()) == {1}


@pytest.mark.parametrize("count", [3, 40])
async def test_looks_in_flight_are_bounded(count):
    """Never more than a few requests of one org at once, however many batches there are."""
    settings = WorldSettings(duration=(5_000, 20_000))
    async with (
        simulate(settings=settings) as sim,
        runner_on(sim, limits=ShardLimits(max_requests=1)) as runner,
    ):
        await runner.run(items(count))

        assert sim.peak_concurrency("retrieve") <= 8
