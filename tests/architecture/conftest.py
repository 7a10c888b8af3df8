"""The source tree as the architecture tests see it: parsed once."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "batchwright"


@dataclass(frozen=True, slots=True)
class Module:
    """One module of the package; `imports` are those made at run time."""

    name: str
    path: Path
    text: str
    tree: ast.Module
    imports: frozenset[str]

    @property
    def unit(self) -> str:
        """The file or folder of the package's top level that it belongs to."""
        return [*self.name.split("."), "__init__"][1]


@pytest.fixture(scope="session")
def modules() -> dict[str, Module]:
    """Every module of the package by its dotted name."""
    paths = {_name(path): path for path in sorted(SOURCE.rglob("*.py"))}
    return {name: _read(name, path, frozenset(paths)) for name, path in paths.items()}


@pytest.fixture(scope="session")
def root() -> Path:
    """The top of the repository."""
    return ROOT


def _name(path: Path) -> str:
    parts = ("batchwright", *path.relative_to(SOURCE).with_suffix("").parts)
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def _read(name: str, path: Path, known: frozenset[str]) -> Module:
    text = path.read_text("utf-8")
    tree = ast.parse(text, str(path))
    imports = frozenset(_imports(tree, name, path, known))
    return Module(name, path, text, tree, imports)


def _imports(tree: ast.Module, name: str, path: Path, known: frozenset[str]) -> Iterator[str]:
    package = name if path.name == "__init__.py" else name.rpartition(".")[0]
    for node in _run_time(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                up = package.split(".")[: len(package.split(".")) - node.level + 1]
                base = ".".join([*up, base] if base else up)
            for alias in node.names:
                # `from batchwright import x` means the module x where there is one.
                inner = f"{base}.{alias.name}"
                yield inner if inner in known or not base.startswith("batchwright") else base


def _run_time(node: ast.AST) -> Iterator[ast.AST]:
    """Yield all nodes but those under `if TYPE_CHECKING:`."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test):
            for other in child.orelse:
                yield other
                yield from _run_time(other)
            continue
        yield child
        yield from _run_time(child)
