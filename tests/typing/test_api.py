"""
What type checkers know of the public face: the real checkers, on code as callers write it.
"""

from __future__ import annotations

import inspect
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from batchwright import BatchRunner
from batchwright.blocking import RunnerOptions

ROOT = Path(__file__).parents[2]
API = Path(__file__).with_name("api.py")


def checked(*command: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    """Run a checker of this environment; none looks for a newer version of itself."""
    # pyright asks the `python` that it finds where packages are.
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}"
    env = {**os.environ, "PATH": path, "PYRIGHT_PYTHON_IGNORE_WARNINGS": "1"}
    return subprocess.run(
        [sys.executable, "-m", *command],
        cwd=cwd,
        env=env,
        capture_output=True,
        text=True,
        check=False,
    )


def pyright(*arguments: str, cwd: Path) -> Any:
    """Return what pyright says, as JSON."""
    done = checked("pyright", "--outputjson", *arguments, cwd=cwd)
    try:
        return json.loads(done.stdout)
    except ValueError:
        pytest.fail(f"pyright did not run: {done.stdout}{done.stderr}")


@pytest.mark.slow
def test_mypy():
    """mypy --strict agrees with every use, and with each type that is claimed."""
    done = checked("mypy", "--strict", str(API), cwd=ROOT)
    assert done.returncode == 0, done.stdout


@pytest.mark.slow
def test_pyright():
    """So does pyright in its strict mode."""
    said = pyright(str(API), cwd=ROOT)
    assert [d["message"] for d in said["generalDiagnostics"]] == []
    assert said["summary"]["filesAnalyzed"] == 1


@pytest.mark.slow
def test_every_public_type_is_known(tmp_path: Path):
    """Nothing that can be imported is left to inference, which differs between checkers."""
    said = pyright("--verifytypes", "batchwright", "--ignoreexternal", cwd=tmp_path)
    known = said["typeCompleteness"]
    unknown = {
        symbol["name"]: [d["message"] for d in symbol["diagnostics"]]
        for symbol in known["symbols"]
        if symbol["isExported"] and not symbol["isTypeKnown"]
    }
    assert unknown == {}
    assert known["exportedSymbolCounts"]["withKnownType"] > 1_000
    assert known["completenessScore"] == 1.0


def test_the_blocking_form_takes_the_runners_options():
    """`batchwright.run` and `BatchRunner` take the same options."""
    wanted = inspect.signature(BatchRunner).parameters
    typed = {name: kind.__forward_arg__ for name, kind in RunnerOptions.__annotations__.items()}
    assert typed == {name: parameter.annotation for name, parameter in wanted.items()}
