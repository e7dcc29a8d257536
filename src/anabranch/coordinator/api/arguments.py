"""Reads the arguments of an operation from an HTTP request."""

from __future__ import annotations

import math
from typing import Any

from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request

from anabranch.coordinator.api.audit import DRY
from anabranch.coordinator.api.operation import Operation, Parameter
from anabranch.errors import UsageError
from anabranch.model.document import Document, decode

__all__ = ["arguments_of"]

_SHORT = 40


async def arguments_of(operation: Operation[..., Any], request: Request) -> list[Any]:
    """The arguments that a request gives for an operation, in the order of the operation's signature.

    An operation that changes something never ignores what a client asks for: an operation without a body refuses
    any body, and each operation refuses query parameters that it doesn't know. A container can be newer than its
    coordinator, so unknown fields of a document are accepted, except ``dry``. To extend an operation that containers
    use, therefore add fields to the operation's documents, not query parameters.

    Raises:
        UsageError: a parameter is missing or has a wrong value, or the operation refuses what the request contains.
        UnsupportedFormatError: the body isn't the operation's document.
        HTTPException: the body is too large, or the client left before the body was complete.
    """
    found = {each.name: _argument(each, request) for each in operation.parameters if each.in_path}
    if operation.changes:
        _check_query(operation, request)
        content = await _body(request, operation.max_bytes)
        if operation.body is not None:
            found[operation.body] = body = _read(operation, content)
            request.scope[DRY] = bool(getattr(body, "dry", False))
        elif content:
            raise UsageError(
                f"{operation.method} {operation.path} takes no body, and has no dry run", "send it without a body"
            )
    found |= {each.name: _argument(each, request) for each in operation.parameters if not each.in_path}
    return [found[name] for name in operation.signature.parameters]


def _read(operation: Operation[..., Any], content: bytes) -> Document | bytes:
    kind = operation.request
    if kind is None or not issubclass(kind, Document):
        return content
    body = decode(content, kind)
    if "dry" in (body.extra or {}):
        raise UsageError(f"{operation.method} {operation.path} has no dry run", "send it without the field dry")
    return body


def _check_query(operation: Operation[..., Any], request: Request) -> None:
    known = [each.sent_as for each in operation.parameters if not each.in_path]
    for name in request.query_params:
        if name not in known:
            raise UsageError(
                f"{operation.method} {operation.path} has no query parameter {name[:_SHORT]!r}",
                f"it has {', '.join(known)}" if known else "send it without a query",
            )


def _argument(parameter: Parameter, request: Request) -> Any:
    name = parameter.sent_as
    if parameter.in_path:
        return request.path_params[name]
    if parameter.kind is str:
        text = request.query_params.get(name, "" if parameter.required else parameter.default)
        if parameter.required and not text:
            raise UsageError(f"{name} is missing", f"ask with ?{name}={parameter.example}")
        return text[: parameter.longest]
    number = _number(request, name, float(parameter.default))
    return number > 0 if parameter.kind is bool else parameter.kind(number)


def _number(request: Request, name: str, default: float) -> float:
    text = request.query_params.get(name, str(default))
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not 0 <= number < math.inf:
        raise UsageError(f"{name} is {text[:40]!r}", "give a number that isn't negative")
    return number


async def _body(request: Request, most: int) -> bytes:
    """The body of a request. Raises HTTPException 413 if it is too large."""
    read = bytearray()
    try:
        async for piece in request.stream():
            read += piece
            if len(read) > most:
                raise HTTPException(413, f"more than {most} bytes")
    except ClientDisconnect:
        raise HTTPException(400, f"the client left after {len(read)} bytes of the body") from None
    return bytes(read)
