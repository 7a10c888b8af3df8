"""Settings of the documentation site; built with warnings as errors."""

from __future__ import annotations

import re
import sys
import tomllib
from pathlib import Path
from typing import Any

_project = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text("utf-8"))

project = "batchwright"
author = "the batchwright maintainers"
project_copyright = author
release = version = _project["project"]["version"]

sys.path.insert(0, str(Path(__file__).parent / "_ext"))
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
extensions += ["commands", "reports"]
exclude_patterns = ["_build"]
myst_enable_extensions = ["colon_fence", "deflist"]
myst_heading_anchors = 3

html_theme = "furo"
html_title = f"batchwright {release}"
html_copy_source = False

# Docstrings write `names` in single backticks: a link where the name is known, code elsewhere.
default_role = "py:obj"
autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_typehints_format = "short"
autodoc_preserve_defaults = True
napoleon_google_docstring = True
napoleon_numpy_docstring = False
napoleon_use_ivar = True

MADE_BY_US = {
    "batchwright.RunResult",
    "batchwright.RunReport",
    "batchwright.RunStatus",
    "batchwright.stream.OutcomeStream",
}


def _as_rest(_app: Any, _what: str, _name: str, _obj: Any, _options: Any, lines: list[str]) -> None:
    """
    Turn what docstrings borrow from Markdown into reStructuredText.

    That is `*expect*ed` and "`Item`s", where the marked word has to stand alone, and fenced code.
    """
    fenced = False
    done: list[str] = []
    for line in lines:
        if line.strip().startswith("```"):
            fenced = not fenced
            done += ["", f".. code-block:: {line.strip()[3:]}", ""] if fenced else [""]
        elif fenced:
            done.append("   " + line)
        else:
            done.append(re.sub(r"(?<!\*)(\*\w+\*)(?=\w)|(`[\w.]+`)(?=s\b)", r"\g<0>\\ ", line))
    lines[:] = done


def _made_by_us(_app: Any, _what: str, name: str, *_: Any) -> tuple[str, None] | None:
    """Hide how a thing is made that only the library makes."""
    return ("", None) if name in MADE_BY_US else None


def setup(app: Any) -> None:
    """Connect what is above; called by Sphinx."""
    # Before napoleon, which reads sections out of what is left.
    app.connect("autodoc-process-docstring", _as_rest, priority=400)
    app.connect("autodoc-process-signature", _made_by_us)
