"""Whether the harness works: each planted bug has to be caught."""

from __future__ import annotations

import pytest
from tests.simulation.planted import BUGS, hunt


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(BUGS))
def test_planted_bug_is_caught(name: str):
    catch = hunt(name)
    assert catch is not None, f"50 seeds did not show {name}: {BUGS[name].__doc__}"
    assert catch.texts


def test_there_are_enough_of_them():
    assert len(BUGS) >= 10
