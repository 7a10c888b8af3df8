"""
From one result line to what it means for its item: pure.

A results file is JSONL in arbitrary order; the line's `custom_id` alone says whose it is.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from batchwright._faults import LineFault, classify_line
from batchwright._json import dump_json, load_json
from batchwright._records import record
from batchwright.store import ItemState, Member, Settlement
from batchwright.types import TRUNCATED_STOPS, ItemError, Tokens

NEWLINE = b"\n"

#: Named once: to look a member up in its enum takes long in some versions of Python.
_SUCCEEDED = ItemState.SUCCEEDED
#: Where an answer tells its tokens, in the order of the fields of `Tokens`.
_USED = (
    "input_tokens",
    "output_tokens",
    "cache_creation_input_tokens",
    "cache_read_input_tokens",
)


class LineSplitter:
    """
    Cuts a byte stream into lines at 0x0A and nowhere else.

    Answers may hold U+2028, U+0085 and other characters that text splitters take for line ends,
    and a chunk may end inside a character: only bytes are looked at. Memory follows the longest
    line, not the file.
    """

    def __init__(self) -> None:
        self._pieces: list[bytes] = []

    def feed(self, chunk: bytes) -> Iterator[bytes]:
        """Yield the lines that *chunk* completes, without their ends; blank ones are dropped."""
        first, *others = chunk.split(NEWLINE)
        self._pieces.append(first)
        if not others:
            return
        begun, self._pieces = self._pieces, [others.pop()]
        for line in (b"".join(begun), *others):
            if line and not line.isspace():
                yield line

    def rest(self) -> bytes:
        """Return what stood after the last line end: a last line without one, or a torn one."""
        return b"".join(self._pieces)


@record
class Line:
    """
    One result line, taken apart.

    Attributes:
        custom_id: Whose it is.
        type: `succeeded`, `errored`, `canceled`, `expired`, or one this version does not know.
        raw: Bytes of the result object, as received.
        message: The message of a succeeded line.
        error: The inner error of an errored line.
    """

    custom_id: str
    type: str
    raw: bytes
    message: dict[str, Any] | None = None
    error: ItemError | None = None


def parse_line(line: bytes) -> Line | None:
    """Return the line taken apart, or `None` where it is no result line (torn, or not JSON)."""
    try:
        data = load_json(line)
    except (ValueError, RecursionError):
        return None
    result = data.get("result") if isinstance(data, dict) else None
    if not isinstance(result, dict) or not isinstance(data.get("custom_id"), str):
        return None
    custom_id: str = data["custom_id"]
    kind = result.get("type")
    message = result.get("message")
    return Line(
        custom_id=custom_id,
        type=kind if isinstance(kind, str) else "",
        raw=_result_bytes(line, custom_id, data),
        message=message if isinstance(message, dict) else None,
        error=error_of(result.get("error")) if kind == "errored" else None,
    )


def _result_bytes(line: bytes, custom_id: str, data: dict[str, Any]) -> bytes:
    """Return the result object's own bytes where the line has its usual form, else rewritten."""
    head = b'{"custom_id":"' + custom_id.encode("utf-8", "backslashreplace") + b'","result":'
    line = line.strip()
    if len(data) == 2 and line.startswith(head) and line.endswith(b"}"):
        return line[len(head) : -1].strip()
    return dump_json(data["result"])


def error_of(error: Any) -> ItemError:
    """
    Return the error that matters.

    In a result line it sits in an envelope of its own (`error.error`); a flattened form without
    the envelope is understood too.
    """
    if not isinstance(error, dict):
        return ItemError(type="unknown_error", message="the line names no error")
    inner = error.get("error")
    inner = inner if isinstance(inner, dict) else error
    details = inner.get("details")
    code = details.get("error_code") if isinstance(details, dict) else None
    request_id = error.get("request_id") or inner.get("request_id")
    return ItemError(
        type=str(inner.get("type") or "unknown_error"),
        message=str(inner.get("message") or "no message given"),
        request_id=request_id if isinstance(request_id, str) else None,
        code=code if isinstance(code, str) else None,
    )


def tokens_of(message: Mapping[str, Any]) -> Tokens:
    """Return the token counts of an answer; absent ones are zero."""
    usage = message.get("usage")
    if not isinstance(usage, dict):
        return Tokens()
    return Tokens(*[n if isinstance(n, int) else 0 for n in map(usage.get, _USED)])


