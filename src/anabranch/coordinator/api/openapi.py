"""Describes the table of operations as OpenAPI 3.1, including the documents that the operations take and return."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, get_args, get_origin

import msgspec

from anabranch.coordinator.api.operation import Operation, Parameter
from anabranch.model.document import Document

__all__ = ["described"]

_ERROR = {
    "type": "object",
    "properties": {name: {"type": "string"} for name in ("error", "cure", "kind")},
    "required": ["error", "cure", "kind"],
}
_REFUSED = {"description": "Refused, or failed: what, and what to do", "content": {"application/json": {}}}
_BYTES = {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}}
_KINDS = {str: "string", float: "number", int: "integer", bool: "integer"}  # a bool is sent as 0 or 1


def described(operations: Sequence[Operation[..., Any]], version: str) -> dict[str, Any]:
    """The OpenAPI description of these operations."""
    kinds = {kind for each in operations for kind in (each.request, _document(each.result))}
    documents = sorted(
        (kind for kind in kinds if isinstance(kind, type) and issubclass(kind, Document)),
        key=lambda kind: kind.__name__,
    )
    template = "#/components/schemas/{name}"
    _, schemas = msgspec.json.schema_components(
        documents, ref_template=template, schema_hook=lambda _: {"type": "object"}
    )
    # Unknown fields are allowed: ``extra`` keeps them, and isn't a field in JSON itself.
    for schema in schemas.values():
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
    }


def _operation(each: Operation[..., Any]) -> dict[str, Any]:
    error = {"application/json": {"schema": {"$ref": "#/components/schemas/Error"}}}
    found: dict[str, Any] = {
        "operationId": each.name,
        "summary": each.summary,
        "security": _security(each),
        "parameters": [_parameter(parameter) for parameter in each.parameters],
        "responses": {
            "200": {"description": "Done", "content": _content(each.result, each.field)},
            "default": {**_REFUSED, "content": error},
        },
    }
    if each.request is not None:
        found["requestBody"] = {"required": True, "content": _content(each.request)}
    return found


def _security(each: Operation[..., Any]) -> list[dict[str, list[str]]]:
    if each.path == "/healthz":
        return []
    return [{"token": ["operate" if each.private else "read"]}]


def _parameter(each: Parameter) -> dict[str, Any]:
    schema = {"type": _KINDS[each.kind]}
    if each.in_path or each.required:
        return {"name": each.sent_as, "in": "path" if each.in_path else "query", "required": True, "schema": schema}
    return {"name": each.sent_as, "in": "query", "schema": schema}


def _document(kind: Any) -> Any:
    return kind if get_origin(kind) is None else get_args(kind)[-1]


def _is_document(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, Document)


def _content(kind: Any, field: str = "") -> dict[str, Any]:
    if kind is bytes:
        return _BYTES
    if kind is str:
        return {"text/plain": {"schema": {"type": "string"}}}
    one = _document(kind)
    schema: dict[str, Any] = {}
    if _is_document(one):
        schema = {"$ref": f"#/components/schemas/{one.__name__}"}
    if get_origin(kind) is not None and schema:
        schema = {"type": "array", "items": schema}
    if field:
        value = schema or {"type": "boolean" if kind is bool else "integer"}
        schema = {"type": "object", "properties": {field: value}, "required": [field]}
    return {"application/json": {"schema": schema}}
