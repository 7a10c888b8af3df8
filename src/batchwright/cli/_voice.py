"""
What the commands say, and where: results on stdout, everything else on stderr.
"""

from __future__ import annotations

import contextlib
import logging
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TextIO

import orjson

from batchwright.cli._exits import Stumble, scrub

_LINE = "%(asctime)s %(levelname)s %(message)s"


def say(text: str = "") -> None:
    """Print a result."""
    _write(sys.stdout, text + "\n")


def tell(text: str = "") -> None:
    """Print news, an error or a hint."""
    _write(sys.stderr, text + "\n")


def say_json(value: Mapping[str, Any]) -> None:
    """Print the one JSON object of a command that was asked for one."""
    options = orjson.OPT_INDENT_2 | orjson.OPT_NON_STR_KEYS
    _write(sys.stdout, orjson.dumps(value, default=str, option=options).decode() + "\n")


def _write(stream: TextIO, text: str) -> None:
    # A terminal that was closed, or a `| head` that has seen enough, must not end a run.
    try:
        stream.write(text)
        stream.flush()
    except UnicodeEncodeError:
        encoding = stream.encoding or "ascii"
        stream.write(text.encode(encoding, "replace").decode(encoding))
    except OSError:
        _mute(stream)


def _mute(stream: TextIO) -> None:
    with contextlib.suppress(OSError, ValueError):
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, stream.fileno())
        os.close(null)


class _Scrubbed(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        return scrub(super().format(record))


def set_up_logging(*, verbose: bool, log_file: Path | None) -> None:
    """Send the library's log where it was asked for; by default the progress lines stand for it."""
    log = logging.getLogger("batchwright")
    log.propagate = False
    log.addHandler(logging.NullHandler())
    if verbose:
        _add(log, logging.StreamHandler(sys.stderr), logging.DEBUG)
    if log_file is not None:
        try:
            _add(log, logging.FileHandler(log_file, encoding="utf-8"), logging.INFO)
        except OSError as error:
            raise Stumble(f"cannot write the log {log_file}: {error.strerror}") from None


def _add(log: logging.Logger, handler: logging.Handler, level: int) -> None:
    handler.setLevel(level)
    handler.setFormatter(_Scrubbed(_LINE))
    log.addHandler(handler)
    log.setLevel(min(level, log.level or level))
