"""What must not lie about in a tracked file."""

from __future__ import annotations

import ast
import re
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

#: Longest real sleep that a test may ask for, seconds.
LONGEST_SLEEP = 0.05

# Written in pieces, so that this file does not find itself.
_LEFT_OVER = re.compile("TO" + r"DO\b|FIX" + r"ME\b|\bX" + r"XX\b")
_SKIPPED = re.compile(r"\bmark\.(skip|skipif|xfail)\b|\bpytest\.(skip|xfail|importorskip)\(")
# The home of `u` is nobody's.
_MACHINE_PATH = re.compile(
    r"/(?:ho" + r"me/(?!u/)|Us" + r"ers/|ro" + r"ot/|wo" + r"rk/|op" + r"t/)[\w.-]+"
)
# Real ones are about a hundred characters long; those that tests make up are short.
_KEY = re.compile(r"sk-" + r"ant-[A-Za-z0-9_-]{40,}")


def tracked() -> list[Path]:
    """Return the text files of the repository: from git, or all where there is none."""
    if shutil.which("git") and (ROOT / ".git").exists():
        command = ["git", "-C", str(ROOT), "ls-files", "-z", "-co", "--exclude-standard"]
        # A checkout that belongs to somebody else (root in a container) is fine here.
        command[1:1] = ["-c", "safe.directory=*"]
        names = subprocess.run(command, capture_output=True, check=True).stdout.decode().split("\0")
        paths = [ROOT / name for name in names if name]
    else:
        paths = [p for top in ("src", "tests", "docs", "examples") for p in (ROOT / top).rglob("*")]
    return [path for path in paths if path.is_file() and not _binary(path)]


def _binary(path: Path) -> bool:
    return "__pycache__" in path.parts or b"\0" in path.read_bytes()[:4096]


def found(pattern: re.Pattern[str], paths: list[Path]) -> list[str]:
    """Return every match of *pattern* as `file:line: match`."""
    return [
        f"{path.relative_to(ROOT)}:{number}: {match.group()}"
        for path in paths
        for number, line in enumerate(path.read_text("utf-8").splitlines(), 1)
        for match in pattern.finditer(line)
    ]


def python(top: str) -> list[Path]:
    """Return the tracked Python files under a folder."""
    return [p for p in tracked() if p.suffix == ".py" and p.is_relative_to(ROOT / top)]


def test_no_left_over_marks():
    """Nothing says that it is still to be done."""
    assert found(_LEFT_OVER, tracked()) == []


def test_no_test_is_skipped():
    """Every test runs everywhere: none is skipped or expected to fail."""
    assert found(_SKIPPED, python("tests")) == []


def test_no_test_sleeps():
    """No test waits for real time longer than a moment; the simulation's loop has its own time."""
    slow = [
        f"{path.relative_to(ROOT)}:{node.lineno}: {ast.unparse(node)}"
        for path in python("tests")
        if not path.is_relative_to(ROOT / "tests" / "simulation")
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if _sleeps_long(node)
    ]
    assert slow == []


def _sleeps_long(node: ast.AST) -> bool:
    if not isinstance(node, ast.Call) or not node.args:
        return False
    if ast.unparse(node.func) not in {"time.sleep", "asyncio.sleep", "anyio.sleep", "sleep"}:
        return False
    seconds = node.args[0]
    return isinstance(seconds, ast.Constant) and float(seconds.value) > LONGEST_SLEEP


def test_no_machine_path():
    """No tracked file names a folder of somebody's machine."""
    assert found(_MACHINE_PATH, tracked()) == []


def test_no_key():
    """No tracked file holds anything as long as a real key."""
    assert found(_KEY, tracked()) == []


def test_versions_agree():
    """The version of the package, of the code and of the changelog are one."""
    project = (ROOT / "pyproject.toml").read_text("utf-8")
    code = (ROOT / "src/batchwright/__init__.py").read_text("utf-8")
    changes = (ROOT / "CHANGELOG.md").read_text("utf-8")
    version = re.search(r'^version = "(.+)"', project, re.MULTILINE)
    assert version is not None
    assert f'__version__ = "{version.group(1)}"' in code
    assert f"## [{version.group(1)}]" in changes


@pytest.mark.parametrize("name", ["README.md", "CHANGELOG.md", "LICENSE", ".ci/run"])
def test_front_matter_exists(name):
    """The files that a stranger looks for first are there and not empty."""
    assert (ROOT / name).stat().st_size > 100
