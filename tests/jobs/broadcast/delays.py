"""A job with a broadcast input that tells to which virtual task each record came, and counts by key in each task."""

from __future__ import annotations

from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from anabranch import Job

job = Job("delays")


def marked(df: DataFrame) -> DataFrame:
    return df.withColumns({"task": F.col("_anabranch.task"), "bucket": F.col("_anabranch.bucket")})


def same(message: dict[str, Any]) -> dict[str, Any]:
    return message


flights = job.read("flights", key="tailnum string", schema="origin string")
rules = job.read("rules", key="tailnum string", schema="origin string", broadcast=True)
both = flights.merge(rules).transform(marked, name="marked")
both.map(same, name="same").write("late-flights")
both.agg(by=["task"], n="count(*)", name="counted").write("counts")
