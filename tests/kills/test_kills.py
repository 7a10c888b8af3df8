"""Some of the kills, at every push; `python -m tests.kills` does many."""

from __future__ import annotations

import pytest
from tests.kills.kill import Tally, one_run
from tests.postgres.books import check_tables
from tests.postgres.server import fresh_schema


@pytest.mark.parametrize("seed", [1, 2, 3])
async def test_killed_at_random_moments(tmp_path, seed):
    """Nothing is lost, nothing is paid twice, and every try is on the books of both sides."""
    tally = Tally()
    await one_run(tmp_path / "run.db", seed, tally)

    assert tally.kills > 0


@pytest.mark.parametrize("seed", [4, 5])
async def test_killed_at_random_moments_on_postgres(postgres, seed):
    """The same holds where the runs are in a PostgreSQL database."""
    tally, schema = Tally(), fresh_schema()
    await one_run(postgres.url(schema), seed, tally, lambda: check_tables(postgres, schema))

    assert tally.kills > 0
