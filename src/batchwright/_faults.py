"""
The one table of faults: pure, by status and code before wording.

Three kinds are told apart. The item's fault is quarantined; the moment's is tried again with
backoff; the account's pauses the org, keeps its items waiting, and is never bisected. For a create
there is a fourth: its fate may be unknown, and then it is never sent again blindly.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum

_TYPE_OF_STATUS = {401: "authentication_error", 402: "billing_error", 403: "permission_error"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """
    What one API call that did not succeed looked like.

    Attributes:
        call: `create`, `retrieve`, `list`, `results`, `cancel`, `message`, …
        status: HTTP status; `None` where no answer came.
        type: The API's error type, where the body was its error envelope.
        code: Its `error_code`.
        message: Its text, or the transport's.
        request_id: The API's request id.
        retry_after: Seconds the server asked to wait.
        sent: Whether a byte of the request may have reached the server.
        refused_unsent: The client itself refused (no credential, say); nothing was sent.
    """

    call: str
    status: int | None = None
    type: str | None = None
    code: str | None = None
    message: str = ""
    request_id: str | None = None
    retry_after: float | None = None
    sent: bool = True
    refused_unsent: bool = False

    @property
    def envelope(self) -> bool:
        """Whether the API itself answered, in its own error shape."""
        return self.type is not None

    @property
    def kind(self) -> str | None:
        """The API's error type, or the one that goes with what a proxy or the client said."""
        if self.type is not None or self.status is None:
            return "authentication_error" if self.refused_unsent else self.type
        return _TYPE_OF_STATUS.get(self.status)

    def _head(self) -> str:
        if self.status is not None:
            return f"HTTP {self.status}"
        return "not sent" if self.refused_unsent else "no answer"

    def __str__(self) -> str:
        parts = [
            self._head(),
            self.type or "",
            f"({self.code})" if self.code else "",
        ]
        head = " ".join(part for part in parts if part)
        tail = f" [{self.request_id}]" if self.request_id else ""
        return f"{head}: {self.message}{tail}" if self.message else head + tail


class Fault(StrEnum):
    """What kind of fault a failed call is, that is, what follows from it."""

    #: Certainly not done; do it again after a while.
    MOMENT = "moment"
    #: The server is full or too busy and said so: certainly not done; wait for room.
    BUSY = "busy"
    #: The account may not: pause the org.
    ACCOUNT = "account"
    #: The body as a whole was refused because of something in it.
    ENVELOPE = "envelope"
    #: The body is larger than this server or a proxy before it takes.
    TOO_LARGE = "too_large"
    #: No such thing, not yet visible, gone, or another credential's.
    NOT_FOUND = "not_found"
    #: A create that may exist: look it up, never repeat it.
    UNKNOWN = "unknown"


#: Error codes by which the account itself is stopped until somebody acts.
ACCOUNT_CODES = frozenset(
    {
        "claude_code_key_creator_not_member",
        "cmek_key_disabled",
        "contract_spend_limit_reached",
        "enforced_spend_limit_reached",
        "organization_on_hold",
        "workspace_human_review_disabled",
    }
)

#: Error types that are the account's, over HTTP and inside result lines.
ACCOUNT_TYPES = frozenset({"authentication_error", "billing_error", "permission_error"})

# Wording comes last and only where the API gives neither status nor code: self-set spend limits
# and an empty credit balance arrive as a plain invalid_request_error.
_ACCOUNT_WORDS = re.compile(
    r"credit balance|specified (workspace )?api usage limits|spend(ing)? limit|plans & billing"
    r"|organization (has been|is) (disabled|on hold)",
    re.IGNORECASE,
)


def is_account_fault(type_: str | None, code: str | None, message: str) -> bool:
    """Tell whether an error of the API is the account's: by code, then type, then wording."""
    if code is not None:
        return code in ACCOUNT_CODES
    if type_ in ACCOUNT_TYPES:
        return True
    return type_ in {"invalid_request_error", "rate_limit_error"} and bool(
        _ACCOUNT_WORDS.search(message)
    )


def classify(failure: Failure) -> Fault:
    """Return the kind of *failure*; creates are judged more carefully than calls that repeat."""
    if failure.refused_unsent:
        return Fault.ACCOUNT
    status = failure.status
    if status is None:
        return _unanswered(failure)
    if status in {401, 402, 403} or is_account_fault(failure.type, failure.code, failure.message):
        return Fault.ACCOUNT
    if status == 413:
        return Fault.TOO_LARGE
    if status in {429, 529}:
        return _busy(failure)
    if failure.call == "create":
        return _create_refused(failure)
    if status == 404:
        return Fault.NOT_FOUND
    # A cancel that conflicts with what the batch is by now will go on doing so.
    definite = {400, 409, 422} if failure.call == "cancel" else {400, 422}
    return Fault.ENVELOPE if status in definite else Fault.MOMENT


def _unanswered(failure: Failure) -> Fault:
    if failure.call == "create" and failure.sent:
        return Fault.UNKNOWN
    return Fault.MOMENT


def _busy(failure: Failure) -> Fault:
    # Only the API's own envelope proves that the API, and not something on the way, refused.
    if failure.call == "create" and not failure.envelope:
        return Fault.UNKNOWN
    return Fault.BUSY


def _create_refused(failure: Failure) -> Fault:
    status = failure.status or 0
    if status in {400, 422}:
        return Fault.ENVELOPE
    if status == 409:
        return Fault.MOMENT if failure.envelope else Fault.UNKNOWN
    if 400 <= status < 500 and status != 408:
        # 404, 405 and the like: this base URL or this account has no Batches API.
        return Fault.ACCOUNT
    return Fault.UNKNOWN


class LineFault(StrEnum):
    """What kind of fault an errored result line is."""

    #: The item's own: quarantine, never retry.
    ITEM = "item"
    #: The moment's: try again within the item's budget.
    MOMENT = "moment"
    #: The account's: the item waits, uncharged.
    ACCOUNT = "account"
    #: A type this version does not know: try again within the budget, then quarantine.
    ODD = "odd"


_ITEM_TYPES = frozenset({"invalid_request_error", "not_found_error", "request_too_large"})
_MOMENT_TYPES = frozenset(
    {"api_error", "overloaded_error", "rate_limit_error", "timeout_error", "conflict_error"}
)


def classify_line(type_: str, code: str | None, message: str) -> LineFault:
    """
    Return the kind of an errored line.

    Anthropic's rule: `invalid_request_error` needs its body fixed before sending again, other
    errors may be sent again as they are. A spend limit or an empty credit balance can hide behind
    `invalid_request_error`, and an unknown model comes as `not_found_error`.
    """
    if is_account_fault(type_, code, message):
        return LineFault.ACCOUNT
    if type_ in _ITEM_TYPES:
        return LineFault.ITEM
    return LineFault.MOMENT if type_ in _MOMENT_TYPES else LineFault.ODD


_INDEX = re.compile(r"\brequests[.\[](\d+)\b")


def named_index(message: str) -> int | None:
    """Return the 0-based index of the request that an envelope error names, if it names one."""
    found = _INDEX.search(message)
    return int(found.group(1)) if found else None
