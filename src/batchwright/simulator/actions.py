"""What a scripted server can do instead of, or beside, its normal answer.

Actions are data: a test writes them down, the HTTP face carries them out.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from batchwright.simulator.replies import Reply


@dataclass(frozen=True, slots=True)
class Respond:
    """Answer this and do no work. A dict is sent as JSON, text and bytes as they are."""

    status: int
    body: Mapping[str, Any] | bytes | str = b""
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Error:
    """Answer with the API's error envelope and do no work.

    Attributes:
        status: HTTP status.
        type: `error.type`; None is the API's type of that status.
        message: `error.message`.
        error_code: `error.details.error_code`, left out when None.
        retry_after: Seconds, or the text of an HTTP date.
        headers: Further headers.
        after: Do the work first: the batch exists although the answer says otherwise.
    """

    status: int
    type: str | None = None
    message: str = "Scripted by the simulator"
    error_code: str | None = None
    retry_after: float | str | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    after: bool = False


@dataclass(frozen=True, slots=True)
class Raise413:
    """Refuse the body as too large, as the edge (HTML) or as the API (JSON) would."""

    html: bool = True


@dataclass(frozen=True, slots=True)
class Delay:
    """Wait real seconds, before or after the work, then go on with `then` if given."""

    seconds: float
    then: Action | None = None
    when: Literal["before", "after"] = "before"


@dataclass(frozen=True, slots=True)
class Drop:
    """Break the connection without an answer.

    Attributes:
        when: `before`: nothing was done. `after`: the work was done, nobody learns of it.
        reset: TCP reset instead of an orderly close.
    """

    when: Literal["before", "after"] = "before"
    reset: bool = False


@dataclass(frozen=True, slots=True)
class Hang:
    """Do the work (or not) and never answer, until the client gives up."""

    after: bool = True


@dataclass(frozen=True, slots=True)
class Mutate:
    """Let a function change the normal answer.

    It gets the `Reply` (`status`, `headers`, `body` as a JSON value, `lines`) and changes it
    in place, or returns another one.
    """

    change: Callable[[Reply], Reply | object]


@dataclass(frozen=True, slots=True)
class CutBody:
    """Break the connection in the middle of the answer's body.

    Attributes:
        after_bytes: Bytes of body that still go out.
        after_lines: Whole lines that still go out; one of the two has to be given.
        mid_line: With `after_lines`: half of the next line goes out as well.
        framing: `chunked` and `length` let the client notice; `close` does not: the end of
            the connection is the end of the body.
        reset: TCP reset instead of an orderly close.
    """

    after_bytes: int | None = None
    after_lines: int | None = None
    mid_line: bool = True
    framing: Literal["chunked", "close", "length"] = "chunked"
    reset: bool = False

    def __post_init__(self) -> None:
        """Insist on exactly one measure."""
        if (self.after_bytes is None) == (self.after_lines is None):
            raise ValueError("give after_bytes or after_lines")


@dataclass(frozen=True, slots=True)
class ChunkSize:
    """Send the body in HTTP chunks of `size` bytes, wherever that cuts it."""

    size: int


@dataclass(frozen=True, slots=True)
class Slow:
    """Wait real seconds between the pieces of the body."""

    seconds: float
    size: int = 1024


@dataclass(frozen=True, slots=True)
class Gzip:
    """Send the body with `content-encoding: gzip`."""


@dataclass(frozen=True, slots=True)
class NoContentType:
    """Leave `content-type` out, as results did before August 2026."""


@dataclass(frozen=True, slots=True)
class Lines:
    """Replace the result lines.

    Attributes:
        lines: Bytes go out as they are (with their own newline, or none), dicts as JSON and
            a newline; a callable gets the normal lines and returns others.
    """

    lines: Sequence[bytes | Mapping[str, Any]] | Callable[[list[bytes]], Sequence[bytes]]


@dataclass(frozen=True, slots=True)
class All:
    """Several actions on one call, such as a delay and a broken body."""

    actions: tuple[Action, ...]

    def __init__(self, *actions: Action) -> None:
        object.__setattr__(self, "actions", actions)


Action = (
    Respond
    | Error
    | Raise413
    | Delay
    | Drop
    | Hang
    | Mutate
    | CutBody
    | ChunkSize
    | Slow
    | Gzip
    | NoContentType
    | Lines
    | All
)


def flatten(action: Action | None) -> list[Action]:
    """Return the single actions in order."""
    if action is None:
        return []
    if isinstance(action, All):
        return [single for part in action.actions for single in flatten(part)]
    if isinstance(action, Delay) and action.then is not None:
        return [Delay(action.seconds, when=action.when), *flatten(action.then)]
    return [action]
