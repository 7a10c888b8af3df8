"""`watch`: the live view of a run from a second process."""

from __future__ import annotations

import json
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from batchwright.simulator import Simulator

from .support import FAST, Inside, Shell, item, write_items

COMMAND = ("run", "items.jsonl", "--max-requests", "5", *FAST)


@pytest.fixture
def running(shell: Shell, sim: Simulator) -> Iterator[subprocess.Popen[str]]:
    """A run of ten items in a process of its own, whose two batches do not end by themselves."""
    sim.world.configure(never_ends=True)
    write_items(shell.folder / "items.jsonl", *map(item, range(10)))
    process = shell.start_until("sub-batch 2 sent", *COMMAND)
    yield process
    process.kill()
    process.communicate()


def let_it_end(sim: Simulator) -> None:
    """End every batch on the server."""
    sim.world.configure(never_ends=False)
    for batch in sim.world.books().batches:
        sim.world.finish(batch.id)


def goes_well(process: subprocess.Popen[str]) -> bool:
    """Wait for a process; tell whether it ended with status 0."""
    process.communicate(timeout=30)
    return process.returncode == 0


def stored(folder: Path) -> bytes:
    """Return everything that a store says of its runs."""
    return (folder / "batchwright.db").read_bytes()


def read_until(process: subprocess.Popen[str], said: str) -> None:
    """Return once a process has said something on stdout."""
    assert process.stdout is not None
    assert any(said in line for line in process.stdout), "it ended first"


def test_it_follows_a_run_of_another_process_to_its_end(
    running: subprocess.Popen[str], shell: Shell, here: Inside, sim: Simulator
) -> None:
    """What `run` shows is shown, and the watching ends with the run, needing no key."""
    once = here("watch", "--once")
    assert once.returncode == 0, once.stderr
    assert "10 items" in once.stdout
    assert once.stdout.count("msgbatch_") == 2
    assert f"at work: process {running.pid}" in once.stdout
    watcher = here.start("watch")
    read_until(watcher, "10 in flight")
    let_it_end(sim)
    assert goes_well(running)
    out, err = watcher.communicate(timeout=30)
    assert watcher.returncode == 0, err
    assert "ended and read: 5 results" in out
    assert "nobody works on this run now; it has ended" in out
    assert "Next: batchwright export" in out
    assert "Traceback" not in out + err


def test_ctrl_c_ends_the_watching_only(
    running: subprocess.Popen[str], shell: Shell, here: Inside, sim: Simulator
) -> None:
    """The watcher leaves with 130; the run never notices that somebody looked."""
    watcher = here.start("watch", "--json")
    assert watcher.stderr is not None
    assert any("10 in flight" in line for line in watcher.stderr)
    watcher.send_signal(signal.SIGINT)
    out, err = watcher.communicate(timeout=30)
    assert watcher.returncode == 130
    assert "the run itself is as it was" in err
    assert json.loads(out)["interrupted"] is True
    assert running.poll() is None
    let_it_end(sim)
    assert goes_well(running)


def test_a_run_without_an_owner_is_said_to_wait(
    running: subprocess.Popen[str], shell: Shell, here: Inside, sim: Simulator
) -> None:
    """After a kill it says that nobody works, and how to go on; it goes on when somebody does."""
    watcher = here.start("watch")
    read_until(watcher, "at work: process")
    running.kill()
    running.communicate()
    read_until(watcher, "nobody works on this run now; to go on: batchwright resume")
    let_it_end(sim)
    assert shell("resume", *FAST).returncode == 0
    out, _ = watcher.communicate(timeout=30)
    assert watcher.returncode == 0
    assert "it has ended" in out


def test_an_unsuccessful_end_is_3_and_looking_changes_nothing(here: Inside, sim: Simulator) -> None:
    """The status tells how the run ended, as `run` does; the store stays as it is."""
    write_items(here.folder / "items.jsonl", item(0), item(1) | {"params": {"model": "m"}})
    assert here.at(sim)("run", "items.jsonl", *FAST).returncode == 3
    before = stored(here.folder)
    done = here("watch", "--quiet", "--json")
    assert done.returncode == 3
    told = json.loads(done.stdout)
    assert told["owner"] is None
    assert told["progress"]["quarantined"] == 1
    assert here("watch", "--once", "--json").returncode == 0
    assert stored(here.folder) == before


def test_an_intake_that_broke_off_names_the_remedy(
    shell: Shell, here: Inside, sim: Simulator
) -> None:
    """Nothing was sent, so there is nothing to resume: it has to be run with its items."""
    process = shell.start("run", "-", stdin=subprocess.PIPE)
    while (
        not (shell.folder / "batchwright.db").exists() or "no run" in here("watch", "--once").stderr
    ):
        assert process.poll() is None
    reading = here("watch", "--once")
    assert "its items are being read, nothing is sent yet" in reading.stdout
    process.kill()
    process.communicate()
    left = here("watch", "--once")
    assert "nobody works on this run now; to go on: run it again with its items" in left.stdout


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--run-id", "jugde"), "batchwright.db; it holds 'default'"),
        (("--store", "jugde.db"), "there is no store"),
    ],
)
def test_a_typo_is_named(here: Inside, sim: Simulator, words: tuple[str, ...], said: str) -> None:
    """A wrong name is bad usage, and creates nothing."""
    write_items(here.folder / "items.jsonl", item(0))
    assert here.at(sim)("run", "items.jsonl", *FAST).returncode == 0
    done = here("watch", *words)
    assert done.returncode == 2
    assert said in done.stderr
    assert not (here.folder / "jugde.db").exists()


def test_a_run_in_a_database_is_watched_too(
    shell: Shell, here: Inside, sim: Simulator, postgres_url: str
) -> None:
    """On PostgreSQL as in a file: a run of another process, to its end."""
    sim.world.configure(never_ends=True)
    write_items(shell.folder / "items.jsonl", *map(item, range(10)))
    where = ("--store", postgres_url)
    running = shell.start_until("sub-batch 2 sent", *COMMAND, *where)
    once = here("watch", "--once", *where)
    assert f"at work: process {running.pid}" in once.stdout, once.stderr
    assert "10 in flight" in once.stdout
    let_it_end(sim)
    done = here("watch", "--json", *where)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["progress"]["succeeded"] == 10
    assert goes_well(running)
