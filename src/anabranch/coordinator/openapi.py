"""The coordinator's routes described as OpenAPI 3.1, from the documents that they take and give."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from anabranch.model.document import Document

__all__ = ["Operation", "described"]

_PARAMETER = re.compile(r"{(\w+)}")
_ERROR = {
    "type": "object",
    "properties": {name: {"type": "string"} for name in ("error", "cure", "kind")},
    "required": ["error", "cure", "kind"],
}
_REFUSED = {"description": "Refused, or failed: what, and what to do", "content": {"application/json": {}}}
_BYTES = {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}}


@dataclass(frozen=True)
class Operation:
    """A method on a path. ``takes`` and ``gives`` are documents, bytes, or None: nothing that is described.

    ``query``: its parameters, each with its type in JSON Schema.
    """

    method: str
    path: str
    summary: str
    endpoint: Callable[[Request], Awaitable[Response]]
    takes: type[Document] | type[bytes] | None = None
    gives: type[Document] | type[bytes] | None = None
    query: tuple[tuple[str, str], ...] = ()


def described(operations: Sequence[Operation], version: str) -> dict[str, Any]:
    """The description of these operations."""
    documents = {kind for each in operations for kind in (each.takes, each.gives) if kind not in (None, bytes)}
    ordered = sorted(documents, key=lambda kind: kind.__name__)
    template = "#/components/schemas/{name}"
    _, schemas = msgspec.json.schema_components(
        ordered, ref_template=template, schema_hook=lambda _: {"type": "object"}
    )
    for schema in schemas.values():  # what isn't known is kept
        schema.pop("additionalProperties", None)
        schema.get("properties", {}).pop("extra", None)
    paths: dict[str, Any] = {}
    for each in operations:
        paths.setdefault(each.path, {})[each.method.lower()] = _operation(each)
    return {
        "openapi": "3.1.0",
        "info": {"title": "anabranch coordinator", "version": version},
        "paths": paths,
        "components": {
            "schemas": {**schemas, "Error": _ERROR},
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
        "security": [{"token": []}],
    }


def _operation(each: Operation) -> dict[str, Any]:
    names = _PARAMETER.findall(each.path)
    parameters = [{"name": name, "in": "path", "required": True, "schema": {"type": "string"}} for name in names]
    parameters += [{"name": name, "in": "query", "schema": {"type": kind}} for name, kind in each.query]
    error = {"application/json": {"schema": {"$ref": "#/components/schemas/Error"}}}
    found: dict[str, Any] = {
        "summary": each.summary,
        "parameters": parameters,
        "responses": {
            "200": {"description": "Done", "content": _content(each.gives)},
            "default": {**_REFUSED, "content": error},
        },
    }
    if each.takes is not None:
        found["requestBody"] = {"required": True, "content": _content(each.takes)}
    if each.path == "/healthz":
        found["security"] = []
    return found


def _content(kind: type[Document] | type[bytes] | None) -> dict[str, Any]:
    if kind is bytes:
        return _BYTES
    schema = {} if kind is None else {"$ref": f"#/components/schemas/{kind.__name__}"}
    return {"application/json": {"schema": schema}}
