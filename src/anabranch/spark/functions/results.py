"""What Python functions return, as columns of the declared schema: each value exactly, or refused with the reason.

A column whose values all have the usual type of Python is converted by Arrow at once. Any other is looked at value by
value; so is one that Arrow refuses, to find the row at fault.
"""

from __future__ import annotations

import dataclasses
import datetime as dt
import enum
import inspect
import math
import zoneinfo
from collections.abc import Callable, Mapping, Sequence
from decimal import Context, Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from anabranch.spark.functions import error_text
from anabranch.spark.functions.error_text import shortened

__all__ = ["ResultError", "Results", "check_awaited"]

_NONE = type(None)
_EXACT = Context(prec=100)
_MOST_US = 2**63 - 1
_US = dt.timedelta(microseconds=1)
_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_FIRST_US = (dt.datetime(1, 1, 1, tzinfo=dt.UTC) - _EPOCH) // _US
_LAST_US = (dt.datetime(9999, 12, 31, 23, 59, 59, 999999, dt.UTC) - _EPOCH) // _US
_ZONES = (dt.timezone, zoneinfo.ZoneInfo)
_DATE_UNITS = ("D", "M", "Y", "W", "generic")
_SECOND = 10**18
_ATTOSECONDS = {
    "W": 7 * 86400 * _SECOND,
    "D": 86400 * _SECOND,
    "h": 3600 * _SECOND,
    "m": 60 * _SECOND,
    "s": _SECOND,
    **{unit: _SECOND // 1000**power for power, unit in enumerate(("ms", "us", "ns", "ps", "fs", "as"), 1)},
}


class ResultError(TypeError):
    """What a function has returned can't be a row of the declared schema."""


class _Wrong(Exception):
    """A value isn't one of its column. ``path``: below the column."""

    def __init__(self, value: object, advice: str, path: str = "", kind: str = "") -> None:
        super().__init__()
        self.value, self.advice, self.path, self.kind = value, advice, path, kind

    def below(self, path: str, kind: str) -> _Wrong:
        return _Wrong(self.value, self.advice, path + self.path, self.kind or kind)


class Results:
    """Makes batches of a schema from what functions return. ``schema``: as Arrow has it, times in UTC."""

    def __init__(self, schema: pa.Schema) -> None:
        self.schema = schema
        self._columns = [_column(field.type, field.nullable) for field in schema]
        self._names = frozenset(schema.names)

    def batch(self, rows: Sequence[Any]) -> tuple[pa.RecordBatch, dict[int, str]]:
        """The rows that can be converted, in order; and for each of the others, by its number, why it can't be."""
        try:
            arrays = self._arrays(rows)
        except BaseException:  # classes of users can raise anything where they are only compared
            return self._one_by_one(rows)
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema), {}

    def _arrays(self, rows: Sequence[Any]) -> list[pa.Array]:
        names = self._names
        for row in rows:
            if type(row) is not dict or not row.keys() <= names:
                raise ResultError
        columns = zip(self.schema.names, self._columns, strict=True)
        return [column.array([row.get(name) for row in rows]) for name, column in columns]

    def row(self, row: object) -> dict[str, Any]:
        """One row, as plain values of Python; raises ResultError if it can't be one."""
        return dict(zip(self.schema.names, self._row(row), strict=True))

    def cast(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """A batch that a function has made, in the types of the schema; raises ResultError if that isn't exact."""
        arrays = []
        for field, column in zip(self.schema, self._columns, strict=True):
            if field.name not in batch.schema.names:
                raise ResultError(f"its result lacks the column {field.name!r}; declare the result with schema=")
            given = batch.column(field.name)
            if not _is_alike(given.type, field.type):
                raise ResultError(f"its column {field.name!r} is {column.kind}, and {given.type} came: cast it")
            try:
                made = given.cast(field.type)
            except pa.ArrowException as error:
                told = error_text.bounded(str(error))
                raise ResultError(
                    f"its column {field.name!r} is {column.kind}, and {given.type} came: {told}"
                ) from None
            if not field.nullable and made.null_count:
                raise ResultError(f"its column {field.name!r} is {column.kind}, and null came")
            if not column.is_right(made):
                raise ResultError(
                    f"its column {field.name!r} is {column.kind}, and NaN, infinity or a time beyond 9999 came"
                )
            arrays.append(made)
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema)

    def _one_by_one(self, rows: Sequence[Any]) -> tuple[pa.RecordBatch, dict[int, str]]:
        good: list[list[Any]] = []
        errors: dict[int, str] = {}
        for number, row in enumerate(rows):
            try:
                values = self._row(row)
                for value, column in zip(values, self._columns, strict=True):
                    column.built([value])
            except ResultError as error:
                errors[number] = error_text.bounded(str(error))
            except BaseException as error:  # of user code, in what it has returned
                errors[number] = f"what it returned can't be read: {error_text.described(error)}"
            else:
                good.append(values)
        columns = [column.built([values[at] for values in good]) for at, column in enumerate(self._columns)]
        return pa.RecordBatch.from_arrays(columns, schema=self.schema), errors

    def _row(self, row: object) -> list[Any]:
        fields = _fields(row)
        if fields is None:
            check_awaited(row)
            raise ResultError(f"it returned {shortened(row)}, not a dict of the result's columns")
        unknown = next((name for name in fields if name not in self._names), None)
        if unknown is not None:
            told = f"its result has the unknown column {shortened(unknown)}"
            raise ResultError(f"{told}; declare the result with schema=")
        return [
            self._value(name, column, fields.get(name))
            for name, column in zip(self.schema.names, self._columns, strict=True)
        ]

    @staticmethod
    def _value(name: str, column: _Column, value: object) -> Any:
        try:
            return column.plain(value)
        except _Wrong as wrong:
            where = f"its column {error_text.bounded(name + wrong.path)!r} is {wrong.kind or column.kind}"
            came = "null" if _is_missing(wrong.value) else f"{shortened(wrong.value)} ({_type_name(wrong.value)})"
            raise ResultError(f"{where}, and {came} came: {wrong.advice}") from None


