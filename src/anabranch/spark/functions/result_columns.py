"""Converts the results of Python functions to Arrow columns, including columns of arrays, maps and structs, and checks
the Arrow columns that functions return."""

from __future__ import annotations

import dataclasses
import datetime as dt
import enum
import itertools
import zoneinfo
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from anabranch.spark.functions import result_values
from anabranch.spark.functions.error_text import shortened
from anabranch.spark.functions.result_values import Wrong

__all__ = ["Column", "column_of", "fields_of", "is_alike", "refused"]

_NONE = type(None)
_ZONES = (dt.timezone, zoneinfo.ZoneInfo)


class Column:
    """Converts values to arrays of one type.

    Args:
        kind: the name of the type in error messages.
        usual: Python types whose values Arrow either converts correctly or refuses. If a column has only such values,
            the whole column is passed to Arrow. (Only time zones, NaN, infinity and the range of times are checked
            separately.)
        convert: converts a value of any type to the form that Arrow needs, or raises :class:`Wrong`.
    """

    def __init__(
        self,
        type_: pa.DataType,
        kind: str,
        usual: frozenset[type],
        convert: Callable[[Any], Any],
        nullable: bool = True,
    ) -> None:
        self.type = type_
        self.kind = kind if nullable else f"{kind} NOT NULL"
        self._usual = usual | {_NONE} if nullable else usual
        self._convert = convert
        self._nullable = nullable

    def array(self, values: list[Any]) -> pa.Array | pa.ChunkedArray:
        if set(map(type, values)) <= self._usual and self._are_plain(values):
            built = self.built(values)
            if self.is_right(built):
                return built
        return self.built([self.plain(value) for value in values])

    def built(self, plain: list[Any]) -> pa.Array | pa.ChunkedArray:
        """An array of values that already have the form that Arrow needs; chunked if they exceed 2 GB."""
        return pa.array(plain, self.type)

    def plain(self, value: object) -> Any:
        """The value in the form that Arrow needs. Raises :class:`Wrong` if the value doesn't fit the column, and
        ResultError if user code should have awaited the value."""
        if result_values.is_missing(value):
            if not self._nullable:
                raise Wrong(None, "give a value, or declare the column without NOT NULL")
            return None
        result_values.check_awaited(value)
        if isinstance(value, enum.Enum):
            value = result_values.of_enum(value)
        return self._convert(value)

    def _are_plain(self, values: list[Any]) -> bool:
        if pa.types.is_timestamp(self.type):
            zones = {value.tzinfo for value in values if value is not None}
            if self.type.tz is None:
                return zones <= {None}
            return all(isinstance(zone, _ZONES) for zone in zones)
        return True

    def is_right(self, built: pa.Array | pa.ChunkedArray) -> bool:
        """Whether all numbers of an array are finite, and all dates and timestamps in years that Python supports."""
        if pa.types.is_floating(self.type):
            return bool(pc.all(pc.is_finite(built), min_count=0).as_py())
        if pa.types.is_timestamp(self.type):
            return _is_within(built.cast(pa.int64()), result_values.FIRST_US, result_values.LAST_US)
        if pa.types.is_date32(self.type):
            return _is_within(built.cast(pa.int32()), result_values.FIRST_DAY, result_values.LAST_DAY)
        return True


def _is_within(numbers: pa.Array | pa.ChunkedArray, least: int, most: int) -> bool:
    ends = pc.min_max(numbers)
    first, last = ends["min"].as_py(), ends["max"].as_py()
    return first is None or (first >= least and last <= most)


_INTEGERS = {
    pa.int8(): ("tinyint", 8),
    pa.int16(): ("smallint", 16),
    pa.int32(): ("int", 32),
    pa.int64(): ("bigint", 64),
}


def column_of(type_: pa.DataType, nullable: bool, finite: bool = True) -> Column:
    """The :class:`Column` for an Arrow type. ``finite`` says whether :meth:`Column.plain` refuses NaN and infinity."""
    kind, usual, convert = _kind(type_, finite)
    return Column(type_, kind, frozenset(usual), convert, nullable)


def refused(built: pa.Array, nullable: bool) -> tuple[str, str, str] | None:
    """Describes a value that isn't allowed in an array, or inside a value of the array. Returns the path to this
    value, the type that it should have, and a description of the value; None if all values are allowed.
    """
    column = column_of(built.type, nullable)
    if built.null_count and not nullable:
        return "", column.kind, "null"
    if not column.is_right(built):
        return "", column.kind, "NaN, infinity, or a date or time outside the years 1 to 9999"
    if pa.types.is_string(built.type) and not _is_utf8(built):
        return "", column.kind, "text that isn't UTF-8"
    if pa.types.is_map(built.type) and _repeats_key(built):
        return "", column.kind, "a map with the same key twice"
    for path, part, may_be_null in _parts(built):
        found = refused(part, may_be_null)
        if found is not None:
            return path + found[0], *found[1:]
    return None


