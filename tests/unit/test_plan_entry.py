"""Entries of the input, and ids that only count."""

from __future__ import annotations

import pytest

from batchwright._plan.entry import PositionWatch


@pytest.mark.parametrize(
    "ids",
    [
        ["0", "1", "2"],
        ["1", "2", "3"],
        ["item-0", "item-1", "item-2"],
        ["row_0001", "row_0002"],
    ],
)
def test_ids_that_count_the_items(ids):
    """R9: ids that count up from 0 or 1 are suspected of being positions."""
    watch = PositionWatch()
    for one in ids:
        watch.take(one)

    assert watch.suspicious


@pytest.mark.parametrize(
    "ids",
    [
        [],
        ["0"],
        ["a", "b"],
        ["1001", "1002", "1003"],
        ["item-0", "item-2"],
        ["a-0", "b-1"],
        ["0", "1", "x"],
        ["²", "³"],
    ],
)
def test_ids_that_are_ids(ids):
    """Keys of a database, gaps, other names: no suspicion, and one id alone is none."""
    watch = PositionWatch()
    for one in ids:
        watch.take(one)

    assert not watch.suspicious
