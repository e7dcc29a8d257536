"""What JSON values must be read as: a strict reader of its own, plain Python, and generated schemas and values.

It shares nothing with anabranch's: Python's json module, with what it lets through refused, and exact fractions.
"""

from __future__ import annotations

import base64
import datetime as dt
import json
import re
import struct
import sys
from collections.abc import Mapping
from decimal import Decimal
from fractions import Fraction
from typing import Any

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    MapType,
    StringType,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from tests.soak.generated_values import BITS

MOST_NESTED = 1000
LONGEST_NUMBER = 1000
_EPOCH = dt.datetime(1970, 1, 1)

_TIME = re.compile(
    r"(\d{4})-(\d\d)-(\d\d)[T ](\d\d):(\d\d)(?::(\d\d)(?:\.(\d{1,9}))?)?(?:(Z)|([+-])(\d\d):?(\d\d))?", re.ASCII
)
_GREATEST = {FloatType: (2 - Fraction(1, 2**24)) * 2**127, DoubleType: (2 - Fraction(1, 2**53)) * 2**1023}
"""Where rounding to the nearest gives infinity."""
_GREATEST_FLOAT = float((2 - Fraction(1, 2**23)) * 2**127)


class Refused(Exception):
    """The value can't be read."""


class Number(str):
    """A number as it is written."""


def read(value: bytes | None, schema: StructType, read_as: Mapping[str, str]) -> dict[str, Any]:
    """The columns of a value. Refused if it can't be read."""
    if value is None:
        raise Refused("null")
    try:
        text = value.decode("utf-8")
    except UnicodeDecodeError as error:
        raise Refused(str(error)) from None
    _check_depth(text)
    allows_nan = "nan-is-null" in read_as.values()
    sys.setrecursionlimit(20_000)
    try:
        parsed = json.loads(
            text,
            object_pairs_hook=_pairs,
            parse_int=_number,
            parse_float=_number,
            parse_constant=_number if allows_nan else _no_constant,
        )
    except (ValueError, RecursionError) as error:
        raise Refused(str(error)) from None
    if not isinstance(parsed, dict):
        raise Refused("no object")
    return _struct(parsed, schema, read_as, top=True)


def _check_depth(text: str) -> None:
    depth, inside, skip = 0, False, False
    for each in text:
        if skip:
            skip = False
        elif inside:
            skip, inside = each == "\\", each != '"'
        elif each == '"':
            inside = True
        elif each in "[{":
            depth += 1
            if depth > MOST_NESTED:
                raise Refused("nested too deep")
        elif each in "]}":
            depth -= 1