def check_awaited(value: object) -> None:
    """Raises ResultError for what has to be awaited, and wasn't."""
    if inspect.isawaitable(value) or inspect.isasyncgen(value):
        if inspect.iscoroutine(value):
            value.close()
        what = "a coroutine" if inspect.iscoroutine(value) else f"a {_type_name(value)}"
        raise ResultError(f"it returned {what} that nobody awaited: declare the function with async def, and await it")


class _Column:
    """The values of one type. ``usual``: the types of Python whose values Arrow converts exactly or refuses;
    none where it would take what it shouldn't."""

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

    def array(self, values: list[Any]) -> pa.Array:
        if set(map(type, values)) <= self._usual and self._are_plain(values):
            built = self.built(values)
            if self.is_right(built):
                return built
        return self.built([self.plain(value) for value in values])

    def built(self, plain: list[Any]) -> pa.Array:
        return pa.array(plain, self.type)

    def plain(self, value: object) -> Any:
        """The value as Arrow takes it; raises :class:`_Wrong`."""
        if _is_missing(value):
            if not self._nullable:
                raise _Wrong(None, "give a value, or declare the column without NOT NULL")
            return None
        check_awaited(value)
        if isinstance(value, enum.Enum):
            value = _of_enum(value)
        return self._convert(value)

    def _are_plain(self, values: list[Any]) -> bool:
        if pa.types.is_timestamp(self.type):
            zones = {value.tzinfo for value in values if value is not None}
            if self.type.tz is None:
                return zones <= {None}
            return all(isinstance(zone, _ZONES) for zone in zones)
        return True

    def is_right(self, built: pa.Array) -> bool:
        """Whether all numbers are finite, and all times of the years that Python has."""
        if pa.types.is_floating(self.type):
            return bool(pc.all(pc.is_finite(built), min_count=0).as_py())
        if pa.types.is_timestamp(self.type):
            ends = pc.min_max(built.cast(pa.int64()))
            first, last = ends["min"].as_py(), ends["max"].as_py()
            return first is None or (first >= _FIRST_US and last <= _LAST_US)
        return True


_INTEGERS = {
    pa.int8(): ("tinyint", 8),
    pa.int16(): ("smallint", 16),
    pa.int32(): ("int", 32),
    pa.int64(): ("bigint", 64),
}


