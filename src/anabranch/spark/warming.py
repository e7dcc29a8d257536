"""Makes a session quick: what Java and Python load for a first batch, they load here."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

__all__ = ["warm"]


def warm(spark: SparkSession) -> None:
    """Run a stateful batch with a Python function in it, and throw it away."""
    with tempfile.TemporaryDirectory(prefix="anabranch-warming-", ignore_cleanup_errors=True) as folder:
        source = f"{folder}/source"
        spark.range(100).select(F.col("id").cast("string").alias("value")).write.text(source)
        rows = spark.readStream.text(source).mapInArrow(_same, "value string")
        counted = rows.groupBy(F.length("value").alias("length")).agg(F.count("*").alias("rows"))
        query = (
            counted.writeStream.outputMode("update")
            .option("checkpointLocation", f"{folder}/checkpoint")
            .trigger(availableNow=True)
            .foreachBatch(_look)
            .start()
        )
        query.awaitTermination()


def _same(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    yield from batches


def _look(frame: DataFrame, batch: int) -> None:
    frame.collect()
