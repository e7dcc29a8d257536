"""What JSON values must be read as: a strict reader of its own, plain Python, and generated schemas and values.

It shares nothing with anabranch's: Python's json module, with what it lets through refused, and exact fractions.
"""

from __future__ import annotations

import base64
import datetime as dt
import json
import random
import re
import string
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
    ByteType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    ShortType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
)

MOST_NESTED = 1000
LONGEST_NUMBER = 1000
_EPOCH = dt.datetime(1970, 1, 1)
_BITS: dict[type[DataType], int] = {ByteType: 8, ShortType: 16, IntegerType: 32, LongType: 64}
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
    if type(kind) in _BITS:
        _only(_is_number(value) and not set(value) & set(".eE"), value)
        limit = 2 ** (_BITS[type(kind)] - 1)
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


# Generated schemas and values.

_SIMPLE: tuple[DataType, ...] = (
    BooleanType(),
    ByteType(),
    ShortType(),
    IntegerType(),
    LongType(),
    FloatType(),
    DoubleType(),
    DecimalType(10, 2),
    DecimalType(38, 18),
    DecimalType(5, 5),
    StringType(),
    BinaryType(),
    DateType(),
    TimestampType(),
    TimestampNTZType(),
)
_WAYS: dict[type[DataType], tuple[str, ...]] = {
    TimestampType: ("epoch-seconds", "epoch-millis", "epoch-micros"),
    TimestampNTZType: ("epoch-seconds", "epoch-millis", "epoch-micros"),
    DateType: ("epoch-days",),
    FloatType: ("nan-is-null",),
    DoubleType: ("nan-is-null",),
    StringType: ("json",),
}
NASTY = (
    *("null", "true", "false", "0", "-0", "1", "-1", "01", "+1", "1.", ".5", "1.0", "1.5", "-0.0", "1e3", "1E+2"),
    *("1e-3", "127", "128", "-128", "-129", "32768", "2147483647", "2147483648", "-2147483649"),
    *("9223372036854775807", "9223372036854775808", "-9223372036854775809", "1e309", "-1e309", "1e-400", "3.5e38"),
    *("1e99999999999", "-1e-99999999999", "340282356779733661637539395458142568447", "1.005", "12345678.91"),
    *("123456789.99", "0.00001", "0.000001", "1e1000000000", "NaN", "Infinity", "-Infinity", "nan", "inf", "-INF"),
    *('"NaN"', '"Infinity"', '"-Infinity"', '"INF"', '""', '" "', '"1"', '"1.50"', '"1,5"', '"1.234,5"', '"+1"'),
    *('"01"', '"1e3"', '"-"', '"-0.0"', '".5"', '"5."', '"AA=="', '"AAA="', '"AAAA"', '"AA"', '"A==="', '"AA-_"'),
    *('"20130101"', '"45678"', "45678", '"10:15"', '"2013"', '"2013-01"', '"2013-1-1"', '"2013-02-29"'),
    *('"2012-02-29"', '"0000-01-01"', '"0001-01-01"', '"9999-12-31"', '"10000-01-01"', '"+2013-01-01"'),
    *('"2013-01-01T05:29"', '"2013-01-01T05:29:00"', '"2013-01-01 05:29:00Z"', '"2013-01-01t05:29:00z"'),
    *('"2013-01-01T05:29:00.1Z"', '"2013-01-01T05:29:00.123456789+02:00"', '"2013-01-01T05:29:00.1234567891Z"'),
    *('"2013-01-01T24:00:00Z"', '"2013-01-01T05:60:00Z"', '"2013-06-30T23:59:60Z"', '"2013-01-01T05:29:00+0200"'),
    *('"2013-01-01T05:29:00+02"', '"2013-01-01T05:29:00+18:00"', '"2013-01-01T05:29:00+18:01"'),
    *(
        '"2013-01-01T05:29:00Europe/Paris"',
        '"2013-01-01T05:29:00 Z"',
        '"2013-01-01T05:29:00.Z"',
        '"9999-12-31T23:59:59Z"',
    ),
    *('"9999-12-31T23:59:59-01:00"', '"0001-01-01T00:00:00+01:00"', '"２０１３-01-01"', '"today"', '"now"', '"epoch"'),
    *("1700000000", "1700000000123", "1700000000123456", "1700000000.1234567", "-62135596800", "-62135596801"),
    *("253402300799", "253402300800", "19000", "-719162", "-719163", "2932896", "2932897", "-1.5", "-0.0000001"),
    *('"a"', '"ü"', '"😀"', r'"\ud83d\ude00"', r'"\ud800"', r'"\udc00\ud800"', r'"\u0000"', r'"\/\b\f\n\r\t\"\\"'),
    *('"\\x"', '"\n"', '"a', "[]", "[1]", "[null]", '["a"]', "[1.5,true]", "[[1]]", "{}", '{"a":1}', '{"a":1,"a":2}'),
    *('{"a":null}', '{"a":{"a":1}}', '{"b":"x"}', "'a'", "a", "", "/*x*/1", "1//x", "[1,]", '{"a":1,}', "[1 2]"),
    *('{"\\ud800":1}', "[" * 30 + "]" * 30, '{"a":' * 1001 + "1" + "}" * 1001, "1" * 999, "1" * 1200, "0." + "1" * 500),
)


def schema(rng: random.Random) -> tuple[StructType, dict[str, str]]:
    """Some columns, and how some of them are read."""
    fields = [StructField(f"c{n}", _kind(rng, 2), nullable=rng.random() < 0.8) for n in range(rng.randint(1, 5))]
    ways = {
        field.name: rng.choice(_WAYS[type(field.dataType)])
        for field in fields
        if type(field.dataType) in _WAYS and rng.random() < 0.4
    }
    return StructType(fields), ways


