"""`recover`, and `export --partial` beside a process that is at work."""

from __future__ import annotations

import signal

from batchwright.simulator import Simulator

from .support import FAST, Shell, item, read_lines, write_items


def test_a_lost_store_is_rebuilt(inside: Shell, sim: Simulator) -> None:
    """The same output as before, and nothing sent for it."""
    write_items(inside.folder / "items.jsonl", *map(item, range(6)))
    assert inside("run", "items.jsonl", "--out", "out.jsonl", *FAST).returncode == 0
    before = (inside.folder / "out.jsonl").read_bytes()
    (inside.folder / "batchwright.db").unlink()
    done = inside("recover", "items.jsonl", "--out", "out.jsonl", *FAST)
    assert done.returncode == 0, done.stderr
    assert (inside.folder / "out.jsonl").read_bytes() == before
    assert len(sim.creates) == 1


def test_batches_that_still_run_come_first_in_the_advice(inside: Shell, sim: Simulator) -> None:
    """Named, with `recover` as the next step before `resume`."""
    sim.world.configure(never_ends=True)
    write_items(inside.folder / "items.jsonl", item(0))
    process = inside.start_until("sub-batch 1 sent", "run", "items.jsonl", *FAST)
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=30)
    done = inside("recover", "items.jsonl", "--store", "new.db", *FAST)
    assert done.returncode == 3
    (batch,) = sim.world.books().batches
    assert f"Not recovered: batch {batch.id}" in done.stdout
    steps = [line for line in done.stdout.splitlines() if line.startswith("Next: ")]
    assert len(steps) == 1, "a resume now would pay twice"
    assert steps[0].startswith("Next: batchwright recover --store new.db ITEMS.jsonl")
    assert len(sim.creates) == 1


def test_export_partial_beside_a_running_run(inside: Shell, sim: Simulator) -> None:
    """What there is so far, in input order, while another process holds the run."""
    sim.world.configure(duration=lambda number, _: 60.0 if number == 1 else 1e9)
    write_items(inside.folder / "items.jsonl", *map(item, range(4)))
    words = ("run", "items.jsonl", "--max-requests", "2", *FAST)
    process = inside.start_until("ended and read", *words)
    try:
        assert inside("export", "--out", "so-far.jsonl").returncode == 2
        done = inside("export", "--out", "so-far.jsonl", "--partial")
        assert done.returncode == 0, done.stderr
        lines = read_lines(inside.folder / "so-far.jsonl")
        assert [line["id"] for line in lines] == [f"doc/{n}" for n in range(4)]
        assert sum(line["status"] == "succeeded" for line in lines) == 2
        assert {line["reason"] for line in lines if line["result"] is None} == {"in_flight"}
        status = inside("status").stdout
        assert "at work: process" in status
        assert "The API keeps results not read yet until" in status
    finally:
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=30)
