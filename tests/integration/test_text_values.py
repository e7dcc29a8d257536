"""Text is read as Python's strict decoder reads it: bytes that aren't UTF-8 are refused, wherever they are."""

from __future__ import annotations

import random

from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from anabranch.spark.values import codec
from anabranch.spark.values.plain import OpaqueReader

PARTS = [
    *(b"a", b"\x00", b"\x7f", "é".encode(), "€".encode(), "😀".encode(), b"\xef\xbb\xbf"),  # right
    *(b"\x80", b"\xbf", b"\xc0\x80", b"\xc1\xbf", b"\xe0\x80\x80", b"\xf0\x80\x80\x80"),  # alone, and overlong
    *(b"\xed\xa0\x80", b"\xed\xbf\xbf", b"\xf4\x90\x80\x80", b"\xf5\x80\x80\x80", b"\xff", b"\xfe"),  # no characters
    *(b"\xc3", b"\xe2\x82", b"\xf0\x9f\x98"),  # cut short
]
LENGTHS = 25
RANDOM = 2_000


def texts() -> list[bytes | None]:
    """Each part at each place of texts of each length; texts of several parts; and none."""
    chance = random.Random(36)
    found = [
        b"x" * before + part + b"x" * (length - before)
        for part in PARTS
        for length in range(LENGTHS)
        for before in range(length + 1)
    ]
    several = [b"".join(chance.choices(PARTS[:8], k=chance.randrange(12))) for _ in range(RANDOM)]
    return [None, b"", *found, *several, *(chance.randbytes(chance.randrange(1, 12)) for _ in range(RANDOM))]


def is_text(value: bytes | None) -> bool:
    try:
        return value is None or value.decode("utf-8", "strict") is not None
    except UnicodeDecodeError:
        return False


def test_a_text_is_refused_exactly_if_it_is_not_utf8(spark: SparkSession) -> None:
    every = texts()
    frame = spark.createDataFrame(list(enumerate(every)), "n int, value binary")
    reader = OpaqueReader(text=True)
    fault = reader.fault("opened")
    of_key = codec.key_fault(F.col("value"), StructType.fromDDL("name string"))  # type: ignore[arg-type]
    assert fault is not None
    assert of_key is not None
    opened = frame.withColumn("opened", reader.opened(F.col("value")))
    told = opened.select("n", fault.alias("fault"), of_key.alias("key_fault")).collect()
    assert len(told) == len(every) > 10_000
    wrong = [
        (every[row["n"]], row) for row in told if {row["fault"], row["key_fault"]} != {not is_text(every[row["n"]])}
    ]
    assert wrong == []
    assert 0.2 < sum(row["fault"] for row in told) / len(told) < 0.9
