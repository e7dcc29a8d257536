"""Reduces an Avro schema to some of its fields, and checks whether numbers and bytes mean the same in two schemas."""

from __future__ import annotations

from collections.abc import Mapping, Set
from typing import Any

__all__ = ["TEXT", "annotated", "cut", "difference"]

TEXT = "anabranch-text"
"""A property of ``bytes`` in the results of :func:`annotated`: whether the bytes are read as text."""

_NAMED = ("record", "error", "enum", "fixed")
_UNNAMED = ("null", "boolean", "int", "long", "float", "double", "bytes", "string", "array", "map")
_UNITS = {
    "int": ("date", "time-millis"),
    "long": (
        "time-micros",
        *(f"{kind}-{unit}" for kind in ("timestamp", "local-timestamp") for unit in ("millis", "micros", "nanos")),
    ),
}
"""For each numeric type, the logical types that define the unit of its numbers, such as milliseconds."""
_PROMOTED = {
    "int": ("long", "float", "double"),
    "long": ("float", "double"),
    "float": ("double",),
    "string": ("bytes",),
    "bytes": ("string",),
}
"""For each type, the other types that Avro can read its values as."""


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


def difference(writer: Any, reader: Any) -> str | None:
    """A description of the first column whose values would mean something else once Avro has read them; None if
    there is no such column.

    Avro ignores logical types when it converts values from one schema to another. So it would read milliseconds as
    microseconds, or a decimal's digits with another scale. If the writer's type has no logical type, but is otherwise
    the same as the reader's type, the two don't count as different: the reader's logical type then determines what the
    values mean.

    Args:
        writer: the schema, as parsed JSON, with which values were written.
        reader: the schema with which they are read.
    """
    return _Meanings(writer, reader).different(writer, reader, "", ("", ""))


def annotated(writer: Any, reader: Any) -> Any:
    """The writer's schema, with the reader's logical types added to types that have none. So a value that this schema
    allows is within the limits of the reader's types, such as the allowed years of a time. Bytes that are read as text
    are marked with :data:`TEXT`. Call this only if :func:`difference` returns None for the two schemas.
    """
    writer = _spelled_out(writer)
    meanings = _Meanings(writer, reader)
    meanings.different(writer, reader, "", ("", ""))
    for mine, its in meanings.added:
        mine.update({key: its[key] for key in ("logicalType", "precision", "scale") if key in its})
    for mine in meanings.texts:
        mine[TEXT] = True
    return writer


class _Meanings:
    """Compares two schemas.

    Attributes:
        added: each of the writer's types to which the reader adds a logical type, together with the reader's type.
        texts: each use of ``bytes`` in the writer's schema that the reader reads as text.
    """

    def __init__(self, writer: Any, reader: Any) -> None:
        self._written: dict[str, Mapping[str, Any]] = {}
        self._read: dict[str, Mapping[str, Any]] = {}
        _define(writer, "", self._written)
        _define(reader, "", self._read)
        self._compared: set[tuple[str, str]] = set()
        self.added: list[tuple[Any, Any]] = []
        self.texts: list[Any] = []

    def different(self, writer: Any, reader: Any, path: str, spaces: tuple[str, str]) -> str | None:
        """The first difference between two types; None if there is none. ``path`` is the path to the column that has
        these types. ``spaces`` are the namespaces of the two types.
        """
        mine, its = _resolved(writer, spaces[0], self._written), _resolved(reader, spaces[1], self._read)
        if isinstance(mine, list):
            return next(filter(None, (self.different(each, its, path, spaces) for each in mine)), None)
        if isinstance(its, list):
            its = self._branch(mine, its, spaces)
        if its is None or mine is None:
            return None
        kinds = mine["type"], its["type"]
        if kinds[0] == kinds[1] and kinds[0] in ("record", "error"):
            return self._fields(mine, its, path, spaces)
        if kinds in (("array", "array"), ("map", "map")):
            key, below = ("items", "[]") if kinds[0] == "array" else ("values", "{}")
            return self.different(mine[key], its[key], path + below, spaces)
        if kinds[0] != kinds[1] and kinds[1] not in _PROMOTED.get(kinds[0], ()):
            return None
        if kinds == ("bytes", "string"):
            self.texts.append(mine)
        was, now = _meaning(mine), _meaning(its)
        if was is None and now is not None and kinds[0] == kinds[1]:
            self.added.append((self._written[_full(mine, spaces[0])] if kinds[0] == "fixed" else mine, its))
            return None
        if now is None or _holds(was, now):
            return None
        return f"the column '{path}' was written as {_text(mine, was)}, and is read as {_text(its, now)}"

    def _fields(self, mine: Any, its: Any, path: str, spaces: tuple[str, str]) -> str | None:
        names = _full(mine, spaces[0]), _full(its, spaces[1])
        if names in self._compared:
            return None
        self._compared.add(names)
        within = names[0].rpartition(".")[0], names[1].rpartition(".")[0]
        written = {each["name"]: each["type"] for each in mine["fields"]}
        for each in its["fields"]:
            name = next((n for n in (each["name"], *each.get("aliases", ())) if n in written), None)
            below = f"{path}.{each['name']}" if path else each["name"]
            found = None if name is None else self.different(written[name], each["type"], below, within)
            if found is not None:
                return found
        return None

    def _branch(self, mine: Any, branches: list[Any], spaces: tuple[str, str]) -> Any:
        """The branch of the reader's union with which Avro reads the writer's type ``mine``; None if there is none."""
        several = [_resolved(each, spaces[1], self._read) for each in branches]
        same = [each for each in several if each is not None and each["type"] == mine["type"]]
        if mine["type"] in _NAMED:
            called = [each for each in same if _full(each, spaces[1]) == _full(mine, spaces[0])]
            return next(iter(called or same), None)
        promoted = [each for each in several if each is not None and each["type"] in _PROMOTED.get(mine["type"], ())]
        return next(iter(same or promoted), None)


