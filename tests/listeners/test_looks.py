"""What two looks at a store say has happened in between."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from batchwright import events
from batchwright.listeners._looks import HELD_SHOWN, told_by
from batchwright.status import RunStatus, progress_of
from batchwright.store import ItemState, RunInfo, Shard, ShardState

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
TALKING = [{"org": "a", "base_url": "http://there", "api_version": "2026-10-21"}]


def shard(number: int, state: ShardState, **more: Any) -> Shard:
    """Return a sub-batch of ten items in some state."""
    given: dict[str, Any] = {
        "spans": ((0, 10),),
        "count": 10,
        "size": 1_000,
        "headers": "",
        "org": "a",
        "wave": 1,
        "planned_at": NOW,
        "batch_id": None if state is ShardState.PLANNED else f"msgbatch_{number}",
        "expires_at": NOW + timedelta(hours=24),
    }
    return Shard(number=number, state=state, **{**given, **more})


def look(*shards: Shard, wave: int = 1, **facts: Any) -> RunStatus:
    """Return what one look at the store shows."""
    info = RunInfo(
        run_id="r",
        created_at=NOW,
        intake_complete=True,
        items=100,
        states={ItemState.IN_FLIGHT: 100},
        wave=wave,
        facts={"talking_to": TALKING, "policy": "cost", **facts},
    )
    held = [one for one in shards if one.state is ShardState.HELD]
    return RunStatus(
        run_id="r",
        intake_complete=True,
        progress=progress_of(info, (), NOW),
        reasons={},
        truncated=0,
        refused=0,
        owner=None,
        live=[one for one in shards if one.state is ShardState.LIVE],
        held=held,
        shards=shards,
        kept_until=None,
        info=info,
    )


def kinds(before: RunStatus | None, now: RunStatus) -> list[str]:
    """Return the names of the events that tell the difference."""
    return [type(event).__name__ for event in told_by(before, now, "s.db")]


def test_the_first_look_tells_what_matters_still() -> None:
    """That the run is there, with whom it talks, and some of what waits for a person."""
    many = [shard(n, ShardState.HELD, reason="overdue") for n in range(1, HELD_SHOWN + 5)]
    told = list(told_by(None, look(shard(90, ShardState.DONE), *many), "s.db"))
    started = told[0]
    assert isinstance(started, events.RunStarted)
    assert started.talking_to[0].base_url == "http://there"
    assert [type(event).__name__ for event in told[1:-1]] == ["ShardHeld"] * HELD_SHOWN
    assert isinstance(told[-1], events.Progressed)


def test_a_run_that_is_still_being_read_tells_nothing() -> None:
    """Before the intake is complete there is nothing to count."""
    assert kinds(None, replace(look(), intake_complete=False)) == []
    assert kinds(replace(look(), intake_complete=False), look())[-1] == "Progressed"


def test_each_move_of_a_sub_batch_is_told_once() -> None:
    """Sent, canceled, held, read: by what differs, and nothing where nothing does."""
    planned, live = shard(1, ShardState.PLANNED), shard(1, ShardState.LIVE)
    drained = replace(live, cancel="drain")
    done = replace(drained, state=ShardState.DONE, counts={"succeeded": 4, "canceled": 6})
    held = replace(live, state=ShardState.HELD, reason="not_found")
    cases = [
        (planned, planned, []),
        (planned, live, ["ShardSubmitted"]),
        (live, live, []),
        (live, drained, ["BatchCanceled"]),
        (live, replace(live, cancel="overdue"), ["DeadlineExceeded"]),
        (drained, done, ["BatchHarvested"]),
        (live, held, ["ShardHeld"]),
        (held, held, []),
        # Between two looks much may happen.
        (planned, done, ["ShardSubmitted", "BatchCanceled", "BatchHarvested"]),
        # Cut again, or asked directly: never on the server.
        (planned, replace(planned, state=ShardState.DONE), []),
    ]
    for before, now, expected in cases:
        assert kinds(look(before), look(now)) == [*expected, "Progressed"]
    (read,) = [e for e in told_by(look(drained), look(done), "s") if hasattr(e, "lines")]
    assert read.lines == 10
    new = list(told_by(look(), look(held), "s"))
    assert any("right key" in e.remedy for e in new if isinstance(e, events.ShardHeld))


def test_a_later_wave_and_a_switch_are_told() -> None:
    """Somebody resumed, or moved the rest to direct calls: told when it is first seen."""
    switch = {"reason": "switched by hand", "share": 0.5, "items": 70}
    assert kinds(look(), look(wave=2))[0] == "RunStarted"
    assert kinds(look(), look(switch=switch)) == ["SwitchDecided", "Progressed"]
    assert kinds(look(switch=switch), look(switch=switch)) == ["Progressed"]
    assert kinds(look(switch=switch), look(switch=None)) == ["Progressed"]
