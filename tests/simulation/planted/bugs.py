"""
The planted bugs: what a hurried author of such a library might well have written.

Each is a patch of the library, in force while one scenario is played.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator

BUGS: dict[str, Callable[[], contextlib.ExitStack]] = {}


@contextlib.contextmanager
def plant(name: str) -> Iterator[None]:
    """Put the bug of that name into the library; none for an empty name."""
    if not name:
        yield
        return
    with BUGS[name]():
        yield
