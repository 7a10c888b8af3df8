"""
The command line: `batchwright run`, `resume`, `status`, and what belongs to them.
"""

from __future__ import annotations

import importlib.util
import sys

__all__ = ["main"]

#: What the extra `cli` installs and the commands cannot do without.
_NEEDED = ("typer", "rich", "starlette", "uvicorn")


def main() -> None:
    """Run the command line; the console script's entry point."""
    if any(importlib.util.find_spec(name) is None for name in _NEEDED):
        print(
            'the command line needs more packages: pip install "batchwright[cli]"', file=sys.stderr
        )
        sys.exit(2)
    try:
        # Imported only now, so that a missing extra is one line and not a traceback.
        from batchwright.cli._app import start  # noqa: PLC0415
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        sys.exit(130)
    start()