def _column(type_: pa.DataType, nullable: bool) -> _Column:
    kind, usual, convert = _kind(type_)
    return _Column(type_, kind, frozenset(usual), convert, nullable)


def _is_alike(given: pa.DataType, wanted: pa.DataType) -> bool:
    """Whether a cast only changes how values are kept, and fails where it would change them."""
    types = pa.types
    if given == wanted or types.is_null(given):
        return True
    if types.is_dictionary(given):
        return _is_alike(given.value_type, wanted)
    if types.is_list(wanted):
        lists = types.is_list(given) or types.is_large_list(given) or types.is_fixed_size_list(given)
        return lists and _is_alike(given.value_type, wanted.value_type)
    if types.is_struct(wanted):
        named = types.is_struct(given) and [each.name for each in given] == [each.name for each in wanted]
        return named and all(_is_alike(a.type, b.type) for a, b in zip(given, wanted, strict=True))
    if types.is_map(wanted):
        alike = types.is_map(given) and _is_alike(given.key_type, wanted.key_type)
        return alike and _is_alike(given.item_type, wanted.item_type)
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


def _kind(type_: pa.DataType) -> tuple[str, Sequence[type], Callable[[Any], Any]]:
    types = pa.types
    if type_ in _INTEGERS:
        name, bits = _INTEGERS[type_]
        return name, [int], _integer(bits)
    if types.is_boolean(type_):
        return "boolean", [bool], _boolean
    if types.is_floating(type_):
        return ("double" if type_ == pa.float64() else "float"), [float], _float(type_)
    if types.is_decimal(type_):
        return f"decimal({type_.precision},{type_.scale})", [], _decimal(type_.precision, type_.scale)
    if types.is_string(type_) or types.is_large_string(type_):
        return "string", [str], _string
    if types.is_binary(type_) or types.is_large_binary(type_):
        return "binary", [bytes], _binary
    if types.is_date(type_):
        return "date", [dt.date], _date
    if types.is_timestamp(type_):
        return ("timestamp_ntz", [dt.datetime], _naive) if type_.tz is None else ("timestamp", [dt.datetime], _zoned)
    if types.is_duration(type_):
        return "interval day to second", [], _duration
    if types.is_time(type_):
        return "time", [], _time
    if types.is_map(type_):
        return "map", [], _map(_column(type_.key_type, False), _column(type_.item_type, True))
    if types.is_list(type_) or types.is_large_list(type_):
        return "array", [], _list(_column(type_.value_type, type_.value_field.nullable))
    if types.is_struct(type_):
        return "struct", [], _struct({field.name: _column(field.type, field.nullable) for field in type_})
    if types.is_null(type_):
        return "void", [], _nothing
    return str(type_), [], lambda value: value  # Arrow converts it, or refuses


def _type_name(value: object) -> str:
    kind = type(value)
    return kind.__name__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__name__}"


def _is_missing(value: object) -> bool:
    if value is None:
        return True
    kind = type(value)
    if kind.__module__.startswith("pandas."):
        return kind.__name__ in ("NAType", "NaTType")
    return isinstance(value, np.datetime64 | np.timedelta64) and bool(np.isnat(value))


def _of_enum(value: enum.Enum) -> object:
    if isinstance(value, str | int | float):
        return value.value
    raise _Wrong(value, "give its .value, or make it a StrEnum or an IntEnum")


def _integer(bits: int) -> Callable[[Any], int]:
    limit = 2 ** (bits - 1)

    def convert(value: Any) -> int:
        if isinstance(value, bool | np.bool_):
            raise _Wrong(value, "a truth value is no number; give 1 or 0")
        if isinstance(value, np.integer):
            value = int(value)
        if not isinstance(value, int):
            raise _Wrong(value, "give an int; int(…) and round(…) make one")
        if not -limit <= value < limit:
            raise _Wrong(value, f"it goes from {-limit} to {limit - 1}")
        return int.__add__(value, 0)

    return convert


def _boolean(value: Any) -> bool:
    if not isinstance(value, bool | np.bool_):
        raise _Wrong(value, "give True or False; bool(…) makes one")
    return bool(value)


