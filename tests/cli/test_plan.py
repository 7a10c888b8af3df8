"""`plan`: what a person is told before a run, in which order, and with which exit status."""

from __future__ import annotations

import json

import pytest

from batchwright.report.plan import PlanReport
from batchwright.simulator import Simulator

from .support import FAST, Inside, Shell, item, write_items


def bad(number: int, **more: object) -> dict[str, object]:
    """Return a line whose request the API would refuse."""
    line = item(number)
    return {**line, "params": {**line["params"], **more}}


def test_what_matters_comes_first(inside: Shell) -> None:
    """Batches, then cost and time by either path, the command last; and no file is left."""
    write_items(inside.folder / "items.jsonl", *map(item, range(20)))
    told = inside("plan", "items.jsonl", "--max-requests", "8")
    lines = told.stdout.splitlines()

    assert told.returncode == 0
    assert "nothing was sent" in lines[0]
    assert "20 items in items.jsonl, 20 to send: 3 batches of 6 to 7 requests" in lines[1]
    assert lines[2].split()[:2] == ["by", "batches"]
    assert "$" in lines[2]
    assert "within 24 h" in lines[2]
    assert lines[3].split()[:3] == ["by", "direct", "calls"]
    assert lines[-1] == "Next: batchwright run items.jsonl --out OUT.jsonl"
    assert sorted(p.name for p in inside.folder.iterdir()) == ["items.jsonl"]


def test_one_is_told_as_one(inside: Shell) -> None:
    """One request is no plural."""
    write_items(inside.folder / "items.jsonl", item(1))
    told = inside("plan", "items.jsonl")

    assert "1 item in items.jsonl, 1 to send: 1 batch of 1 request and " in told.stdout


def test_lines_are_named(inside: Shell) -> None:
    """What is wrong is told by its line in the file, blank lines counted, each reason once."""
    path = inside.folder / "items.jsonl"
    good = json.dumps(item(1))
    wrong = [json.dumps(bad(n, temperature=0.5)) for n in (2, 3)]
    path.write_text("\n".join(["", good, wrong[0], "", wrong[1], "{no json", good]) + "\n")
    told = inside("plan", "items.jsonl")

    assert told.returncode == 2
    assert "Would stop the run: items.jsonl, line 6: not JSON" in told.stdout
    assert "'doc/1' occurs twice, in lines 2 and 7" in told.stdout
    assert "line 3 ('doc/2'), line 5 ('doc/3'): params.temperature is rejected" in told.stdout
    assert told.stdout.count("params.temperature") == 1
    assert "Next:" not in told.stdout


def test_many_lines_are_summed_up(inside: Shell) -> None:
    """Of many wrong lines some are shown and all are counted."""
    path = inside.folder / "items.jsonl"
    path.write_text("{}\n" * 30 + json.dumps(item(1)) + "\n")
    told = inside("plan", "items.jsonl")

    assert "Would stop the run: 30 entries are no items:" in told.stdout
    assert "line 10:" in told.stdout
    assert "line 11:" not in told.stdout
    assert "and 20 more" in told.stdout


@pytest.mark.parametrize(
    ("lines", "status"),
    [
        ([item(1)], 0),
        ([item(1), item(1)], 2),
        ([item(1), bad(2, max_tokens=0)], 3),
        ([item(1), bad(2, model="claude-nope")], 3),
    ],
)
def test_exit_status(inside: Shell, lines: list[dict[str, object]], status: int) -> None:
    """0 all is well, 2 the run would stop, 3 some items would not get an answer."""
    write_items(inside.folder / "items.jsonl", *lines)

    assert inside("plan", "items.jsonl").returncode == status


def test_a_refused_key(here: Inside, sim: Simulator) -> None:
    """4: the account is refused, and the plan is told all the same."""
    sim.world.configure(keys={"sk-ant-right": "default"})
    write_items(here.folder / "items.jsonl", item(0))
    told = here.at(sim, key="sk-ant-wrong")("plan", "items.jsonl")

    assert told.returncode == 4
    assert "refuses the account" in told.stdout
    assert "sk-ant-wrong" not in told.stdout
    assert "by batches" in told.stdout


def test_without_a_key(here: Inside) -> None:
    """Without a key the estimate is rough and says so."""
    write_items(here.folder / "items.jsonl", item(0))
    told = here("plan", "items.jsonl")

    assert told.returncode == 0
    assert "there is no key" in told.stdout
    assert "rough" in told.stdout


def test_json_is_the_document(inside: Shell) -> None:
    """--json prints the plan and nothing else, also where the run would stop."""
    write_items(inside.folder / "items.jsonl", item(1), item(1))
    told = inside("plan", "items.jsonl", "--json")
    plan = PlanReport.model_validate_json(told.stdout)

    assert told.returncode == 2
    assert plan.duplicates[0].line == 2
    assert plan.duplicates[0].first_line == 1


