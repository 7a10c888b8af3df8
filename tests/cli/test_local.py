"""`demo` and `simulate`."""

from __future__ import annotations

import json
import signal

from .support import Shell, clean_env, item, write_items


def test_demo_checks_every_answer(bare: Shell) -> None:
    """It needs nothing from the environment, and everything ends as meant."""
    bare.env.update(
        ANTHROPIC_BASE_URL="http://127.0.0.1:9",
        ANTHROPIC_API_KEY="sk-ant-mine",
        http_proxy="http://127.0.0.1:9",
    )
    done = bare("demo", "--items", "120")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Checked: each of the 116 answers is the one to its own question." in done.stdout
    assert "unresolved (exhausted) after 3 tries" in done.stdout
    assert "sk-ant" not in done.stdout + done.stderr
    assert list(bare.folder.iterdir()) == []


def test_simulate_prints_what_to_set(bare: Shell) -> None:
    """Its lines can be pasted, and Ctrl-C ends it with 0."""
    process = bare.start("simulate", "--port", "0", "--speed", "6000")
    try:
        assert process.stdout is not None
        line = next(line for line in process.stdout if line.startswith("export "))
        settings = dict(pair.split("=", 1) for pair in line.split()[1:])
        assert set(settings) == {"ANTHROPIC_BASE_URL", "ANTHROPIC_API_KEY"}
        write_items(bare.folder / "items.jsonl", item(1))
        shell = Shell(bare.folder, clean_env() | settings)
        done = shell("run", "items.jsonl", "--poll-interval", "0.05", "--json", "--quiet")
        assert json.loads(done.stdout)["outcomes"]["succeeded"] == 1
        port = settings["ANTHROPIC_BASE_URL"].rpartition(":")[2]
        second = bare("simulate", "--port", port)
        assert second.returncode == 2
        assert "--port 0" in second.stderr
    finally:
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=30)
    assert process.returncode == 0, err
