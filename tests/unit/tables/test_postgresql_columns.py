"""How values of nested columns are written as JSON."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import psycopg
import pyarrow as pa
import pytest

from anabranch.tables import postgresql_columns

AT = datetime(2026, 1, 2, 3, 4, 5, 678901, tzinfo=UTC)
INNER = pa.struct([("raw", pa.binary()), ("real", pa.float64())])


def only_json(text: str) -> Any:
    def refuse(constant: str) -> None:
        raise ValueError(f"{constant} is not JSON")

    return json.loads(text, parse_constant=refuse)


@pytest.mark.parametrize(
    ("kind", "value", "written"),
    [
        (pa.list_(pa.binary()), [b"\x00\xff", None, b""], ["\\x00ff", None, "\\x"]),
        (
            pa.list_(pa.float64()),
            [1.5, float("nan"), float("inf"), -float("inf")],
            [1.5, "NaN", "Infinity", "-Infinity"],
        ),
        (pa.list_(pa.float32()), [0.5, float("nan")], [0.5, "NaN"]),
        (pa.list_(pa.decimal128(10, 2)), [Decimal("12.30")], ["12.30"]),
        (pa.list_(pa.bool_()), [True, False], [True, False]),
        (pa.list_(pa.date32()), [date(2026, 1, 2)], ["2026-01-02"]),
        (pa.list_(pa.timestamp("us", tz="UTC")), [AT], ["2026-01-02 03:04:05.678901+00:00"]),
        (pa.list_(pa.list_(pa.string())), [["a", 'b"'], [], None], [["a", 'b"'], [], None]),
        (pa.list_(pa.int64()), [], []),
        (pa.map_(pa.string(), pa.int32()), [], {}),
        (pa.map_(pa.string(), pa.int32()), [("a", 1), ("b", None)], {"a": 1, "b": None}),
        (pa.map_(pa.int64(), INNER), [(2, {"raw": b"\x01", "real": 1.0})], {"2": {"raw": "\\x01", "real": 1.0}}),
        (pa.map_(pa.date32(), pa.bool_()), [(date(2026, 1, 2), True)], {"2026-01-02": True}),
        (pa.map_(pa.bool_(), pa.string()), [(True, "a")], {"true": "a"}),
        (pa.map_(pa.binary(), pa.string()), [(b"\x01", "a")], {"\\x01": "a"}),
        (
            pa.struct([("counts", pa.map_(pa.string(), pa.float64())), ("none", INNER)]),
            {"counts": [("a", float("nan"))], "none": None},
            {"counts": {"a": "NaN"}, "none": None},
        ),
    ],
)
def test_nested_values_are_written_as_json(kind: pa.DataType, value: Any, written: Any) -> None:
    first, second = postgresql_columns.text(pa.array([value, None], kind)).to_pylist()
    assert only_json(first) == written
    assert second is None


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (pa.string(), "\\0 \\u0000"),
        (pa.list_(pa.string()), ["\\u0000", "\\\\u0000"]),
        (pa.list_(pa.binary()), [b"\0"]),
        (pa.binary(), b"\0"),
    ],
)
def test_text_that_only_looks_like_u0000_is_stored(postgresql_url: str, kind: pa.DataType, value: Any) -> None:
    column = pa.array([None, value], kind)
    texts = postgresql_columns.text(column)
    postgresql_columns.check_text("x", column, texts, "the table")
    name = postgresql_columns.type_of(pa.field("x", kind), "the table").as_string()
    with psycopg.connect(postgresql_url) as connection:
        assert connection.execute(f"select %s::{name} is not null".encode(), [texts[1].as_py()]).fetchone() == (True,)


def test_postgresql_casts_back_what_json_lacks(postgresql_url: str) -> None:
    value = {"raw": b"\x00\xff", "real": float("-inf"), "price": Decimal("12.30"), "at": AT}
    kind = pa.struct([*INNER, ("price", pa.decimal128(10, 2)), ("at", pa.timestamp("us", tz="UTC"))])
    (text,) = postgresql_columns.text(pa.array([value], kind)).to_pylist()
    with psycopg.connect(postgresql_url, options="-c timezone=UTC") as connection:
        found = connection.execute(
            "select (x->>'raw')::bytea, (x->>'real')::float8, (x->>'price')::numeric, (x->>'at')::timestamptz "
            "from (select %s::jsonb as x) as given",
            [text],
        ).fetchone()
    assert found == tuple(value.values())