def _resolved(schema: Any, space: str, definitions: Mapping[str, Mapping[str, Any]]) -> Any:
    """The definition of a type: a list for a union, otherwise a mapping. None for a name without a definition."""
    while isinstance(schema, Mapping) and not (schema["type"] in _NAMED or schema["type"] in _UNNAMED):
        schema = schema["type"]
    if not isinstance(schema, str):
        return schema
    if schema in _UNNAMED:
        return {"type": schema}
    full = f"{space}.{schema}" if space and "." not in schema else schema
    full = full if full in definitions else schema
    if full not in definitions:
        return None
    space, _, name = full.rpartition(".")
    return {**definitions[full], "name": name, "namespace": space}


def _spelled_out(schema: Any) -> Any:
    """A copy of a schema, in which each use of an unnamed type is a separate mapping."""
    if isinstance(schema, list):
        return [_spelled_out(each) for each in schema]
    if isinstance(schema, str):
        return {"type": schema} if schema in _UNNAMED else schema
    if schema["type"] in _NAMED:
        fields = [{**each, "type": _spelled_out(each["type"])} for each in schema.get("fields", ())]
        return {**schema, "fields": fields} if "fields" in schema else {**schema}
    key = _inside(schema)
    return {**schema} if key is None else {**schema, key: _spelled_out(schema[key])}


def _meaning(schema: Mapping[str, Any]) -> tuple[str, int, int] | None:
    """The name, precision and scale of a type's logical type; None if the logical type is missing, doesn't matter here,
    or isn't valid.
    """
    name, kind = schema.get("logicalType"), schema["type"]
    if name in _UNITS.get(kind, ()):
        return str(name), 0, 0
    if name == "decimal" and kind in ("bytes", "fixed"):
        precision, scale = schema.get("precision"), schema.get("scale", 0)
        if isinstance(precision, int) and isinstance(scale, int) and 0 <= scale <= precision and precision > 0:
            return "decimal", precision, scale
    return None


def _holds(was: tuple[str, int, int] | None, now: tuple[str, int, int]) -> bool:
    return was is not None and (was[0], was[2]) == (now[0], now[2]) and was[1] <= now[1]


def _text(schema: Mapping[str, Any], meaning: tuple[str, int, int] | None) -> str:
    if meaning is None:
        return str(schema["type"])
    name, precision, scale = meaning
    return f"{name}({precision},{scale})" if precision else name


class _Rest:
    """Builds a reduced schema type by type, in order.

    Args:
        definitions: the definitions of all named types, by full name.
        defined: the full names of the types that the reduced schema defines so far.
    """

    def __init__(self, definitions: Mapping[str, Mapping[str, Any]], defined: set[str]) -> None:
        self._definitions = definitions
        self._defined = defined

    def of(self, schema: Any, space: str) -> Any:
        """A type in the form in which it becomes the next part of the reduced schema. If the reduced schema already
        defines a named type, the result is a reference to this type. Otherwise, the result is a definition. ``space``
        is the namespace of the record that contains the type.
        """
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
    """The key under which an unnamed type contains another schema, such as ``items``; None if the type contains no
    schema.
    """
    kind = schema["type"]
    return {"array": "items", "map": "values"}.get(kind) if isinstance(kind, str) else "type"


def _full(schema: Mapping[str, Any], space: str) -> str:
    """The full name of a named type. If the type has no namespace, its full name has no leading dot."""
    name = str(schema["name"])
    own = schema.get("namespace")
    return name if "." in name else f"{space if own is None else own}.{name}".removeprefix(".")
