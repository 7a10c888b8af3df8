"""`batchwright switch`: the remainder by direct calls, by this process or by the owner."""

from __future__ import annotations

import signal

from batchwright.simulator import Simulator

from .support import FAST, Shell, item, read_lines, write_items

COMMAND = ("run", "items.jsonl", "--out", "out.jsonl", "--max-requests", "5", *FAST)


def test_the_owner_is_asked_and_switches(shell: Shell, sim: Simulator) -> None:
    """From a second terminal: the running process does it, and says so."""
    sim.world.configure(never_ends=True, cancel_seconds=(1, 1))
    write_items(shell.folder / "items.jsonl", *map(item, range(10)))
    process = shell.start_until("sub-batch 2 sent", *COMMAND)
    asked = shell("switch", *FAST)
    assert asked.returncode == 0, asked.stderr
    assert "asked to switch" in asked.stdout
    out, err = process.communicate(timeout=30)
    assert process.returncode == 0, err
    assert "direct calls" in err
    lines = read_lines(shell.folder / "out.jsonl")
    assert len(lines) == 10
    assert "sync" in {line["via"] for line in lines}
    assert "sync" in out


def test_without_an_owner_it_switches_itself(shell: Shell, sim: Simulator) -> None:
    """The run was interrupted; switch carries it to its end."""
    sim.world.configure(never_ends=True, cancel_seconds=(1, 1))
    write_items(shell.folder / "items.jsonl", *map(item, range(10)))
    process = shell.start_until("sub-batch 2 sent", *COMMAND)
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=30)
    done = shell("switch", "--out", "out.jsonl", *FAST)
    assert done.returncode == 0, done.stderr
    assert len(read_lines(shell.folder / "out.jsonl")) == 10


def test_policy_sync_from_the_command_line(shell: Shell, sim: Simulator) -> None:
    """A bulk client by itself, within its bounds."""
    write_items(shell.folder / "items.jsonl", *map(item, range(12)))
    done = shell(
        "run",
        "items.jsonl",
        "--out",
        "out.jsonl",
        "--policy",
        "sync",
        "--sync-concurrency",
        "3",
        *FAST,
    )
    assert done.returncode == 0, done.stderr
    assert sim.peak_concurrency("message") <= 3
    assert {line["via"] for line in read_lines(shell.folder / "out.jsonl")} == {"sync"}


def test_a_policy_that_is_none(shell: Shell, sim: Simulator) -> None:
    """A typo is told the names there are, and nothing is sent."""
    write_items(shell.folder / "items.jsonl", item(1))
    wrong = shell("run", "items.jsonl", "--policy", "ballanced", *FAST)
    assert wrong.returncode == 2
    assert "balanced" in wrong.stderr
    assert sim.requests == []