def _is_utf8(texts: pa.Array) -> bool:
    try:
        texts.validate(full=True)
    except pa.ArrowInvalid:
        return False
    return True


def _repeats_key(maps: pa.Array) -> bool:
    """Whether any of the maps has the same key twice."""
    there = maps.drop_null()
    if not len(there):
        return False
    offsets = there.offsets.to_numpy()
    keys, sizes = there.keys[offsets[0] : offsets[-1]], np.diff(offsets)
    if not len(keys) or sizes.max() < 2:
        return False
    if pa.types.is_nested(keys.type):
        several = keys.to_pylist()
        begins = offsets - offsets[0]
        return any(_has_twice(several[begin:end]) for begin, end in itertools.pairwise(begins))
    if pa.types.is_floating(keys.type):
        keys = pc.add(keys, pa.scalar(0.0, keys.type))  # -0.0 is the same key as 0.0
    encoded = keys.dictionary_encode()
    pairs = np.repeat(np.arange(len(there)), sizes) * len(encoded.dictionary) + encoded.indices.to_numpy()
    pairs.sort(kind="stable")  # np.unique would take longer than everything else
    return bool((pairs[1:] == pairs[:-1]).any())


def _parts(built: pa.Array) -> Iterator[tuple[str, pa.Array, bool]]:
    """Yields the inner arrays of an array of arrays, maps or structs, without values that are hidden behind nulls. For
    each inner array, also yields the path to its values, and whether these values can be null.
    """
    types = pa.types
    if types.is_struct(built.type):
        there = built.drop_null()
        for number, field in enumerate(built.type):
            yield f".{field.name}", there.field(number), field.nullable
    elif types.is_list(built.type) or types.is_large_list(built.type) or types.is_map(built.type):
        there = built.drop_null()
        if not len(there):
            return
        first, end = there.offsets[0].as_py(), there.offsets[-1].as_py()
        if types.is_map(built.type):
            yield "{key}", there.keys[first:end], False
            yield "[…]", there.items[first:end], True
        else:
            yield "[…]", there.values[first:end], built.type.value_field.nullable


def is_alike(given: pa.DataType, wanted: pa.DataType) -> bool:
    """Whether values of the type ``given`` can safely be cast to the type ``wanted``: the cast only changes how values
    are stored, and fails if a value would change (but a 64-bit float may become the nearest 32-bit float).
    """
    types = pa.types
    if given == wanted or types.is_null(given):
        return True
    if types.is_dictionary(given):
        return is_alike(given.value_type, wanted)
    if types.is_list(wanted):
        lists = types.is_list(given) or types.is_large_list(given) or types.is_fixed_size_list(given)
        return lists and is_alike(given.value_type, wanted.value_type)
    if types.is_struct(wanted):
        named = types.is_struct(given) and [each.name for each in given] == [each.name for each in wanted]
        return named and all(is_alike(a.type, b.type) for a, b in zip(given, wanted, strict=True))
    if types.is_map(wanted):
        alike = types.is_map(given) and is_alike(given.key_type, wanted.key_type)
        return alike and is_alike(given.item_type, wanted.item_type)
    if types.is_timestamp(wanted):
        return types.is_timestamp(given) and (given.tz is None) == (wanted.tz is None)
    return any(of(wanted) and any(takes(given) for takes in takers) for of, takers in _ALIKE)


_TEXTS = (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view)
_BINARIES = (pa.types.is_binary, pa.types.is_large_binary, pa.types.is_binary_view, pa.types.is_fixed_size_binary)
_ALIKE = (
    (pa.types.is_integer, (pa.types.is_integer,)),
    (pa.types.is_floating, (pa.types.is_floating, pa.types.is_integer)),
    (pa.types.is_decimal, (pa.types.is_decimal, pa.types.is_integer)),
    (pa.types.is_string, _TEXTS),
    (pa.types.is_binary, _BINARIES),
    (pa.types.is_date, (pa.types.is_date,)),
    (pa.types.is_duration, (pa.types.is_duration,)),
    (pa.types.is_time, (pa.types.is_time,)),
)


