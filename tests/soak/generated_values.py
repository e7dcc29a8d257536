"""Generated schemas, and values for them: good ones, and broken ones."""

from __future__ import annotations

import base64
import datetime as dt
import json
import random
import string
import struct
from collections.abc import Mapping
from decimal import Decimal

from pyspark.sql import types as T

BITS: dict[type[T.DataType], int] = {T.ByteType: 8, T.ShortType: 16, T.IntegerType: 32, T.LongType: 64}

# Generated schemas and values.
_SIMPLE: tuple[T.DataType, ...] = (
    T.BooleanType(),
    T.ByteType(),
    T.ShortType(),
    T.IntegerType(),
    T.LongType(),
    T.FloatType(),
    T.DoubleType(),
    T.DecimalType(10, 2),
    T.DecimalType(38, 18),
    T.DecimalType(5, 5),
    T.StringType(),
    T.BinaryType(),
    T.DateType(),
    T.TimestampType(),
    T.TimestampNTZType(),
)
_WAYS: dict[type[T.DataType], tuple[str, ...]] = {
    T.TimestampType: ("epoch-seconds", "epoch-millis", "epoch-micros"),
    T.TimestampNTZType: ("epoch-seconds", "epoch-millis", "epoch-micros"),
    T.DateType: ("epoch-days",),
    T.FloatType: ("nan-is-null",),
    T.DoubleType: ("nan-is-null",),
    T.StringType: ("json",),
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


def schema(rng: random.Random) -> tuple[T.StructType, dict[str, str]]:
    """Some columns, and how some of them are read."""
    fields = [T.StructField(f"c{n}", _kind(rng, 2), nullable=rng.random() < 0.8) for n in range(rng.randint(1, 5))]
    ways = {
        field.name: rng.choice(_WAYS[type(field.dataType)])
        for field in fields
        if type(field.dataType) in _WAYS and rng.random() < 0.4
    }
    return T.StructType(fields), ways


def _kind(rng: random.Random, depth: int) -> T.DataType:
    which = rng.random()
    if depth and which < 0.1:
        return T.ArrayType(_kind(rng, depth - 1))
    if depth and which < 0.2:
        return T.MapType(T.StringType(), _kind(rng, depth - 1))
    if depth and which < 0.3:
        names = rng.sample("abc", rng.randint(1, 3))
        return T.StructType([T.StructField(name, _kind(rng, depth - 1), rng.random() < 0.9) for name in names])
    return rng.choice(_SIMPLE)


def value(rng: random.Random, kind: T.StructType, ways: Mapping[str, str]) -> bytes | None:
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


def _literal(rng: random.Random, kind: T.DataType, way: str, wild: float) -> str:
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
    if isinstance(kind, T.BooleanType):
        return rng.choice(("true", "false"))
    if type(kind) in BITS:
        bits = BITS[type(kind)]
        return str(rng.choice((rng.randint(-(2 ** (bits - 1)), 2 ** (bits - 1) - 1), rng.randint(-9, 9))))
    if isinstance(kind, T.FloatType | T.DoubleType):
        bits = rng.getrandbits(64)
        number: float = struct.unpack(">d", struct.pack(">Q", bits))[0]
        exact = rng.choice(
            (repr(number), f"{rng.uniform(-1e6, 1e6):.{rng.randrange(30)}f}", str(bits), f"{bits}e-{rng.randrange(80)}")
        )
        return exact if "n" not in exact else "0.1"
    if isinstance(kind, T.DecimalType):
        number_ = Decimal(rng.randrange(10**kind.precision)).scaleb(-kind.scale - rng.choice((0, 0, 0, 1)))
        return rng.choice((f"{number_:f}", f"{number_:e}", f'"{number_:f}"', f"-{number_:f}"))
    if isinstance(kind, T.StringType):
        return json.dumps(
            "".join(rng.choices(string.printable + "üß€😀\u2028", k=rng.randrange(8))), ensure_ascii=rng.random() < 0.5
        )
    if isinstance(kind, T.BinaryType):
        return json.dumps(base64.b64encode(rng.randbytes(rng.randrange(6))).decode())
    at = dt.datetime(1, 1, 1) + dt.timedelta(microseconds=rng.randrange(315_537_897_600_000_000))
    if isinstance(kind, T.DateType):
        return f'"{at.date().isoformat()}"'
    if isinstance(kind, T.TimestampType | T.TimestampNTZType):
        zones = ("Z", "", "+02:00", "-0730") if isinstance(kind, T.TimestampType) else ("", "", "", "Z")
        precision = rng.choice(("auto", "seconds", "minutes", "milliseconds"))
        return f'"{at.isoformat(rng.choice("T "), precision)}{rng.choice(zones)}"'
    if isinstance(kind, T.ArrayType):
        return f"[{','.join(_literal(rng, kind.elementType, '', wild) for _ in range(rng.randrange(4)))}]"
    if isinstance(kind, T.MapType):
        names = rng.sample(("", "a", "b", "\\u00fc", "😀"), rng.randrange(4))
        return "{" + ",".join(f'"{name}":{_literal(rng, kind.valueType, "", wild)}' for name in names) + "}"
    assert isinstance(kind, T.StructType)
    fields = [field for field in kind.fields if rng.random() < 0.9]
    return "{" + ",".join(f'"{f.name}":{_literal(rng, f.dataType, "", wild)}' for f in fields) + "}"
