"""An error of the API, as the world raises it and the wire carries it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


class ApiProblem(Exception):
    """A request the API refuses.

    Attributes:
        status: HTTP status.
        type: `error.type` of the envelope.
        message: `error.message` of the envelope.
        details: `error.details`, mostly `{"error_code": ...}`, or None.
        headers: Extra response headers such as `retry-after`.
    """

    def __init__(
        self,
        status: int,
        type: str,  # noqa: A002 - the API's own word
        message: str,
        *,
        error_code: str | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.type = type
        self.message = message
        self.details: dict[str, str] | None = {"error_code": error_code} if error_code else None
        self.headers: dict[str, str] = dict(headers or {})

    def envelope(self, request_id: str | None) -> dict[str, Any]:
        """Return the JSON body of the answer."""
        return envelope(self.type, self.message, self.details, request_id)


def envelope(
    type: str,  # noqa: A002 - the API's own word
    message: str,
    details: Mapping[str, Any] | None,
    request_id: str | None,
) -> dict[str, Any]:
    """Return the API's error envelope; `details` is left out when there are none."""
    error: dict[str, Any] = {"type": type, "message": message}
    if details is not None:
        error = {"details": dict(details), **error}
    return {"type": "error", "error": error, "request_id": request_id}


def invalid(message: str, *, error_code: str | None = None) -> ApiProblem:
    """Return a 400 of type `invalid_request_error`."""
    return ApiProblem(400, "invalid_request_error", message, error_code=error_code)


def not_found(message: str, headers: Mapping[str, str] | None = None) -> ApiProblem:
    """Return a 404 of type `not_found_error`."""
    return ApiProblem(404, "not_found_error", message, headers=headers)
