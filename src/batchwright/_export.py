"""
One line per item, in input order: the shape of `OUT.jsonl`.

`{"id", "custom_id", "status", "reason", "via", "org", "batch_id", "attempts", "result", "error"}`,
where `result` is the API's result object exactly as received, and `error` has `type`, `message`
and `request_id`.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import AsyncIterator, Generator, Iterator
from pathlib import Path
from typing import IO, Any

from batchwright._json import dump_json
from batchwright.errors import ConfigurationError
from batchwright.types import Outcome


def line_of(outcome: Outcome) -> bytes:
    """Return the line of one outcome, with its end."""
    error = outcome.error
    head: dict[str, Any] = {
        "id": outcome.id,
        "custom_id": outcome.custom_id,
        "status": outcome.status,
        "reason": outcome.reason,
        "via": outcome.via,
        "org": outcome.org,
        "batch_id": outcome.batch_id,
        "attempts": outcome.attempts,
    }
    told = None
    if error is not None:
        told = {"type": error.type, "message": error.message, "request_id": error.request_id}
    # The result goes through as the bytes that came, so that nothing is lost in between.
    result = outcome.raw if outcome.raw is not None else b"null"
    return b"".join(
        (dump_json(head)[:-1], b',"result":', result, b',"error":', dump_json(told), b"}\n")
    )


class Written(int):
    """How many lines were written; it may be awaited, for code that expects to."""

    def __await__(self) -> Generator[None, None, Written]:
        """Be done at once."""
        yield from ()
        return self


@contextlib.contextmanager
def whole_file(path: str | os.PathLike[str]) -> Iterator[IO[bytes]]:
    """
    Open a temporary file beside *path* that takes its name once everything is written.

    Raises:
        ConfigurationError: The file cannot be created there.
    """
    target = Path(path)
    part = target.with_name(target.name + ".part")
    try:
        file = part.open("wb")
    except OSError as error:
        raise ConfigurationError(
            f"cannot write {target}: {error.strerror or error}; name a file in a folder that "
            "exists and may be written to"
        ) from None
    try:
        with file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        part.replace(target)
    except BaseException:
        part.unlink(missing_ok=True)
        raise


async def write_lines(outcomes: AsyncIterator[Outcome], path: str | os.PathLike[str]) -> int:
    """Write all *outcomes* to *path*, whole or not at all; return their number."""
    count = 0
    with whole_file(path) as file:
        async for outcome in outcomes:
            file.write(line_of(outcome))
            count += 1
    return count