def _float(type_: pa.DataType) -> Callable[[Any], float]:
    most = float(np.finfo(np.float64 if type_ == pa.float64() else np.float32).max)

    def convert(value: Any) -> float:
        if isinstance(value, bool | np.bool_) or not isinstance(value, int | float | np.integer | np.floating):
            raise _Wrong(value, "give a float; float(…) makes one")
        if isinstance(value, np.integer):
            value = int(value)
        try:
            found = float(value)
        except OverflowError:
            raise _Wrong(value, "it is too large") from None
        if not math.isfinite(found):
            raise _Wrong(value, "it isn't finite, so it can't leave as JSON and spoils every sum; give None")
        if isinstance(value, int | np.longdouble) and found != value:
            raise _Wrong(value, "a double can't hold it exactly; give float(…) of it, or declare a decimal")
        if abs(found) > most:
            raise _Wrong(value, "it is too large")
        return found

    return convert


def _decimal(precision: int, scale: int) -> Callable[[Any], Decimal]:
    step = Decimal(1).scaleb(-scale)

    def convert(value: Any) -> Decimal:
        if isinstance(value, np.integer):
            value = int(value)
        if isinstance(value, bool) or not isinstance(value, int | Decimal):
            raise _Wrong(value, "give a Decimal; Decimal(str(…)) makes one of a float")
        if isinstance(value, int) and value.bit_length() > 400:
            raise _Wrong(value, f"it has more than {precision - scale} digits before the point")
        given = Decimal(value)
        if not given.is_finite():
            raise _Wrong(value, "it isn't finite; give None")
        if given and given.adjusted() >= precision - scale:
            raise _Wrong(value, f"it has more than {precision - scale} digits before the point")
        if given and given.adjusted() < -scale - 1:
            raise _Wrong(value, f"it has more than {scale} digits behind the point; round(…, {scale}) cuts them")
        found = given.quantize(step, context=_EXACT)
        if found != given:
            raise _Wrong(value, f"it has more than {scale} digits behind the point; round(…, {scale}) cuts them")
        return found

    return convert


def _string(value: Any) -> str:
    if not isinstance(value, str):
        raise _Wrong(value, "give a str; str(…) makes one")
    found = str.__getitem__(value, slice(None))
    try:
        found.encode()
    except UnicodeEncodeError:
        raise _Wrong(value, "it holds half of a surrogate pair, which UTF-8 can't encode") from None
    return found


def _binary(value: Any) -> bytes:
    if not isinstance(value, bytes | bytearray | memoryview):
        raise _Wrong(value, "give bytes; text.encode() makes them")
    return bytes(value)


def _date(value: Any) -> dt.date:
    given = value.item() if isinstance(value, np.datetime64) and np.datetime_data(value)[0] == "D" else value
    if not isinstance(given, dt.date) or isinstance(given, dt.datetime):
        raise _Wrong(value, "give a date; datetime.date() makes one")
    return dt.date(given.year, given.month, given.day)


def _zoned(value: Any) -> dt.datetime:
    if not isinstance(value, dt.datetime):
        raise _Wrong(value, "give a datetime with tzinfo, as datetime.now(UTC)")
    found = _in_microseconds(value)
    if found.utcoffset() is None:
        raise _Wrong(value, "it has no zone; give a datetime with tzinfo: value.replace(tzinfo=UTC) if it is in UTC")
    try:
        return found.astimezone(dt.UTC)
    except OverflowError:
        raise _Wrong(value, "in UTC it is outside of the years 1 to 9999") from None


def _naive(value: Any) -> dt.datetime:
    if isinstance(value, np.datetime64) and np.datetime_data(value)[0] not in _DATE_UNITS:
        try:
            return (_EPOCH + _US * _whole_us(value)).replace(tzinfo=None)
        except OverflowError:
            raise _Wrong(value, "it is outside of the years 1 to 9999") from None
    if not isinstance(value, dt.datetime):
        raise _Wrong(value, "give a datetime without tzinfo")
    if value.tzinfo is not None:
        raise _Wrong(value, "it has a zone; give value.replace(tzinfo=None), or declare a timestamp")
    return _in_microseconds(value)


def _whole_us(value: Any) -> int:
    """Of a time or a length of numpy's, the microseconds. (It overflows silently, and ints don't.)"""
    unit, count = np.datetime_data(value)
    whole, rest = divmod(int(value.astype(np.int64)) * count * _ATTOSECONDS[unit], _ATTOSECONDS["us"])
    if rest:
        raise _Wrong(value, "it isn't a whole number of microseconds")
    return int(whole)


