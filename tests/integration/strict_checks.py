"""What is read, compared with what a strict reader says."""

from __future__ import annotations

import math
import struct
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from anabranch.spark.values.plain import JsonReader
from tests.soak import strict_values
from tests.soak.strict_values import Refused


def check(spark: SparkSession, schema: StructType, read_as: dict[str, str], several: list[bytes | None]) -> None:
    """What Spark reads equals what the strict reader reads; what is refused has a reason."""
    reader = JsonReader.of(schema, read_as, "read")
    rows = [(n, None if each is None else bytearray(each)) for n, each in enumerate(several)]
    frame = spark.createDataFrame(rows, "n int, value binary").coalesce(1)
    opened = frame.select(
        "n", reader.opened(F.col("value")).alias("row"), reader.reason(F.col("value")).alias("reason")
    )
    for found in opened.orderBy("n").toArrow().to_pylist():
        raw = several[found["n"]]
        where = f"{raw!r:.300} as {schema.simpleString()} {read_as}"
        expected: dict[str, Any] | Refused
        try:
            expected = strict_values.read(raw, schema, read_as)
        except Refused as refused:
            expected = refused
        if isinstance(expected, Refused):
            assert found["row"] is None, f"{where} was read as {found['row']!r}, and should not have been: {expected}"
            assert 0 < len(found["reason"] or "") < 1000, where
        else:
            assert found["row"] is not None, f"{where} was refused: {found['reason']}"
            assert found["reason"] is None, where
            assert_same(found["row"], expected, where)


def assert_same(found: Any, expected: Any, where: str) -> None:
    if isinstance(expected, tuple):  # ("json", what it holds)
        again = strict_values.json.loads(found, parse_int=strict_values.Number, parse_float=strict_values.Number)
        assert again == expected[1], where
    elif isinstance(expected, dict):
        held = dict(found)
        assert held.keys() == expected.keys(), where
        for name, each in expected.items():
            assert_same(held[name], each, where)
    elif isinstance(expected, list):
        assert len(found) == len(expected), where
        for one, other in zip(found, expected, strict=True):
            assert_same(one, other, where)
    elif isinstance(expected, float):
        assert struct.pack(">d", found) == struct.pack(">d", expected), f"{where}: {found!r}, not {expected!r}"
        assert not math.isnan(found), where
    else:
        assert (type(found), found) == (type(expected), expected), where