def _kind(type_: pa.DataType, finite: bool) -> tuple[str, Sequence[type], Callable[[Any], Any]]:
    types = pa.types
    if type_ in _INTEGERS:
        name, bits = _INTEGERS[type_]
        return name, [int], result_values.integer(bits)
    if types.is_boolean(type_):
        return "boolean", [bool], result_values.boolean
    if types.is_floating(type_):
        return ("double" if type_ == pa.float64() else "float"), [float], result_values.floating(type_, finite)
    if types.is_decimal(type_):
        return f"decimal({type_.precision},{type_.scale})", [], result_values.decimal(type_.precision, type_.scale)
    if types.is_string(type_) or types.is_large_string(type_):
        return "string", [str], result_values.string
    if types.is_binary(type_) or types.is_large_binary(type_):
        return "binary", [bytes], result_values.binary
    if types.is_date(type_):
        return "date", [dt.date], result_values.date
    if types.is_timestamp(type_):
        if type_.tz is None:
            return "timestamp_ntz", [dt.datetime], result_values.naive
        return "timestamp", [dt.datetime], result_values.zoned
    if types.is_duration(type_):
        return "interval day to second", [], result_values.duration
    if types.is_time(type_):
        return "time", [], result_values.time_of_day
    if types.is_map(type_):
        return "map", [], _map(column_of(type_.key_type, False, finite), column_of(type_.item_type, True, finite))
    if types.is_list(type_) or types.is_large_list(type_):
        return "array", [], _list(column_of(type_.value_type, type_.value_field.nullable, finite))
    if types.is_struct(type_):
        return "struct", [], _struct({each.name: column_of(each.type, each.nullable, finite) for each in type_})
    if types.is_null(type_):
        return "void", [], result_values.nothing
    return str(type_), [], lambda value: value  # Arrow converts or refuses the value


def _list(element: Column) -> Callable[[Any], list[Any]]:
    def convert(value: Any) -> list[Any]:
        if not isinstance(value, list | tuple) and not (isinstance(value, np.ndarray) and value.ndim == 1):
            raise Wrong(value, "give a list or a tuple; list(…) makes one")
        return [_below(element, each, f"[{number}]") for number, each in enumerate(value)]

    return convert


def _map(names: Column, entries: Column) -> Callable[[Any], list[tuple[Any, Any]]]:
    def convert(value: Any) -> list[tuple[Any, Any]]:
        if isinstance(value, Mapping):
            pairs = list(value.items())
        elif isinstance(value, list) and all(isinstance(each, tuple) and len(each) == 2 for each in value):
            pairs = value
        else:
            raise Wrong(value, "give a dict")
        found = [
            (_below(names, name, "{key}"), _below(entries, entry, f"[{shortened(name)}]")) for name, entry in pairs
        ]
        for number, (name, _) in enumerate(found):
            if len(found) < _FEW and any(name == other for other, _ in found[:number]):
                raise Wrong(value, f"it has the key {shortened(name)} twice")
        if len(found) >= _FEW and _has_twice([name for name, _ in found]):
            raise Wrong(value, "it has a key twice")
        return found

    return convert


_FEW = 16


def _has_twice(names: list[Any]) -> bool:
    try:
        return len(set(names)) < len(names)
    except TypeError:  # lists and dicts can't be in a set
        return any(name in names[:number] for number, name in enumerate(names))


def _struct(columns: Mapping[str, Column]) -> Callable[[Any], dict[str, Any]]:
    def convert(value: Any) -> dict[str, Any]:
        fields = fields_of(value)
        if fields is None:
            raise Wrong(value, "give a dict, a dataclass or a NamedTuple with its fields")
        unknown = next((name for name in fields if name not in columns), None)
        if unknown is not None:
            raise Wrong(value, f"it has the unknown field {shortened(unknown)}")
        return {name: _below(column, fields.get(name), f".{name}") for name, column in columns.items()}

    return convert


def _below(column: Column, value: object, path: str) -> Any:
    try:
        return column.plain(value)
    except Wrong as wrong:
        raise wrong.below(path, column.kind) from None


def fields_of(value: object) -> Mapping[str, Any] | None:
    """The fields of a value that can be a row: a mapping, a dataclass, a NamedTuple, or a PySpark Row. None for other
    values."""
    if isinstance(value, Mapping):
        return value
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    names = getattr(value, "_fields", None) or getattr(value, "__fields__", None)
    if isinstance(value, tuple) and isinstance(names, tuple | list) and len(names) == len(value):
        return dict(zip(names, value, strict=True))
    return None