def flag_of(message: Mapping[str, Any]) -> str:
    """Return `truncated`, `refused` or nothing: `succeeded` does not mean complete."""
    stop = message.get("stop_reason")
    if not isinstance(stop, str):
        return ""
    if stop in TRUNCATED_STOPS:
        return "truncated"
    return "refused" if stop == "refusal" else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """
    What a line is read under.

    Attributes:
        org: Label of the org whose batch it is.
        batch_id: The batch.
        cancel: Who asked for its cancel, or empty.
        max_attempts: Tries of one item.
        charge: What this try costs: 0 where it was charged already when the batch was held.
    """

    org: str
    batch_id: str | None
    cancel: str
    max_attempts: int
    charge: int = 1


def settle_line(line: Line, member: Member, reading: Reading) -> Settlement:
    """Return what *line* means for the item it belongs to, before the caller's `validate`."""
    if line.type == "succeeded" and line.message is not None:
        return _answered(line, member, reading)
    if line.type == "errored":
        return _errored(line, member, reading)
    if line.type == "canceled":
        return _canceled(line, member, reading)
    if line.type == "expired":
        error = ItemError(type="expired", message="the batch expired before this request was sent")
        return _again(line, member, reading, error)
    error = ItemError(
        type="unknown_result", message=f"a result of type {line.type!r}, which is not known"
    )
    return _odd(line, member, reading, error)


def _answered(line: Line, member: Member, reading: Reading) -> Settlement:
    message = line.message or {}
    return Settlement(
        seq=member.seq,
        state=_SUCCEEDED,
        charge=reading.charge,
        org=reading.org,
        batch_id=reading.batch_id,
        raw=line.raw,
        tokens=tokens_of(message),
        model=str(message.get("model") or ""),
        flag=flag_of(message),
    )


def _errored(line: Line, member: Member, reading: Reading) -> Settlement:
    error = line.error or error_of(None)
    fault = classify_line(error.type, error.code, error.message)
    if fault is LineFault.ITEM:
        return _unanswered(line, member, reading, ItemState.QUARANTINED, error.type, error)
    if fault is LineFault.ACCOUNT:
        return _unanswered(line, member, reading, ItemState.PENDING, "account", error, charge=0)
    if fault is LineFault.ODD:
        return _odd(line, member, reading, error)
    return _again(line, member, reading, error)


def _canceled(line: Line, member: Member, reading: Reading) -> Settlement:
    error = ItemError(
        type="canceled", message="the batch was canceled before this request was sent"
    )
    if reading.cancel == "user":
        state = ItemState.UNRESOLVED
        return _unanswered(line, member, reading, state, "canceled", error, charge=0)
    if reading.cancel == "overdue":
        # It had its day already; another one is a person's decision.
        return _unanswered(line, member, reading, ItemState.UNRESOLVED, "overdue", error)
    if reading.cancel == "drain":
        return _unanswered(line, member, reading, ItemState.PENDING, None, error, charge=0)
    return _again(line, member, reading, error)


def _again(line: Line, member: Member, reading: Reading, error: ItemError) -> Settlement:
    """Return another try, or `exhausted` where this was the last one."""
    if member.used + reading.charge < reading.max_attempts:
        return _unanswered(line, member, reading, ItemState.PENDING, error.type, error)
    return _unanswered(line, member, reading, ItemState.UNRESOLVED, "exhausted", error)


def _odd(line: Line, member: Member, reading: Reading, error: ItemError) -> Settlement:
    """Return another try, or the quarantine where this was the last one."""
    if member.used + reading.charge < reading.max_attempts:
        return _unanswered(line, member, reading, ItemState.PENDING, error.type, error)
    return _unanswered(line, member, reading, ItemState.QUARANTINED, error.type, error)


def _unanswered(
    line: Line,
    member: Member,
    reading: Reading,
    state: ItemState,
    reason: str | None,
    error: ItemError,
    *,
    charge: int | None = None,
) -> Settlement:
    return Settlement(
        seq=member.seq,
        state=state,
        reason=reason,
        error=error,
        charge=reading.charge if charge is None else charge,
        org=reading.org,
        batch_id=reading.batch_id,
        raw=line.raw,
    )
