"""Some of the kills, at every push; `python -m tests.workers` plays 200,000 items."""

from __future__ import annotations

import pytest
from tests.workers.chaos import Plan, play


@pytest.mark.slow
async def test_killed_workers_are_succeeded(postgres_url):
    """Four processes on one run, two of them killed: nothing lost, nothing paid twice."""
    played = await play(Plan(items=8_000, shard=400, speed=500), postgres_url)

    assert len(played.killed) == 2
    assert played.told["WorkerJoined"] == 4
    assert played.told["WorkerLost"] >= 2


@pytest.mark.slow
async def test_killed_workers_are_succeeded_in_direct_calls(postgres_url):
    """What a killed process had claimed is asked by the others; what it had stored is not."""
    played = await play(Plan(items=1_500, shard=400, policy="sync"), postgres_url)

    assert len(played.killed) == 2
    assert played.told["WorkerLost"] >= 2
