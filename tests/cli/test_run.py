"""`batchwright run` in processes of its own, against the simulator."""

from __future__ import annotations

import json
import subprocess

from batchwright.simulator import Simulator, errored, never, succeed

from .support import FAST, Shell, item, read_lines, write_items

LINE_KEYS = [
    *("id", "custom_id", "status", "reason", "via", "org", "batch_id", "attempts"),
    *("result", "error"),
]


def test_all_succeed(shell: Shell, sim: Simulator) -> None:
    """Every answer is written in input order, and a second run sends nothing."""
    write_items(shell.folder / "items.jsonl", *map(item, range(30)))
    command = ("run", "items.jsonl", "--out", "out.jsonl", "--max-requests", "10", *FAST)
    done = shell(*command)
    assert done.returncode == 0, done.stderr
    lines = read_lines(shell.folder / "out.jsonl")
    assert [line["id"] for line in lines] == [f"doc/{n}" for n in range(30)]
    assert all(list(line) == LINE_KEYS for line in lines)
    for number, line in enumerate(lines):
        assert f"echo:Question {number}?" in line["result"]["message"]["content"][0]["text"]
    assert "30 succeeded" in done.stdout
    assert sim.url in done.stderr
    assert sim.url in done.stdout
    assert len(sim.creates) == 3
    again = shell(*command)
    assert again.returncode == 0
    assert len(sim.creates) == 3
    assert sim.api_key not in done.stdout + done.stderr


def test_json_is_all_there_is_on_stdout(inside: Shell) -> None:
    """--json gives one object, with counts, tokens and what was talked to."""
    write_items(inside.folder / "items.jsonl", item(1), item(2))
    done = inside("run", "items.jsonl", "--json", "--quiet", *FAST)
    told = json.loads(done.stdout)
    assert done.stderr == ""
    assert told["exit"] == done.returncode == 0
    assert told["outcomes"]["succeeded"] == told["items"] == 2
    assert told["tokens"][0]["answers"] == 2
    assert told["next"] == ["batchwright export --out OUT.jsonl   # writes the results"]


def test_answers_of_another_run(inside: Shell, sim: Simulator) -> None:
    """With --cache a run asks only what no earlier one was answered, and says how many it took."""
    write_items(inside.folder / "items.jsonl", *map(item, range(4)))
    write_items(inside.folder / "more.jsonl", *map(item, range(6)))
    assert inside("run", "items.jsonl", *FAST).returncode == 0
    done = inside("run", "more.jsonl", "--run-id", "more", "--cache", "--out", "out.jsonl", *FAST)
    assert done.returncode == 0, done.stderr
    assert "4 items answered from earlier runs" in done.stderr
    paths = [line["via"] for line in read_lines(inside.folder / "out.jsonl")]
    assert paths == ["cache"] * 4 + ["batch"] * 2
    assert [len(create.custom_ids) for create in sim.creates] == [4, 2]


def test_incomplete_is_3_and_says_why(inside: Shell, sim: Simulator) -> None:
    """What failed is named with its error, and the next command can be typed as it stands."""
    sim.fate_for("doc_1", errored("invalid_request_error", "no such tool"))
    sim.fate_for("doc_2", errored("api_error"))
    sim.fate_for("doc_3", succeed(stop_reason="max_tokens"))
    sim.fate_for("doc_4", succeed(stop_reason="refusal"))
    write_items(inside.folder / "items.jsonl", *map(item, range(6)))
    done = inside("run", "items.jsonl", "--run-id", "my run", "--out", "out.jsonl", *FAST)
    assert done.returncode == 3, done.stderr
    assert "4 succeeded, 1 quarantined, 1 unresolved" in done.stdout
    assert "'doc/1': invalid_request_error: no such tool" in done.stdout
    assert "1 cut off" in done.stdout
    assert "1 in which the model declined" in done.stdout
    assert (
        "batchwright resume --run-id 'my run' --resubmit exhausted --out out.jsonl" in done.stdout
    )
    errors = {line["id"]: line["error"] for line in read_lines(inside.folder / "out.jsonl")}
    assert errors["doc/1"]["type"] == "invalid_request_error"
    assert errors["doc/0"] is None


