"""Converts maps from Arrow's form, lists of pairs, to the form that functions receive: dicts, unless the keys are
arrays or structs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa

__all__ = ["has_unhashable_keys", "reader"]


def has_unhashable_keys(kind: pa.DataType) -> bool:
    """Whether a type contains a map with arrays or structs as keys, which a dict can't have."""
    if pa.types.is_map(kind) and pa.types.is_nested(kind.key_type):
        return True
    return any(has_unhashable_keys(kind.field(number).type) for number in range(kind.num_fields))


def reader(kind: pa.DataType) -> Callable[[Any], Any] | None:
    """A function that converts the maps in a value of the type ``kind`` to dicts. The function raises KeyError if a map
    has the same key twice. Maps with arrays or structs as keys stay lists of pairs. The result is None if there is
    nothing to convert.
    """
    if pa.types.is_map(kind):
        entry = reader(kind.item_type)
        if not pa.types.is_nested(kind.key_type):
            return lambda value: _dict([(key, _read(each, entry)) for key, each in value])
        return None if entry is None else lambda value: [(key, _read(each, entry)) for key, each in value]
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        element = reader(kind.value_type)
        return None if element is None else lambda value: [_read(each, element) for each in value]
    if pa.types.is_struct(kind):
        fields = [kind.field(number) for number in range(kind.num_fields)]
        inner = {field.name: each for field in fields if (each := reader(field.type)) is not None}
        if inner:
            return lambda value: {name: _read(each, inner.get(name)) for name, each in value.items()}
    return None


def _dict(pairs: list[tuple[Any, Any]]) -> dict[Any, Any]:
    made = dict(pairs)
    if len(made) < len(pairs):
        raise KeyError("a map has a key twice")
    return made


def _read(value: Any, reader: Callable[[Any], Any] | None) -> Any:
    return value if reader is None or value is None else reader(value)