def _kind(rng: random.Random, depth: int) -> DataType:
    which = rng.random()
    if depth and which < 0.1:
        return ArrayType(_kind(rng, depth - 1))
    if depth and which < 0.2:
        return MapType(StringType(), _kind(rng, depth - 1))
    if depth and which < 0.3:
        names = rng.sample("abc", rng.randint(1, 3))
        return StructType([StructField(name, _kind(rng, depth - 1), rng.random() < 0.9) for name in names])
    return rng.choice(_SIMPLE)


def value(rng: random.Random, kind: StructType, ways: Mapping[str, str]) -> bytes | None:
    """A value that mostly is one of these columns, and often almost."""
    if rng.random() < 0.01:
        return None
    wild = rng.choice((0.0, 0.0, 0.1, 0.5))
    present = [field for field in kind.fields if rng.random() < 0.95]
    parts = [(field.name, _literal(rng, field.dataType, ways.get(field.name, ""), wild)) for field in present]
    while rng.random() < 0.2:
        parts.append((rng.choice(("other", "c0", "C0", "c\\u0030")), rng.choice(NASTY)))
    rng.shuffle(parts)
    text = (
        "{" + ",".join(f'{_space(rng)}"{name}"{_space(rng)}:{literal}' for name, literal in parts) + _space(rng) + "}"
    )
    if rng.random() < 0.05:
        text = rng.choice(
            (f"{text}{text}", f"{text} x", f"\ufeff{text}", f"[{text}]", text[:-1], f"{text}]", f" {text}\n")
        )
    raw = text.encode("utf-8", "surrogatepass")
    while rng.random() < 0.05 and raw:
        at = rng.randrange(len(raw))
        change = rng.choice(
            (bytes([rng.randrange(256)]), b"", raw[at : at + 1] * 2, b"\xed\xa0\x80", b"\xc0\x80", b"\0")
        )
        raw = raw[:at] + change + raw[at + 1 :]
    return raw


def _space(rng: random.Random) -> str:
    return rng.choice(("", "", "", " ", "\t\r\n")) if rng.random() < 0.3 else ""


def _literal(rng: random.Random, kind: DataType, way: str, wild: float) -> str:
    if rng.random() < wild:
        return rng.choice(NASTY)
    if rng.random() < 0.05:
        return "null"
    if way == "json":
        return rng.choice(('{"x": [1, {"y":null}] }', '"t\\u00fc"', " 1.50 ", "[ ]", "null"))
    if way.startswith("epoch"):
        digits = {"epoch-days": -5, "epoch-seconds": 0, "epoch-millis": 3, "epoch-micros": 6}[way]
        number = rng.randint(-(10**10), 10**11) * 10 ** max(digits, 0) // (86_400 if digits < 0 else 1)
        return f"{number}.{rng.randrange(10**9)}" if rng.random() < 0.3 else str(number)
    if isinstance(kind, BooleanType):
        return rng.choice(("true", "false"))
    if type(kind) in _BITS:
        bits = _BITS[type(kind)]
        return str(rng.choice((rng.randint(-(2 ** (bits - 1)), 2 ** (bits - 1) - 1), rng.randint(-9, 9))))
    if isinstance(kind, FloatType | DoubleType):
        bits = rng.getrandbits(64)
        number: float = struct.unpack(">d", struct.pack(">Q", bits))[0]
        exact = rng.choice(
            (repr(number), f"{rng.uniform(-1e6, 1e6):.{rng.randrange(30)}f}", str(bits), f"{bits}e-{rng.randrange(80)}")
        )
        return exact if "n" not in exact else "0.1"
    if isinstance(kind, DecimalType):
        number_ = Decimal(rng.randrange(10**kind.precision)).scaleb(-kind.scale - rng.choice((0, 0, 0, 1)))
        return rng.choice((f"{number_:f}", f"{number_:e}", f'"{number_:f}"', f"-{number_:f}"))
    if isinstance(kind, StringType):
        return json.dumps(
            "".join(rng.choices(string.printable + "üß€😀\u2028", k=rng.randrange(8))), ensure_ascii=rng.random() < 0.5
        )
    if isinstance(kind, BinaryType):
        return json.dumps(base64.b64encode(rng.randbytes(rng.randrange(6))).decode())
    at = dt.datetime(1, 1, 1) + dt.timedelta(microseconds=rng.randrange(315_537_897_600_000_000))
    if isinstance(kind, DateType):
        return f'"{at.date().isoformat()}"'
    if isinstance(kind, TimestampType | TimestampNTZType):
        zones = ("Z", "", "+02:00", "-0730") if isinstance(kind, TimestampType) else ("", "", "", "Z")
        precision = rng.choice(("auto", "seconds", "minutes", "milliseconds"))
        return f'"{at.isoformat(rng.choice("T "), precision)}{rng.choice(zones)}"'
    if isinstance(kind, ArrayType):
        return f"[{','.join(_literal(rng, kind.elementType, '', wild) for _ in range(rng.randrange(4)))}]"
    if isinstance(kind, MapType):
        names = rng.sample(("", "a", "b", "\\u00fc", "😀"), rng.randrange(4))
        return "{" + ",".join(f'"{name}":{_literal(rng, kind.valueType, "", wild)}' for name in names) + "}"
    assert isinstance(kind, StructType)
    fields = [field for field in kind.fields if rng.random() < 0.9]
    return "{" + ",".join(f'"{f.name}":{_literal(rng, f.dataType, "", wild)}' for f in fields) + "}"
