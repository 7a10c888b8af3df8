"""Faults in one line of text, as `batchwright simulate --faults` takes them."""

from __future__ import annotations

import pytest
from tests.support import assert_own_answers, items, runner_on

from batchwright.simulator import Simulator
from batchwright.simulator.grammar import FAULTS, ROUTES, parse_faults


def test_a_line_is_read():
    """Route, fault, share; the share has a default, blanks do not matter."""
    lost, cut, status = parse_faults(" create:lost:0.25, results:cut , retrieve:502:1,")

    assert (lost.where, lost.rate) == ("create", 0.25)
    assert (cut.where, cut.rate) == ("results", 0.1)
    assert (status.action.status, status.rate) == (502, 1.0)
    assert parse_faults("") == []
    assert {one.where for one in parse_faults(",".join(f"{r}:slow" for r in ROUTES))} == set(ROUTES)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("craete:lost", "names no route"),
        ("create:losst", "names no fault"),
        ("create:200", "names no fault"),
        ("create", "names no fault"),
        ("create:lost:2", "a share from 0 to 1"),
        ("create:lost:often", "a share from 0 to 1"),
    ],
)
def test_a_typo_is_told(text, told):
    """Each part is checked, with what it takes."""
    with pytest.raises(ValueError, match=told):
        parse_faults(text)


@pytest.mark.parametrize("fault", sorted(set(FAULTS) - {"hang"}))
async def test_every_fault_is_met(fault):
    """One in four calls of a route is struck, and the run is completed all the same."""
    route = "create" if fault in {"lost", "reset", "refused"} else "results"
    route = "retrieve" if fault in {"odd-status", "html"} else route
    faults = [] if fault == "too-large" else parse_faults(f"{route}:{fault}:0.25")
    async with Simulator(speed=600, seed=3, faults=faults) as sim, runner_on(sim) as runner:
        result = await runner.run(items(12))
        again = await runner.run(items(12))

    assert result.complete or again.complete
    assert_own_answers(again, items(12), seed=3)