def _in_microseconds(value: dt.datetime) -> dt.datetime:
    """Of a Timestamp of pandas, which may have nanoseconds, the datetime."""
    if getattr(value, "nanosecond", 0):
        raise _Wrong(value, "it has nanoseconds; value.floor('us') cuts them")
    if type(value) is dt.datetime:
        return value
    parts = value.year, value.month, value.day, value.hour, value.minute, value.second, value.microsecond
    return dt.datetime(*parts, tzinfo=value.tzinfo, fold=value.fold)


def _duration(value: Any) -> dt.timedelta:
    if isinstance(value, np.timedelta64) and np.datetime_data(value)[0] in _ATTOSECONDS:
        us = _whole_us(value)
    elif not isinstance(value, dt.timedelta):
        raise _Wrong(value, "give a timedelta")
    elif getattr(value, "nanoseconds", 0):
        raise _Wrong(value, "it has nanoseconds; value.floor('us') cuts them")
    else:
        us = value // _US
    if not -_MOST_US <= us <= _MOST_US:
        raise _Wrong(value, "it is too long")
    return dt.timedelta(microseconds=us)


def _time(value: Any) -> dt.time:
    if not isinstance(value, dt.time) or value.tzinfo is not None:
        raise _Wrong(value, "give a datetime.time without tzinfo")
    return value


def _nothing(value: Any) -> None:
    raise _Wrong(value, "it can only be null")


def _list(element: _Column) -> Callable[[Any], list[Any]]:
    def convert(value: Any) -> list[Any]:
        if not isinstance(value, list | tuple) and not (isinstance(value, np.ndarray) and value.ndim == 1):
            raise _Wrong(value, "give a list or a tuple; list(…) makes one")
        return [_below(element, each, f"[{number}]") for number, each in enumerate(value)]

    return convert


def _map(names: _Column, entries: _Column) -> Callable[[Any], list[tuple[Any, Any]]]:
    def convert(value: Any) -> list[tuple[Any, Any]]:
        if isinstance(value, Mapping):
            pairs = list(value.items())
        elif isinstance(value, list) and all(isinstance(each, tuple) and len(each) == 2 for each in value):
            pairs = value
        else:
            raise _Wrong(value, "give a dict")
        found = [
            (_below(names, name, "{key}"), _below(entries, entry, f"[{shortened(name)}]")) for name, entry in pairs
        ]
        for number, (name, _) in enumerate(found):
            if len(found) < _FEW and any(name == other for other, _ in found[:number]):
                raise _Wrong(value, f"it has the key {shortened(name)} twice")
        if len(found) >= _FEW and _has_twice([name for name, _ in found]):
            raise _Wrong(value, "it has a key twice")
        return found

    return convert


_FEW = 16


def _has_twice(names: list[Any]) -> bool:
    try:
        return len(set(names)) < len(names)
    except TypeError:  # lists and dicts can't be in a set
        return any(name in names[:number] for number, name in enumerate(names))


def _struct(columns: Mapping[str, _Column]) -> Callable[[Any], dict[str, Any]]:
    def convert(value: Any) -> dict[str, Any]:
        fields = _fields(value)
        if fields is None:
            raise _Wrong(value, "give a dict, a dataclass or a NamedTuple with its fields")
        unknown = next((name for name in fields if name not in columns), None)
        if unknown is not None:
            raise _Wrong(value, f"it has the unknown field {shortened(unknown)}")
        return {name: _below(column, fields.get(name), f".{name}") for name, column in columns.items()}

    return convert


def _below(column: _Column, value: object, path: str) -> Any:
    try:
        return column.plain(value)
    except _Wrong as wrong:
        raise wrong.below(path, column.kind) from None


def _fields(value: object) -> Mapping[str, Any] | None:
    """The fields of what can be a row: a mapping, a dataclass, a NamedTuple, or a Row of PySpark."""
    if isinstance(value, Mapping):
        return value
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    names = getattr(value, "_fields", None) or getattr(value, "__fields__", None)
    if isinstance(value, tuple) and isinstance(names, tuple | list) and len(names) == len(value):
        return dict(zip(names, value, strict=True))
    return None
