"""Ctrl-C and its like in the middle of a run."""

from __future__ import annotations

import signal
import subprocess

import pytest

from batchwright.simulator import Simulator

from .support import FAST, Shell, item, read_lines, write_items

COMMAND = ("run", "items.jsonl", "--out", "out.jsonl", "--max-requests", "5", *FAST)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_interrupted_is_130_and_the_next_run_finishes(
    shell: Shell, sim: Simulator, number: signal.Signals
) -> None:
    """What runs on the server is named; going on sends nothing twice."""
    sim.world.configure(never_ends=True)
    write_items(shell.folder / "items.jsonl", *map(item, range(10)))
    process = shell.start_until("sub-batch 2 sent", *COMMAND)
    process.send_signal(number)
    out, err = process.communicate(timeout=30)
    assert process.returncode == 130, err
    assert out == ""
    assert "batches go on at the server" in err
    assert "To go on: batchwright resume --out out.jsonl" in err
    assert "Traceback" not in err
    assert not (shell.folder / "out.jsonl").exists()
    for batch in sim.world.books().batches:
        sim.world.finish(batch.id)
    sim.world.configure(never_ends=False)
    again = shell(*COMMAND)
    assert again.returncode == 0, again.stderr
    books = sim.world.books()
    assert set(books.sent.values()) == {1}
    assert not books.billed_twice
    assert len(read_lines(shell.folder / "out.jsonl")) == 10


def test_interrupted_before_anything_was_sent(shell: Shell, sim: Simulator) -> None:
    """Waiting for a pipe does not make it deaf."""
    process = shell.start("run", "-", "--verbose", stdin=subprocess.PIPE)
    assert process.stdin is not None
    while not (shell.folder / "batchwright.db").exists():
        assert process.poll() is None
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=30)
    assert process.returncode == 130, err
    assert "before anything was sent" in err
    assert not sim.creates


def test_cancel_keeps_what_is_finished(shell: Shell, sim: Simulator) -> None:
    """After an interrupted run, `cancel` ends it; its items are sent again only on request."""
    sim.world.configure(never_ends=True, cancel_in_flight=0.0)
    write_items(shell.folder / "items.jsonl", *map(item, range(10)))
    process = shell.start_until("sub-batch 2 sent", *COMMAND)
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=30)
    sim.world.configure(never_ends=False)
    done = shell("cancel", *FAST)
    assert done.returncode == 3, done.stderr
    assert "canceled" in done.stdout
    assert "--resubmit canceled" in done.stdout
    assert "paid for twice" not in done.stdout
    again = shell("resume", "--resubmit", "canceled", "--out", "out.jsonl", *FAST)
    assert again.returncode == 0, again.stderr
