"""Helpers: items files, and the command line in processes of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from typer.testing import CliRunner

from batchwright.cli._app import app
from batchwright.simulator import Simulator

#: Polls and retries at a simulator's pace.
FAST = ("--poll-interval", "0.05", "--backoff", "0.05")


def item(number: int, text: str | None = None) -> dict[str, Any]:
    """Return a line of ITEMS.jsonl."""
    content = f"Question {number}?" if text is None else text
    return {
        "custom_id": f"doc/{number}",
        "params": {
            "model": "claude-sonnet-5",
            "max_tokens": 50,
            "messages": [{"role": "user", "content": content}],
        },
    }


def write_items(path: Path, *lines: Mapping[str, Any]) -> Path:
    """Write a JSONL file."""
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


def read_lines(path: Path) -> list[dict[str, Any]]:
    """Read a JSONL file."""
    return [json.loads(line) for line in path.read_text().splitlines()]


@dataclass
class Shell:
    """Runs commands in a folder, with no ANTHROPIC_* but what a test sets."""

    folder: Path
    env: dict[str, str]

    def start(self, *words: str, stdin: int = subprocess.DEVNULL) -> subprocess.Popen[str]:
        """Start a command."""
        return subprocess.Popen(
            [sys.executable, "-m", "batchwright.cli", *words],
            cwd=self.folder,
            env=self.env,
            stdin=stdin,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def start_until(self, said: str, *words: str) -> subprocess.Popen[str]:
        """Start a command and return once it has *said* something."""
        process = self.start(*words)
        assert process.stderr is not None
        for line in process.stderr:
            if said in line:
                return process
        raise AssertionError("it ended first")

    def __call__(self, *words: str, stdin: str | None = None) -> subprocess.CompletedProcess[str]:
        """Run a command to its end."""
        return subprocess.run(
            [sys.executable, "-m", "batchwright.cli", *words],
            cwd=self.folder,
            env=self.env,
            input="" if stdin is None else stdin,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )

    def at(self, simulator: Simulator, key: str | None = None) -> Shell:
        """Return a shell whose environment names this simulator."""
        options = simulator.client_options()
        env = {
            "ANTHROPIC_BASE_URL": options["base_url"],
            "ANTHROPIC_API_KEY": key or options["api_key"],
        }
        return type(self)(self.folder, self.env | env)

    def at_url(self, url: str) -> Shell:
        """Return a shell whose environment names this address and a key that nobody knows."""
        env = {"ANTHROPIC_BASE_URL": url, "ANTHROPIC_API_KEY": "sk-ant-nobody"}
        return type(self)(self.folder, self.env | env)


@dataclass
class Inside(Shell):
    """The same within this process: an interpreter and the SDK take long to start."""

    def __call__(self, *words: str, stdin: str | None = None) -> subprocess.CompletedProcess[str]:
        """Run a command to its end."""
        unset = {name: None for name in os.environ if name not in self.env}
        result = CliRunner().invoke(app, list(words), input=stdin, env={**unset, **self.env})
        return subprocess.CompletedProcess(words, result.exit_code, result.stdout, result.stderr)


def clean_env() -> dict[str, str]:
    """Return the environment without what could reach the library from outside."""
    return {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("ANTHROPIC_", "BATCHWRIGHT_"))
        and not name.lower().endswith("_proxy")
    }
