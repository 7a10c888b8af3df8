"""`status`, `export`, `report`: from the store alone."""

from __future__ import annotations

import json

import pytest

from batchwright.simulator import Simulator

from .support import FAST, Inside, Shell, item, read_lines, write_items


@pytest.fixture
def stopped(here: Inside, sim: Simulator) -> Shell:
    """A shell without a key whose run was stopped by its account."""
    sim.world.configure(keys={"sk-ant-right": "default"})
    write_items(here.folder / "items.jsonl", item(0), item(1))
    assert here.at(sim, key="sk-ant-wrong")("run", "items.jsonl", *FAST).returncode == 4
    return here


def test_an_unfinished_run_is_exported_only_in_part(stopped: Shell) -> None:
    """--partial writes every item with how it stands; without it that is refused."""
    status = stopped("status")
    assert status.returncode == 0
    assert "2 waiting" in status.stdout
    assert "Next: batchwright resume" in status.stdout
    told = json.loads(stopped("status", "--json").stdout)
    assert sum(told["progress"].values()) == told["items"] == 2
    refused = stopped("export", "--out", "out.jsonl")
    assert refused.returncode == 2
    assert "--partial" in refused.stderr
    assert stopped("export", "--out", "out.jsonl", "--partial").returncode == 0
    lines = read_lines(stopped.folder / "out.jsonl")
    assert [line["id"] for line in lines] == ["doc/0", "doc/1"]
    assert {line["reason"] for line in lines} == {"account"} or {
        line["reason"] for line in lines
    } == {"waiting"}


def test_export_and_report_of_a_whole_run(inside: Shell, here: Inside) -> None:
    """The export equals what the run wrote; the report is the run's."""
    write_items(inside.folder / "items.jsonl", *map(item, range(4)))
    assert inside("run", "items.jsonl", "--out", "out.jsonl", *FAST).returncode == 0
    assert here("export", "--out", "again.jsonl").returncode == 0
    again = (here.folder / "again.jsonl").read_bytes()
    assert again == (here.folder / "out.jsonl").read_bytes()
    report = json.loads(here("report").stdout)
    assert report["complete"] is True
    assert here("report", "--out", "report.json").returncode == 0
    assert json.loads((here.folder / "report.json").read_bytes())["items"] == 4
    assert "4 succeeded" in " ".join(here("status").stdout.split())


def test_the_report_as_a_page(inside: Shell, here: Inside) -> None:
    """--html writes a page, beside the JSON or alone, and over nothing that the run needs."""
    write_items(inside.folder / "items.jsonl", item(0), item(1) | {"params": {"model": "m"}})
    assert inside("run", "items.jsonl", *FAST).returncode == 3
    done = here("report", "--html", "page.html")
    assert (done.returncode, done.stdout) == (0, "page written to page.html\n")
    page = (here.folder / "page.html").read_text()
    assert page.startswith("<!doctype html>")
    assert "Finished: 1 of 2 items did not succeed." in page
    assert "batchwright report --run-id default --store batchwright.db" in page
    both = here("report", "--html", "page.html", "--out", "report.json", "--json")
    assert json.loads(both.stdout) == {"exit": 0, "out": "report.json", "html": "page.html"}
    assert json.loads((here.folder / "report.json").read_text())["items"] == 2
    for words in (("batchwright.db",), ("x", "--out", "x"), (".",), ("no/where/page.html",)):
        refused = here("report", "--html", *words)
        assert refused.returncode == 2
        assert "--html" in refused.stderr
