"""Every test is a process of its own, as far as the clients know."""

from __future__ import annotations

import pytest
from tests.drop_in.support import next_process


@pytest.fixture(autouse=True)
def _new_process() -> None:
    """Forget the calls of other tests."""
    next_process()
