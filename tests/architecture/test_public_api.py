"""The public face: what is promised can be imported, is documented, and stays sorted."""

from __future__ import annotations

import ast
import importlib
import importlib.resources
import inspect
import subprocess
import sys

import pytest

import batchwright

#: The names that the documentation promises from `batchwright` itself in this version.
PROMISED = frozenset(
    """
BatchRunner Item Org ShardLimits Polling RetryBudget SyncLimits Outcome ItemError RunResult
RunReport RunStatus CheckpointStore DispatchPolicy Stay Switch WaveSnapshot run
items_from_jsonl items_from_dataframe to_dataframe
BatchwrightError IntakeError DuplicateItem ChangedItem MassRefusal OtherRun ConfigurationError
RunLocked StoreError StoreBusy StoreCorrupt StoreFull SchemaTooNew IncompleteRun
""".split()  # noqa: SIM905 - a column of quotes hides the names
)

PUBLIC_MODULES = [
    "batchwright",
    "batchwright.config",
    "batchwright.dataframes",
    "batchwright.errors",
    "batchwright.events",
    "batchwright.items",
    "batchwright.listeners",
    "batchwright.listeners.otel",
    "batchwright.policy",
    "batchwright.report",
    "batchwright.report.page",
    "batchwright.shared",
    "batchwright.simulator",
    "batchwright.status",
    "batchwright.store",
    "batchwright.stores",
    "batchwright.testing",
    "batchwright.types",
]
WITH_ALL = [name for name in PUBLIC_MODULES if hasattr(importlib.import_module(name), "__all__")]


def public_names(module) -> list[str]:
    """Return the names a module offers: its `__all__`, else what it defines itself."""
    if hasattr(module, "__all__"):
        return list(module.__all__)
    return [
        name
        for name, value in vars(module).items()
        if not name.startswith("_") and getattr(value, "__module__", None) == module.__name__
    ]


@pytest.mark.parametrize("name", WITH_ALL)
def test_all_is_sorted_and_true(name):
    """`__all__` is sorted, has no doubles, and each of its names exists."""
    module = importlib.import_module(name)
    assert list(module.__all__) == sorted(set(module.__all__))
    assert [entry for entry in module.__all__ if not hasattr(module, entry)] == []


@pytest.mark.parametrize("name", sorted(PROMISED))
def test_promised_names_come_from_the_package(name):
    """Every promised name is importable from `batchwright` and listed."""
    assert hasattr(batchwright, name)
    assert name in batchwright.__all__


@pytest.mark.parametrize("name", PUBLIC_MODULES)
def test_public_things_have_docstrings(name):
    """Every public class, function, method and property says what it does."""
    module = importlib.import_module(name)
    bare = [] if inspect.getdoc(module) else [name]
    for entry in public_names(module):
        value = getattr(module, entry)
        if inspect.isfunction(value) and not value.__doc__:
            bare.append(entry)
        if inspect.isclass(value):
            bare += _bare_parts(value)
    assert bare == []


def _bare_parts(cls: type) -> list[str]:
    """Return the class, and those of its own public parts, that have no docstring."""
    bare = [] if cls.__doc__ else [cls.__qualname__]
    for name, part in vars(cls).items():
        if name.startswith("_"):
            continue
        if isinstance(part, classmethod | staticmethod):
            part = part.__func__  # noqa: PLW2901
        documented = inspect.isfunction(part) or isinstance(part, property)
        if documented and not inspect.getdoc(getattr(cls, name)):
            bare.append(f"{cls.__qualname__}.{name}")
    return bare


def test_every_name_is_used_under_type_checkers(root):
    """A new public name is shown in use to the type checkers."""
    tree = ast.parse((root / "tests" / "typing" / "api.py").read_text("utf-8"))
    used = {
        alias.name
        for node in tree.body
        if isinstance(node, ast.ImportFrom) and node.module == "batchwright"
        for alias in node.names
    }
    assert sorted(set(batchwright.__all__) - used) == []


def test_options_are_keyword_only():
    """`BatchRunner` takes its options by name only, so that new ones can come in any order."""
    parameters = list(inspect.signature(batchwright.BatchRunner).parameters.values())
    assert {p.kind for p in parameters} == {inspect.Parameter.KEYWORD_ONLY}


def test_typed_marker_is_shipped():
    """Type checkers of users see our annotations."""
    assert importlib.resources.files("batchwright").joinpath("py.typed").is_file()


@pytest.mark.parametrize("name", ["batchwright", "batchwright.testing.pytest_plugin"])
def test_import_needs_no_extra(name):
    """The library, and the plugin that pytest loads in every project, need no extra packages."""
    extras = ["typer", "rich", "starlette", "uvicorn", "httptools", "pytest_asyncio"]
    extras += ["pandas", "polars", "opentelemetry.sdk", "psycopg"]
    code = f"import sys\nfor name in {extras!r}: sys.modules[name] = None\nimport {name}\n"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_a_runner_loads_only_what_it_begins_with():
    """What plans, reports and prices is loaded when it is asked for: beginning a run is quick."""
    late = ("batchwright.report", "batchwright._plan", "batchwright.cli", "genai_prices")
    code = "import sys\nfrom batchwright import BatchRunner\nBatchRunner()\nprint(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert [name for name in done.stdout.split() if name.startswith(late)] == []
