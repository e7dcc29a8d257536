"""What Spark has to do for each record that it reads."""

from __future__ import annotations

import datetime as dt

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from anabranch import Job
from anabranch.formats import Format
from anabranch.spark.query.source import day
from anabranch.spark.values import decoding
from anabranch.systems.source import SCHEMA


def records(spark: SparkSession) -> DataFrame:
    made = {name: F.lit(None).cast(kind) for name, kind in (part.split(" ", 1) for part in SCHEMA.split(", "))}
    text = F.col("id").cast("string").cast("binary")
    return spark.range(3).select(*[(text if n in ("key", "value") else c).alias(n) for n, c in made.items()])


@pytest.mark.parametrize("fail", [False, True], ids=["rejected", "failing"])
def test_a_value_and_a_key_are_each_checked_once(
    spark: SparkSession, fail: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    job = Job("j")
    job.read("in", key="k string").write("out")
    taken = decoding.of_graph(job.graph.nodes[0], Format(name="string"), keyed=False)
    observed = taken.opened(records(spark), explains=fail).observe("seen", *taken.measures([0], timed=False))
    rows = taken.rows(observed, F.lit(0), "in", fail)

    rows.explain()
    assert capsys.readouterr().out.count("UDF(") == 2
    assert [(row["value"], row["k"]) for row in rows.collect()] == [(str(n), str(n)) for n in range(3)]


@pytest.mark.parametrize(("zone", "its"), [("UTC", "2020-01-02"), ("America/Los_Angeles", "2020-01-01")])
def test_the_day_of_a_batch_is_that_of_the_session_s_time_zone(spark: SparkSession, zone: str, its: str) -> None:
    planned = int(dt.datetime(2020, 1, 2, 3, tzinfo=dt.UTC).timestamp() * 1000)
    before = spark.conf.get("spark.sql.session.timeZone")
    assert before is not None
    spark.conf.set("spark.sql.session.timeZone", zone)
    try:
        (row,) = spark.range(1).select(day(planned).cast("string")).collect()
    finally:
        spark.conf.set("spark.sql.session.timeZone", before)
    assert row[0] == its