def _pairs(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    if len({name for name, _ in pairs}) < len(pairs):
        raise Refused("a name twice")
    for name, _ in pairs:
        _text(name)
    return dict(pairs)


def _number(text: str) -> Number:
    if len(text) > LONGEST_NUMBER:
        raise Refused("a long number")
    return Number(text)


def _no_constant(text: str) -> Number:
    raise Refused(text)


def _struct(value: dict[str, Any], kind: StructType, read_as: Mapping[str, str], top: bool = False) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for field in kind.fields:
        way = read_as.get(field.name, "") if top else ""
        held = value.get(field.name)
        if way == "json":
            found[field.name] = (JSON, held) if field.name in value else None
            _only(found[field.name] is not None or field.nullable, "missing")
            _check_others(held)
            continue
        found[field.name] = None if held is None else _typed(held, field.dataType, way)
        if found[field.name] is None and not field.nullable:
            raise Refused("null")
    _check_others({name: each for name, each in value.items() if name not in kind.names})
    return found


JSON = object()
"""What a column that is read as "json" begins with: its text is to be JSON of what follows."""


def _check_others(value: Any) -> None:
    """Nothing in what no column takes is no JSON."""
    if isinstance(value, Number) and not _is_number(value):
        raise Refused(value)
    for each in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        _check_others(each)


def _is_number(value: Any) -> bool:
    return isinstance(value, Number) and value not in ("NaN", "Infinity", "-Infinity")


def _typed(value: Any, kind: DataType, way: str) -> Any:
    if isinstance(kind, BooleanType):
        return _only(isinstance(value, bool), value)
    if type(kind) in BITS:
        _only(_is_number(value) and not set(value) & set(".eE"), value)
        limit = 2 ** (BITS[type(kind)] - 1)
        return _only(-limit <= int(value) < limit, int(value))
    if isinstance(kind, FloatType | DoubleType):
        return _float(value, kind, way)
    if isinstance(kind, DecimalType):
        return _decimal(value, kind)
    if isinstance(kind, StringType):
        return _text(_only(isinstance(value, str) and not isinstance(value, Number), value))
    if isinstance(kind, BinaryType):
        return _bytes(value)
    if isinstance(kind, DateType):
        return _date(value, way)
    if isinstance(kind, TimestampType | TimestampNTZType):
        return _timestamp(value, isinstance(kind, TimestampType), way)
    if isinstance(kind, ArrayType):
        _only(isinstance(value, list), value)
        return [None if each is None else _typed(each, kind.elementType, "") for each in value]
    if isinstance(kind, MapType):
        _only(isinstance(value, dict), value)
        return {_text(k): None if each is None else _typed(each, kind.valueType, "") for k, each in value.items()}
    assert isinstance(kind, StructType)
    return _struct(_only(isinstance(value, dict), value), kind, {})


def _only(holds: bool, value: Any) -> Any:
    if not holds:
        raise Refused(repr(value)[:80])
    return value


def _float(value: Any, kind: DataType, way: str) -> float | None:
    if isinstance(value, str) and value in ("NaN", "Infinity", "-Infinity"):
        return _only(way == "nan-is-null", None)  # type: ignore[no-any-return]
    exact = _fraction(_only(_is_number(value), value))
    _only(exact is not None and abs(exact) < _GREATEST[type(kind)], value)
    assert exact is not None
    nearest = exact.numerator / exact.denominator if exact else (-0.0 if value.startswith("-") else 0.0)
    if not exact or isinstance(kind, DoubleType):
        return nearest
    return _nearest_float(exact)


def _fraction(text: str) -> Fraction | None:
    """None: so large that it is out of all ranges."""
    mantissa, _, exponent = text.lower().partition("e")
    if not mantissa.strip("-0."):
        return Fraction(0)
    if exponent and abs(int(exponent)) > 2000 + len(mantissa):
        return None if int(exponent) > 0 else Fraction(1, 10**1200) * (-1 if text.startswith("-") else 1)
    return Fraction(text)


def _nearest_float(exact: Fraction) -> float:
    """The nearest of 32 bits, of two that are as near the even one."""
    once = min(abs(float(exact)), _GREATEST_FLOAT)
    bits = struct.unpack(">i", struct.pack(">f", once))[0]
    best = min(
        (struct.unpack(">f", struct.pack(">i", b))[0] for b in range(max(0, bits - 2), min(bits + 3, 0x7F800000))),
        key=lambda each: (
            abs(Fraction(each) - abs(exact)),
            struct.unpack(">i", struct.pack(">f", each))[0] % 2,
        ),
    )
    return -best if exact < 0 else best


def _decimal(value: Any, kind: DecimalType) -> Decimal:
    if not _is_number(value):
        _only(
            isinstance(value, str)
            and not isinstance(value, Number)
            and len(value) <= 1000
            and re.fullmatch(r"-?(0|[1-9]\d*)(\.\d+)?", value, re.ASCII) is not None,
            value,
        )
    exact = _fraction(value)
    _only(exact is not None, value)
    assert exact is not None
    scaled = exact * 10**kind.scale
    _only(scaled.denominator == 1 and abs(scaled) < 10**kind.precision, value)
    return Decimal(f"{scaled.numerator}e-{kind.scale}")


def _text(value: str) -> str:
    try:
        value.encode()
    except UnicodeEncodeError as error:
        raise Refused(str(error)) from None
    return value


def _bytes(value: Any) -> bytes:
    _only(isinstance(value, str) and not isinstance(value, Number) and value.isascii(), value)
    _only(re.fullmatch(r"([A-Za-z0-9+/]{4})*([A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?", value) is not None, value)
    return base64.b64decode(value)


def _date(value: Any, way: str) -> dt.date:
    try:
        if way == "epoch-days":
            _only(_is_number(value) and not set(value) & set(".eE"), value)
            return (_EPOCH + dt.timedelta(days=int(value))).date()
        _only(isinstance(value, str) and not isinstance(value, Number), value)
        _only(re.fullmatch(r"\d{4}-\d\d-\d\d", value, re.ASCII) is not None, value)
        return dt.date(int(value[:4]), int(value[5:7]), int(value[8:]))
    except (ValueError, OverflowError) as error:
        raise Refused(str(error)) from None


def _timestamp(value: Any, zoned: bool, way: str) -> dt.datetime:
    try:
        if way:
            exact = _fraction(_only(_is_number(value), value))
            _only(exact is not None, value)
            assert exact is not None
            factor = {"epoch-seconds": 10**6, "epoch-millis": 10**3, "epoch-micros": 1}[way]
            _only(abs(exact) * factor < 10**18 and (exact * 10**1000).denominator == 1, value)
            at = _EPOCH + dt.timedelta(microseconds=exact * factor // 1)
            return at.replace(tzinfo=dt.UTC) if zoned else at
        _only(isinstance(value, str) and not isinstance(value, Number), value)
        found = _TIME.fullmatch(value)
        _only(found is not None, value)
        assert found is not None
        year, month, day, hour, minute, second, fraction, _, sign, hours, minutes = found.groups()
        _only(zoned or (found[8] is None and sign is None), value)
        micros = int(((fraction or "") + "000000")[:6])
        at = dt.datetime(int(year), int(month), int(day), int(hour), int(minute), int(second or 0), micros)
        if sign:
            _only(int(minutes) < 60 and int(hours) * 60 + int(minutes) <= 18 * 60, value)
            moved = dt.timedelta(hours=int(hours), minutes=int(minutes))
            at = at - moved if sign == "+" else at + moved
        return at.replace(tzinfo=dt.UTC) if zoned else at
    except (ValueError, OverflowError) as error:
        raise Refused(str(error)) from None
