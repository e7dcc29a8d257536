"""Converts single values, as returned by Python functions, into the form that Arrow needs. Each value is either
converted exactly, or refused with a reason. (The only exception: a number in a ``float`` column becomes the nearest
32-bit number.)
"""

from __future__ import annotations

import datetime as dt
import enum
import inspect
import math
from collections.abc import Callable
from decimal import Context, Decimal
from typing import Any

import numpy as np
import pyarrow as pa

__all__ = [
    "FIRST_DAY",
    "FIRST_US",
    "LAST_DAY",
    "LAST_US",
    "ResultError",
    "Wrong",
    "binary",
    "boolean",
    "check_awaited",
    "date",
    "decimal",
    "duration",
    "floating",
    "integer",
    "is_missing",
    "naive",
    "nothing",
    "of_enum",
    "string",
    "time_of_day",
    "type_name",
    "zoned",
]

_EXACT = Context(prec=100)
_MOST_US = 2**63 - 1
_US = dt.timedelta(microseconds=1)
_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
FIRST_US = (dt.datetime(1, 1, 1, tzinfo=dt.UTC) - _EPOCH) // _US
LAST_US = (dt.datetime(9999, 12, 31, 23, 59, 59, 999999, dt.UTC) - _EPOCH) // _US
FIRST_DAY, LAST_DAY = ((day - _EPOCH.date()).days for day in (dt.date.min, dt.date.max))
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
    """The result of a function can't be a row of the declared schema."""


class Wrong(Exception):
    """A value doesn't fit its column.

    Args:
        advice: what is wrong with the value, or what to return instead.
        path: the path from the column's value to the wrong value inside it; empty if the column's value itself is
            wrong.
        kind: the name of the type that the wrong value should have; empty for the column's type.
    """

    def __init__(self, value: object, advice: str, path: str = "", kind: str = "") -> None:
        super().__init__()
        self.value, self.advice, self.path, self.kind = value, advice, path, kind

    def below(self, path: str, kind: str) -> Wrong:
        return Wrong(self.value, self.advice, path + self.path, self.kind or kind)


def check_awaited(value: object) -> None:
    """Raises ResultError for a value that user code should have awaited."""
    if inspect.isawaitable(value) or inspect.isasyncgen(value):
        if inspect.iscoroutine(value):
            value.close()
        kind = "coroutine" if inspect.iscoroutine(value) else type_name(value)
        raise ResultError(
            f"it returned a {kind} that wasn't awaited: declare the function with async def, and await the {kind}"
        )


def type_name(value: object) -> str:
    kind = type(value)
    return kind.__name__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__name__}"


def is_missing(value: object) -> bool:
    if value is None:
        return True
    kind = type(value)
    if kind.__module__.startswith("pandas."):
        return kind.__name__ in ("NAType", "NaTType")
    return isinstance(value, np.datetime64 | np.timedelta64) and bool(np.isnat(value))


def of_enum(value: enum.Enum) -> object:
    if isinstance(value, str | int | float):
        return value.value
    raise Wrong(value, "give its .value, or make it a StrEnum or an IntEnum")


def integer(bits: int) -> Callable[[Any], int]:
    limit = 2 ** (bits - 1)

    def convert(value: Any) -> int:
        if isinstance(value, bool | np.bool_):
            raise Wrong(value, "a truth value isn't a number; give 1 or 0")
        if isinstance(value, np.integer):
            value = int(value)
        if not isinstance(value, int):
            raise Wrong(value, "give an int; int(…) and round(…) make one")
        if not -limit <= value < limit:
            raise Wrong(value, f"it goes from {-limit} to {limit - 1}")
        return int.__add__(value, 0)

    return convert


def boolean(value: Any) -> bool:
    if not isinstance(value, bool | np.bool_):
        raise Wrong(value, "give True or False; bool(…) makes one")
    return bool(value)


def floating(type_: pa.DataType, finite: bool = True) -> Callable[[Any], float]:
    """A function that converts numbers. ``finite`` says whether it refuses NaN and infinity."""
    most = float(np.finfo(np.float64 if type_ == pa.float64() else np.float32).max)

    def convert(value: Any) -> float:
        if isinstance(value, bool | np.bool_) or not isinstance(value, int | float | np.integer | np.floating):
            raise Wrong(value, "give a float; float(…) makes one")
        if isinstance(value, np.integer):
            value = int(value)
        try:
            found = float(value)
        except OverflowError:
            raise Wrong(value, "it is too large") from None
        if not math.isfinite(found):
            if not finite:
                return found
            raise Wrong(value, "it isn't finite, so it can't leave as JSON and spoils every sum; give None")
        if isinstance(value, int | np.longdouble) and found != value:
            raise Wrong(value, "a double can't hold it exactly; give float(…) of it, or declare a decimal")
        if abs(found) > most:
            raise Wrong(value, "it is too large")
        return found

    return convert


