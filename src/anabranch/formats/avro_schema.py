"""Cuts fields out of an Avro schema."""

from __future__ import annotations

from collections.abc import Mapping, Set
from typing import Any

__all__ = ["cut"]

_NAMED = ("record", "error", "enum", "fixed")
_UNNAMED = ("null", "boolean", "int", "long", "float", "double", "bytes", "string", "array", "map")


def cut(record: Mapping[str, Any], names: Set[str]) -> dict[str, Any]:
    """A record's schema with only the named fields. If a field that is left out defines a named type that other fields
    refer to, the first of these fields contains the definition instead.

    Args:
        record: a valid schema, as parsed JSON.
    """
    definitions: dict[str, Mapping[str, Any]] = {}
    _define(record, "", definitions)
    full = _full(record, "")
    space, rest = full.rpartition(".")[0], _Rest(definitions, {full})
    fields = [{**each, "type": rest.of(each["type"], space)} for each in record["fields"] if each["name"] in names]
    return {**record, "fields": fields}


class _Rest:
    """Makes what is left of a schema, from its first type to its last.

    Args:
        definitions: the definitions of all named types, by full name.
        defined: the full names of the types that what is left defines so far.
    """

    def __init__(self, definitions: Mapping[str, Mapping[str, Any]], defined: set[str]) -> None:
        self._definitions = definitions
        self._defined = defined

    def of(self, schema: Any, space: str) -> Any:
        """The schema of a type, valid at this place. ``space`` is the namespace of the record that contains it."""
        if isinstance(schema, list):
            return [self.of(each, space) for each in schema]
        if isinstance(schema, str):
            return self._reference(schema, schema, space)
        kind = schema["type"]
        if kind in _NAMED:
            full = _full(schema, space)
            return full if full in self._defined else self._definition(schema, full)
        if isinstance(kind, str) and kind not in _UNNAMED:
            return self._reference(kind, schema, space)
        key = _inside(schema)
        return schema if key is None else {**schema, key: self.of(schema[key], space)}

    def _reference(self, name: str, schema: Any, space: str) -> Any:
        if name in _UNNAMED:
            return schema
        full = f"{space}.{name}" if space and "." not in name else name
        full = full if full in self._definitions else name
        if full in self._defined:
            return schema
        space, _, name = full.rpartition(".")
        return self._definition({**self._definitions[full], "name": name, "namespace": space}, full)

    def _definition(self, schema: Mapping[str, Any], full: str) -> Any:
        self._defined.add(full)
        if "fields" not in schema:
            return schema
        space = full.rpartition(".")[0]
        return {**schema, "fields": [{**each, "type": self.of(each["type"], space)} for each in schema["fields"]]}


def _define(schema: Any, space: str, definitions: dict[str, Mapping[str, Any]]) -> None:
    """Add the definitions of all named types in a schema."""
    if isinstance(schema, list):
        for each in schema:
            _define(each, space, definitions)
    elif isinstance(schema, Mapping):
        if schema["type"] in _NAMED:
            full = _full(schema, space)
            definitions[full] = schema
            for each in schema.get("fields", ()):
                _define(each["type"], full.rpartition(".")[0], definitions)
        elif (key := _inside(schema)) is not None:
            _define(schema[key], space, definitions)


def _inside(schema: Mapping[str, Any]) -> str | None:
    """The key of the schema that an unnamed type contains; None if the type contains none."""
    kind = schema["type"]
    return {"array": "items", "map": "values"}.get(kind) if isinstance(kind, str) else "type"


def _full(schema: Mapping[str, Any], space: str) -> str:
    """The full name of a named type, without a leading dot if it has no namespace."""
    name = str(schema["name"])
    own = schema.get("namespace")
    return name if "." in name else f"{space if own is None else own}.{name}".removeprefix(".")
