"""
Every snippet in the README and on the site is true.

Python blocks are run: the blocks of one page one after another in one namespace, in an empty
folder, with the SDK's environment pointing at a simulated API. Shell blocks are read: each
`batchwright` command and each of its flags must exist; those of the README are run too.

A reader's run looks at its batches after ten seconds first. That default, and only that, is made
short here, so that pages can show what a reader would write.
"""

from __future__ import annotations

import ast
import asyncio
import inspect
import json
import os
import re
import shlex
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import typer

from batchwright import BatchRunner, Polling
from batchwright.simulator import Simulator

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
SPEED = 5_000.0

_FENCE = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True, slots=True)
class Block:
    """One fenced block: `line` is the line of its first line of code, from 1."""

    page: Path
    language: str
    line: int
    code: str


def blocks(page: Path, language: str) -> list[Block]:
    """Return the fenced blocks of one language."""
    text = page.read_text("utf-8")
    return [
        Block(page, language, text.count("\n", 0, found.start(2)) + 1, found.group(2))
        for found in _FENCE.finditer(text)
        if found.group(1) == language
    ]


def name_of(page: Path) -> str:
    """Return the page's path inside the repository."""
    return str(page.relative_to(ROOT))


@pytest.fixture
def reader(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Simulator]:
    """Be a reader with an empty folder and a local API, and without patience."""
    defaults = BatchRunner.__init__.__kwdefaults__
    assert defaults is not None
    assert defaults["polling"] == Polling()
    monkeypatch.setitem(defaults, "polling", Polling(interval=0.05))
    monkeypatch.chdir(tmp_path)
    with Simulator(speed=SPEED) as sim:
        monkeypatch.setenv("ANTHROPIC_BASE_URL", sim.url)
        monkeypatch.setenv("ANTHROPIC_API_KEY", sim.api_key)
        yield sim


@pytest.mark.parametrize("page", [p for p in PAGES if blocks(p, "python")], ids=name_of)
def test_python_runs(page: Path, reader: Simulator, tmp_path: Path):
    """The Python of a page runs from its top to its end."""
    namespace: dict[str, Any] = {"__name__": "__main__"}
    with asyncio.Runner() as runner:
        for block in blocks(page, "python"):
            if re.search(r"^(async )?def test_", block.code, re.MULTILINE):
                run_as_test(block, tmp_path)
            else:
                run_code(block, namespace, runner)
    assert reader.failures == []


def run_code(block: Block, namespace: dict[str, Any], runner: asyncio.Runner) -> None:
    """Run one block; `await` is allowed at its top, as in a notebook."""
    padded = "\n" * (block.line - 1) + block.code
    flags = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
    code = compile(padded, str(block.page), "exec", flags=flags, dont_inherit=True)
    if code.co_flags & inspect.CO_COROUTINE:

        async def cell() -> None:
            await eval(code, namespace)

        runner.run(cell())
    else:
        # Outside the loop, as in a script: `asyncio.run` and `batchwright.run` work here.
        exec(code, namespace)


def run_as_test(block: Block, folder: Path) -> None:
    """Run a block that shows a test as pytest would, in a project of its own."""
    (folder / "test_shown.py").write_text(block.code)
    (folder / "pytest.ini").write_text("[pytest]\n")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_shown.py"]
    # What the outer pytest was told (to measure coverage, say) is not meant for this one.
    env = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    done = subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{block.page}:{block.line}\n{done.stdout}"
    assert re.search(r"\b\d+ passed\b", done.stdout), done.stdout


# -- shell ----------------------------------------------------------------------------------------


def batchwright_lines() -> list[tuple[str, str]]:
    """Return (where, command line) for every call of `batchwright` in a shell block."""
    return [
        (f"{name_of(page)}:{block.line + number}", line[line.index("batchwright ") :])
        for page in PAGES
        for block in blocks(page, "shell")
        for number, line in enumerate(block.code.splitlines())
        if re.search(r"(^|[ /])batchwright ", line) and not line.lstrip().startswith("#")
    ]


def commands() -> dict[str, Any]:
    """Return the commands of the command line by name, as click sees them."""
    from batchwright.cli._app import app

    group = typer.main.get_command(app)
    return dict(group.commands)  # type: ignore[attr-defined]


def flags_of(command: Any) -> set[str]:
    """Return every option name that a command takes."""
    named = {
        name
        for parameter in command.params
        for name in (*parameter.opts, *parameter.secondary_opts)
        if name.startswith("-")
    }
    return named | {"--help"}


@pytest.mark.parametrize(("where", "line"), batchwright_lines())
def test_commands_and_flags_exist(where: str, line: str):
    """A command shown in a shell block exists and takes the flags shown with it."""
    words = shlex.split(line, comments=True)
    command = commands().get(words[1])
    assert command is not None, f"{where}: no command {words[1]}"
    shown = {word.partition("=")[0] for word in words[2:] if word.startswith("-")}
    assert shown - flags_of(command) == set(), where
    arguments = [p for p in command.params if p.param_type_name == "argument" and p.required]
    assert len([w for w in words[2:] if not w.startswith("-")]) >= len(arguments), where


def params_of(text: str) -> dict[str, Any]:
    """Return the body of a small request."""
    messages = [{"role": "user", "content": text}]
    return {"model": "claude-haiku-5-5", "max_tokens": 9, "messages": messages}


def test_readme_shell_runs(reader: Simulator, tmp_path: Path):
    """The README's shell block does what it says: the second run sends nothing again."""
    rows = [{"custom_id": f"doc-{n}", "params": params_of(f"{n}")} for n in range(20)]
    (tmp_path / "items.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    lines = [line for where, line in batchwright_lines() if where.startswith("README.md")]
    assert [line.split()[1] for line in lines].count("run") == 2
    for line in lines:
        words = shlex.split(line, comments=True)
        command = [sys.executable, "-m", "batchwright.cli", *words[1:]]
        env = {**os.environ, "BATCHWRIGHT_POLL_INTERVAL": "0.05"}
        done = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
        assert done.returncode == 0, f"{line}\n{done.stdout}{done.stderr}"
    assert len(reader.creates) == 1
    for name in ("answers.jsonl", "so-far.jsonl"):
        told = [json.loads(line) for line in (tmp_path / name).read_text().splitlines()]
        assert [row["id"] for row in told] == [row["custom_id"] for row in rows]


# -- the two commands -----------------------------------------------------------------------------

SETUP = "python -m venv .venv && .venv/bin/pip install "
TWO_COMMANDS = [
    SETUP + '".[cli]" && .venv/bin/batchwright demo',
    SETUP + '-e ".[dev]" && .venv/bin/pytest',
]


def test_two_commands():
    """The README's two commands are whole lines, and `.ci/run` takes them from there."""
    readme = (ROOT / "README.md").read_text("utf-8").splitlines()
    assert [line for line in readme if line.startswith("python -m venv")] == TWO_COMMANDS
    checks = (ROOT / ".ci" / "run").read_text("utf-8")
    assert "README.md" in checks
    assert textwrap.dedent(checks).count(".venv/bin/pytest") <= 1