def decimal(precision: int, scale: int) -> Callable[[Any], Decimal]:
    step = Decimal(1).scaleb(-scale)

    def convert(value: Any) -> Decimal:
        if isinstance(value, np.integer):
            value = int(value)
        if isinstance(value, bool) or not isinstance(value, int | Decimal):
            raise Wrong(value, "give a Decimal; Decimal(str(…)) makes one of a float")
        if isinstance(value, int) and value.bit_length() > 400:
            raise Wrong(value, f"it has more than {precision - scale} digits before the decimal point")
        given = Decimal(value)
        if not given.is_finite():
            raise Wrong(value, "it isn't finite; give None")
        if given and given.adjusted() >= precision - scale:
            raise Wrong(value, f"it has more than {precision - scale} digits before the decimal point")
        if given and given.adjusted() < -scale - 1:
            raise Wrong(value, f"it has more than {scale} digits after the decimal point; round(…, {scale}) cuts them")
        found = given.quantize(step, context=_EXACT)
        if found != given:
            raise Wrong(value, f"it has more than {scale} digits after the decimal point; round(…, {scale}) cuts them")
        return found

    return convert


def string(value: Any) -> str:
    if not isinstance(value, str):
        raise Wrong(value, "give a str; str(…) makes one")
    found = str.__getitem__(value, slice(None))
    try:
        found.encode()
    except UnicodeEncodeError:
        raise Wrong(value, "it holds half of a surrogate pair, which UTF-8 can't encode") from None
    return found


def binary(value: Any) -> bytes:
    if not isinstance(value, bytes | bytearray | memoryview):
        raise Wrong(value, "give bytes; text.encode() makes them")
    return bytes(value)


def date(value: Any) -> dt.date:
    given = value.item() if isinstance(value, np.datetime64) and np.datetime_data(value)[0] == "D" else value
    if not isinstance(given, dt.date) or isinstance(given, dt.datetime):
        raise Wrong(value, "give a date; datetime.date() makes one")
    return dt.date(given.year, given.month, given.day)


def zoned(value: Any) -> dt.datetime:
    if not isinstance(value, dt.datetime):
        raise Wrong(value, "give a datetime with tzinfo, such as datetime.now(UTC)")
    found = _in_microseconds(value)
    if found.utcoffset() is None:
        raise Wrong(value, "it has no zone; give a datetime with tzinfo: value.replace(tzinfo=UTC) if it is in UTC")
    try:
        return found.astimezone(dt.UTC)
    except OverflowError:
        raise Wrong(value, "in UTC it is outside of the years 1 to 9999") from None


def naive(value: Any) -> dt.datetime:
    if isinstance(value, np.datetime64) and np.datetime_data(value)[0] not in _DATE_UNITS:
        try:
            return (_EPOCH + _US * _whole_us(value)).replace(tzinfo=None)
        except OverflowError:
            raise Wrong(value, "it is outside of the years 1 to 9999") from None
    if not isinstance(value, dt.datetime):
        raise Wrong(value, "give a datetime without tzinfo")
    if value.tzinfo is not None:
        raise Wrong(value, "it has a zone; give value.replace(tzinfo=None), or declare a timestamp")
    return _in_microseconds(value)


def _whole_us(value: Any) -> int:
    """The microseconds of a numpy time or duration, as a Python integer, because numpy's integers would overflow
    silently. Raises :class:`Wrong` if the number isn't whole.
    """
    unit, count = np.datetime_data(value)
    whole, rest = divmod(int(value.astype(np.int64)) * count * _ATTOSECONDS[unit], _ATTOSECONDS["us"])
    if rest:
        raise Wrong(value, "it isn't a whole number of microseconds")
    return int(whole)


def _in_microseconds(value: dt.datetime) -> dt.datetime:
    """The value as a plain datetime. Raises :class:`Wrong` for a pandas Timestamp with nanoseconds."""
    if getattr(value, "nanosecond", 0):
        raise Wrong(value, "it has nanoseconds; value.floor('us') cuts them")
    if type(value) is dt.datetime:
        return value
    parts = value.year, value.month, value.day, value.hour, value.minute, value.second, value.microsecond
    return dt.datetime(*parts, tzinfo=value.tzinfo, fold=value.fold)


def duration(value: Any) -> dt.timedelta:
    if isinstance(value, np.timedelta64) and np.datetime_data(value)[0] in _ATTOSECONDS:
        us = _whole_us(value)
    elif not isinstance(value, dt.timedelta):
        raise Wrong(value, "give a timedelta")
    elif getattr(value, "nanoseconds", 0):
        raise Wrong(value, "it has nanoseconds; value.floor('us') cuts them")
    else:
        us = value // _US
    if not -_MOST_US <= us <= _MOST_US:
        raise Wrong(value, "it is too long")
    return dt.timedelta(microseconds=us)


def time_of_day(value: Any) -> dt.time:
    if not isinstance(value, dt.time) or value.tzinfo is not None:
        raise Wrong(value, "give a datetime.time without tzinfo")
    return value


def nothing(value: Any) -> None:
    raise Wrong(value, "it can only be null")
