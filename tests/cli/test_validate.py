"""`validate`: reports judged offline, in text and in JSON."""

from __future__ import annotations

import json
from importlib.resources import files

from .support import FAST, Inside, Shell, item, write_items


def fixture(name: str) -> dict[str, object]:
    """Return a report that the package ships."""
    data = files("batchwright.report").joinpath("fixtures", f"{name}.json").read_bytes()
    report: dict[str, object] = json.loads(data)
    return report


def test_the_report_of_a_run_is_in_order(inside: Shell, here: Inside):
    """R31: What `report` writes is accepted by `validate`, without key and server."""
    write_items(here.folder / "items.jsonl", *(item(n) for n in range(4)))
    assert inside("run", "items.jsonl", "--out", "out.jsonl", *FAST).returncode == 0
    assert here("report", "--out", "report.json").returncode == 0

    done = here("validate", "report.json")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("report.json: in order; all ")
    again = here("validate", "-", stdin=here("report").stdout)
    assert again.returncode == 0


def test_findings_name_rule_and_place(here: Inside):
    """A broken report ends with 1; text and JSON say where it is broken, and which rule."""
    broken = {**fixture("run-failed"), "complete": True}
    (here.folder / "broken.json").write_text(json.dumps(broken))
    (here.folder / "whole.json").write_text(json.dumps(fixture("run-going")))

    done = here("validate", "broken.json", "whole.json")
    assert done.returncode == 1
    assert "broken.json: 1 finding" in done.stdout
    assert "complete: says True, but 0 of 4 items succeeded" in done.stdout
    assert "message-batch-orchestration-contract/complete-means-all: Complete" in done.stdout
    assert "whole.json: in order" in done.stdout
    told = json.loads(here("validate", "broken.json", "--json").stdout)
    (document,) = told["documents"]
    assert (told["exit"], document["valid"]) == (1, False)
    assert document["findings"][0]["place"] == "complete"


def test_many_findings_are_cut(here: Inside):
    """A report that is broken in a thousand places does not fill the terminal."""
    broken = fixture("run-failed")
    broken["not_succeeded"]["listed"] *= 500  # type: ignore[index]
    (here.folder / "broken.json").write_text(json.dumps(broken))
    done = here("validate", "broken.json")
    assert done.returncode == 1
    assert len(done.stdout.splitlines()) < 120
    assert "more; --json tells all" in done.stdout


def test_what_cannot_be_read_is_bad_usage(here: Inside):
    """No such file, a folder, no JSON, nothing at all: status 2 and one line that says so."""
    (here.folder / "text.json").write_text("report")
    for words, said in (
        (["missing.json"], "cannot read missing.json: No such file"),
        (["."], "cannot read .: Is a directory"),
        (["text.json"], "text.json is not JSON"),
        ([], "name a report to look at"),
    ):
        done = here("validate", *words)
        assert done.returncode == 2
        assert said in done.stderr


def test_rules_and_self_test(here: Inside):
    """R31: The rules can be read, and the validator tries itself."""
    listed = here("validate", "--rules")
    assert listed.returncode == 0
    assert "custom-id-policy: How requests are told apart on the wire." in listed.stdout
    assert "  never-from-positions: No custom_id is made of" in listed.stdout
    tried = json.loads(here("validate", "--self-test", "--json").stdout)
    assert tried["exit"] == 0
    assert tried["accepted"] >= 4
    assert tried["refused"] >= 40
    assert tried["failed"] == []
    assert "each by the right rule" in here("validate", "--self-test").stdout
