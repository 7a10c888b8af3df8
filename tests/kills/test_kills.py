"""Some of the kills, at every push; `python -m tests.kills` does many."""

from __future__ import annotations

import pytest
from tests.kills.kill import Tally, one_run


@pytest.mark.parametrize("seed", [1, 2, 3])
async def test_killed_at_random_moments(tmp_path, seed):
    """Nothing is lost, nothing is paid twice, and every try is on the books of both sides."""
    tally = Tally()
    await one_run(tmp_path, seed, tally)

    assert tally.kills > 0