def test_a_plan_is_validated(inside: Shell) -> None:
    """R31: What --json prints keeps its contract; a plan that was changed by hand does not."""
    write_items(inside.folder / "items.jsonl", item(1), item(1), bad(2, temperature=0.5))
    plan = json.loads(inside("plan", "items.jsonl", "--json").stdout)
    path = inside.folder / "plan.json"
    path.write_text(json.dumps(plan))
    good = inside("validate", "plan.json")
    plan["asked"]["workload"]["user_waiting"] = True
    path.write_text(json.dumps(plan))
    changed = inside("validate", "plan.json")

    assert good.returncode == 0, good.stdout
    assert changed.returncode == 1
    assert "workload-policy/nobody-waiting" in changed.stdout


@pytest.mark.parametrize("declared", ["--user-waiting", "--streaming", "--ids-from-position"])
def test_work_that_is_not_for_batches(here: Inside, declared: str) -> None:
    """R29: declared work that batches are not for is refused with the reason."""
    write_items(here.folder / "items.jsonl", item(0))
    told = here("plan", "items.jsonl", declared, "--json")

    assert told.returncode == 2
    assert "policy/" in json.loads(told.stdout)["error"]["message"]


def test_only_the_missing_is_planned(inside: Shell) -> None:
    """After a run the plan says that everything is answered, and leaves the store as it is."""
    write_items(inside.folder / "items.jsonl", *map(item, range(3)))
    assert inside("run", "items.jsonl", *FAST).returncode == 0
    before = (inside.folder / "batchwright.db").read_bytes()
    told = inside("plan", "items.jsonl")
    write_items(inside.folder / "items.jsonl", *map(item, range(4)))
    more = inside("plan", "items.jsonl")

    assert "none of them to send" in told.stdout
    assert "3 answered" in told.stdout
    assert "4 items in items.jsonl, 1 to send" in more.stdout
    assert "3 answered, 1 new" in more.stdout
    assert (inside.folder / "batchwright.db").read_bytes() == before
    assert sorted(p.name for p in inside.folder.iterdir()) == ["batchwright.db", "items.jsonl"]


def test_items_from_a_pipe(bare: Shell) -> None:
    """Items may come through a pipe; a store that forgets is refused as for a run."""
    lines = "".join(json.dumps(item(n)) + "\n" for n in range(3))
    told = bare("plan", "-", "--offline", stdin=lines)

    assert told.returncode == 0
    assert "3 items in stdin" in told.stdout


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["nope.jsonl"], "there is no file nope.jsonl"),
        (["empty.jsonl"], "holds no items"),
        (["wide.jsonl"], "UTF-16"),
        (["items.jsonl", "--store", "memory://"], "name a file"),
        (["items.jsonl", "--store", "items.jsonl"], "both ITEMS and the store"),
        (["items.jsonl", "--policy", "fast"], "policy='fast' is not known"),
        (["items.jsonl", "--store", "text.txt"], "not a batchwright store"),
    ],
)
def test_what_cannot_be_planned(here: Inside, words: list[str], said: str) -> None:
    """Bad usage and hopeless files are one line and status 2."""
    write_items(here.folder / "items.jsonl", item(0))
    (here.folder / "empty.jsonl").write_text("\n\n")
    (here.folder / "wide.jsonl").write_bytes(json.dumps(item(0)).encode("utf-16"))
    (here.folder / "text.txt").write_text("no store at all, whatever it is called " * 30)
    told = here("plan", *words)

    assert told.returncode == 2
    assert said in told.stderr


def test_several_models_and_unknown_prices(inside: Shell, sim: Simulator) -> None:
    """Models are told one by one; a cost that is not known is called unknown."""
    sim.world.configure(models=frozenset({"claude-stranger-9"}))
    lines = [item(1), bad(2, model="claude-stranger-9")]
    write_items(inside.folder / "items.jsonl", *lines)
    told = inside("plan", "items.jsonl")

    assert told.returncode == 0
    assert "unknown: no price of 'claude-stranger-9'" in told.stdout.splitlines()[2]
    assert "claude-sonnet-5: 1 item, by batches $" in told.stdout


def test_other_options_of_a_run(inside: Shell) -> None:
    """Headers, a policy that begins with direct calls, and a server of one's own are told."""
    lines = [item(1), {**item(2), "headers": {"anthropic-beta": "files-api-2025-04-14"}}]
    write_items(inside.folder / "items.jsonl", *lines)
    url = inside.env["ANTHROPIC_BASE_URL"]
    told = inside("plan", "items.jsonl", "--policy", "sync", "--base-url", url, "--run-id", "j 1")

    assert "2 kinds of headers" in told.stdout
    assert "direct calls from the start" in told.stdout
    assert f"It would talk to {url}" in told.stdout
    next_ = told.stdout.splitlines()[-1]
    assert next_.endswith(f"--run-id 'j 1' items.jsonl --out OUT.jsonl --base-url {url}")
