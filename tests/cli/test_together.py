"""`load` and `work`: one run, several processes."""

from __future__ import annotations

import json
import signal
import subprocess

import pytest

from batchwright.simulator import Simulator

from .support import FAST, Shell, item, read_lines, write_items


@pytest.fixture
def shared(shell: Shell, postgres_url: str) -> Shell:
    """A shell whose store is a database, with 60 items beside it."""
    write_items(shell.folder / "items.jsonl", *map(item, range(60)))
    return Shell(shell.folder, {**shell.env, "BATCHWRIGHT_STORE": postgres_url})


WORK = ("work", "--max-requests", "5", *FAST)


def finish(process: subprocess.Popen[str]) -> tuple[int, str, str]:
    """Return status, output and messages of a process once it has ended."""
    out, err = process.communicate(timeout=60)
    return process.returncode, out, err


def test_load_and_work(shared: Shell, sim: Simulator) -> None:
    """The items are put in once; whoever works then returns with the same result."""
    loaded = shared("load", "items.jsonl")
    assert loaded.returncode == 0, loaded.stderr
    assert "holds 60 items, 60 to send" in loaded.stdout
    assert "Next: batchwright work" in loaded.stdout
    assert not sim.creates
    workers = [shared.start(*WORK, "--json") for _ in range(2)]
    for process in workers:
        status, out, err = finish(process)
        assert status == 0, err
        assert json.loads(out)["outcomes"]["succeeded"] == 60
    late = shared(*WORK)
    assert late.returncode == 0
    assert "60 items" in late.stdout
    done = shared("export", "--out", "out.jsonl")
    assert done.returncode == 0, done.stderr
    assert [line["id"] for line in read_lines(shared.folder / "out.jsonl")] == [
        f"doc/{n}" for n in range(60)
    ]
    assert set(sim.world.books().sent.values()) == {1}


def test_run_lets_others_help(shared: Shell, sim: Simulator) -> None:
    """`run` puts the items in and works; `work` beside it waits for the items, and helps."""
    helper = shared.start(*WORK, "--wait", "30")
    ran = shared("run", "items.jsonl", "--out", "out.jsonl", *WORK[1:])
    assert ran.returncode == 0, ran.stderr
    status, _, err = finish(helper)
    assert status == 0, err
    assert len(read_lines(shared.folder / "out.jsonl")) == 60
    assert set(sim.world.books().sent.values()) == {1}


def test_one_that_is_told_to_stop_gives_back_what_it_had(shared: Shell, sim: Simulator) -> None:
    """Ctrl-C on the first: it says so, and the second one finishes without waiting for it."""
    sim.world.configure(never_ends=True)
    shared("load", "items.jsonl")
    first = shared.start_until("sub-batch 3 sent", *WORK)
    second = shared.start_until("at work as worker 2", *WORK)
    refused = shared("resume")
    assert refused.returncode == 5
    assert "worker" in refused.stderr or "process" in refused.stderr
    told = shared("status")
    assert "2 processes" in told.stdout
    first.send_signal(signal.SIGINT)
    status, _, err = finish(first)
    assert status == 130, err
    assert "is for the others now" in err
    assert "To join: batchwright work --store 'postgresql://" in err
    sim.world.configure(never_ends=False)
    for batch_id in list(sim.world.batches):
        sim.world.finish(batch_id)
    status, out, err = finish(second)
    assert status == 0, err
    assert "this process conducts the run now" in err
    assert "60 succeeded" in out
    assert not sim.world.books().billed_twice


def test_what_cannot_be_worked_on(bare: Shell, postgres_url: str) -> None:
    """A file is for one process; a run that nobody has loaded is named, and nothing is made."""
    done = bare("work", "--store", "one.db")
    assert done.returncode == 2
    assert "PostgreSQL" in done.stderr
    assert list(bare.folder.iterdir()) == []
    done = bare("work", "--store", "memory://")
    assert done.returncode == 2
    done = bare("work", "--store", postgres_url, "--run-id", "judge", "--wait", "0")
    assert done.returncode == 2
    assert "no run 'judge'" in done.stderr


def test_loading_for_one_process(shell: Shell) -> None:
    """In a file `load` leaves the sending to `resume`; bad items are refused as by `run`."""
    write_items(shell.folder / "items.jsonl", *map(item, range(3)))
    loaded = shell("load", "items.jsonl", "--json")
    assert loaded.returncode == 0, loaded.stderr
    told = json.loads(loaded.stdout)
    assert (told["items"], told["waiting"], told["next"]) == (3, 3, ["batchwright resume"])
    assert shell("resume", *FAST).returncode == 0
    write_items(shell.folder / "items.jsonl", item(1), item(1))
    assert shell("load", "items.jsonl").returncode == 2
