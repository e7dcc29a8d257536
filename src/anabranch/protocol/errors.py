"""Errors as HTTP responses, for the server and the client."""

from __future__ import annotations

from typing import Any

from anabranch import errors
from anabranch.errors import (
    AnabranchError,
    ConflictError,
    NotFoundError,
    NotLeadingError,
    StateError,
    StoreUnavailableError,
    UnsupportedFormatError,
    UsageError,
)

__all__ = ["SERVICE", "error_of", "is_payload", "payload_of", "status_of"]

SERVICE = "anabranch"
_STATUSES: dict[int, type[AnabranchError]] = {
    400: UsageError,
    404: NotFoundError,
    409: ConflictError,
    503: NotLeadingError,
}


def status_of(error: AnabranchError) -> int:
    """The HTTP status for an error."""
    if isinstance(error, UnsupportedFormatError):
        return 400
    if isinstance(error, StateError):
        return 409
    if isinstance(error, StoreUnavailableError):
        return 503
    return next((status for status, kind in _STATUSES.items() if isinstance(error, kind)), 500)


def payload_of(error: AnabranchError) -> dict[str, str]:
    return {"error": error.what, "cure": error.cure, "kind": type(error).__name__}


def is_payload(body: Any) -> bool:
    """Whether the body of a response is an error of anabranch; see :func:`payload_of`."""
    return isinstance(body, dict) and isinstance(body.get("error"), str)


def error_of(status: int, body: Any) -> AnabranchError:
    """The error in a response: the inverse of :func:`status_of` and :func:`payload_of`. A response that doesn't come
    from anabranch also becomes an error.
    """
    if not is_payload(body):
        return AnabranchError(f"the coordinator answered with status {status}", "see whether the URL is its own")
    kind = _STATUSES.get(status, AnabranchError)
    if body.get("kind") in errors.__all__:
        kind = getattr(errors, body["kind"])
    return kind(body["error"], str(body.get("cure", "")))