def test_resubmit_sends_what_was_exhausted(inside: Shell, sim: Simulator) -> None:
    """The command that the summary proposes brings the missing answer."""
    sim.fate_for("doc_0", [errored("api_error")])
    write_items(inside.folder / "items.jsonl", item(0))
    assert inside("run", "items.jsonl", "--max-attempts", "1", *FAST).returncode == 3
    done = inside("resume", "--resubmit", "exhausted", "--out", "out.jsonl", *FAST)
    assert done.returncode == 0, done.stderr
    assert read_lines(inside.folder / "out.jsonl")[0]["status"] == "succeeded"


def test_wrong_key_is_4(here: Shell, sim: Simulator) -> None:
    """A key that is refused stops the run, says so, and keeps every item."""
    sim.world.configure(keys={"sk-ant-right": "default"})
    write_items(here.folder / "items.jsonl", item(1), item(2))
    wrong = here.at(sim, key="sk-ant-wrong-key")
    done = wrong("run", "items.jsonl", *FAST)
    assert done.returncode == 4
    assert "API key is invalid" in done.stdout
    assert "wrong-key" not in done.stdout + done.stderr
    done = here.at(sim, key="sk-ant-right")("resume", *FAST)
    assert done.returncode == 0, done.stderr


def test_missing_key_is_4(here: Shell, sim: Simulator) -> None:
    """Without any key nothing is sent, and the summary names the variable to set."""
    write_items(here.folder / "items.jsonl", item(1))
    done = here("run", "items.jsonl", "--base-url", sim.url)
    assert done.returncode == 4
    assert "ANTHROPIC_API_KEY" in done.stdout
    assert not sim.creates


def test_base_url_beats_the_environment(inside: Shell, sim: Simulator) -> None:
    """--base-url is what is talked to."""
    write_items(inside.folder / "items.jsonl", item(1))
    inside.env["ANTHROPIC_BASE_URL"] = "http://127.0.0.1:1"
    done = inside("run", "items.jsonl", "--base-url", sim.url, *FAST)
    assert done.returncode == 0, done.stderr


def test_items_from_stdin(shell: Shell) -> None:
    """`-` reads a pipe."""
    text = "".join(json.dumps(item(n)) + "\r\n" for n in range(5))
    done = shell("run", "-", "--out", "out.jsonl", *FAST, stdin="\ufeff" + text)
    assert done.returncode == 0, done.stderr
    assert len(read_lines(shell.folder / "out.jsonl")) == 5


def test_a_repaired_file_goes_on_in_the_same_store(inside: Shell) -> None:
    """A refused file leaves nothing behind that has to be cleaned up."""
    path = inside.folder / "items.jsonl"
    path.write_text(json.dumps(item(1)) + "\n{\n")
    assert inside("run", "items.jsonl").returncode == 2
    write_items(path, item(1), item(2))
    assert inside("run", "items.jsonl", *FAST).returncode == 0


def _running(shell: Shell) -> subprocess.Popen[str]:
    """Start a run that will not end by itself, and wait until its batch is out."""
    process = shell.start("run", "items.jsonl", "--out", "out.jsonl", *FAST)
    assert process.stderr is not None
    for line in process.stderr:
        if "sent:" in line:
            return process
    raise AssertionError("the run ended")


def test_a_second_process_on_the_run_is_5(shell: Shell, sim: Simulator) -> None:
    """It is refused before anything is sent, while status can look."""
    sim.fate_for("doc_0", never())
    write_items(shell.folder / "items.jsonl", item(0))
    first = _running(shell)
    try:
        second = shell("run", "items.jsonl")
        assert second.returncode == 5
        assert "owned by another live process" in second.stderr
        assert len(sim.creates) == 1
        status = json.loads(shell("status", "--json").stdout)
        assert str(first.pid) in status["owner"]
        assert status["progress"]["in_flight"] == 1
    finally:
        first.terminate()
        first.communicate(timeout=30)
    assert first.returncode == 130
