"""A Structured Streaming query as one would write it by hand, with Spark's defaults, in a process of its own.

For a query with state, two defaults are changed, as anyone would change them: the query uses RocksDB, and has as many
state partitions as anabranch, not 200. SIGUSR1 stops the query and starts it again. SIGTERM stops the query for
good: the process prints how long this took, and ends. SIGUSR2 does the same, but first lets the running batch be
committed.

Arguments: a JSON object with bootstrap, work, input, other (the second topic of a join), table (a CSV file), output,
folder, jars, batch (0: no limit), schema, late and state.
"""

from __future__ import annotations

import json
import signal
import sys
import threading
import time
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery

ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"


def passed(raw: DataFrame, given: dict[str, Any]) -> DataFrame:
    parsed = raw.select("key", "value", F.from_json(raw.value.cast("string"), "dep_delay int").alias("flight"))
    return parsed.where(f"flight.dep_delay >= {given['late']}").select("key", "value")


def rewritten(raw: DataFrame, given: dict[str, Any]) -> DataFrame:
    parsed = raw.select("key", F.from_json(raw.value.cast("string"), given["schema"]).alias("flight"))
    return parsed.where(f"flight.dep_delay >= {given['late']}").select("key", F.to_json("flight").alias("value"))


def counted(raw: DataFrame, given: dict[str, Any]) -> DataFrame:
    delay = F.from_json(raw.value.cast("string"), "dep_delay int").dep_delay
    counts = raw.groupBy("key").agg(F.count("*").alias("flights"), F.sum(delay).alias("total"))
    return counts.select("key", F.to_json(F.struct("flights", "total")).alias("value"))


def windowed(raw: DataFrame, given: dict[str, Any]) -> DataFrame:
    parsed = raw.select("key", F.from_json(raw.value.cast("string"), "at timestamp").at.alias("at"))
    of_window = parsed.withWatermark("at", "5 seconds").groupBy("key", F.window("at", "10 seconds").alias("window"))
    counts = of_window.agg(F.count("*").alias("flights"))
    return counts.select("key", F.to_json(F.struct("window", "flights")).alias("value"))


def joined(departures: DataFrame, landings: DataFrame) -> DataFrame:
    left = _timed(departures, "flight int, dep_delay int, at timestamp").alias("left")
    right = _timed(landings, "arr_delay int, at timestamp").alias("right")
    within = "left.key = right.key and right.at between left.at - interval 10 seconds and left.at + interval 10 seconds"
    pairs = left.join(right, F.expr(within))
    return pairs.select("left.key", F.to_json(F.struct("flight", "dep_delay", "arr_delay")).alias("value"))


def _timed(raw: DataFrame, schema: str) -> DataFrame:
    parsed = raw.select("key", F.from_json(raw.value.cast("string"), schema).alias("flight"))
    return parsed.select("key", "flight.*").withWatermark("at", "5 seconds")


def looked_up(raw: DataFrame, table: DataFrame) -> DataFrame:
    parsed = raw.select("key", F.from_json(raw.value.cast("string"), "flight int, dest string").alias("flight"))
    named = parsed.select("key", "flight.*").join(F.broadcast(table), "dest")
    return named.select("key", F.to_json(F.struct("flight", "dest", "name")).alias("value"))


def built(spark: SparkSession, given: dict[str, Any]) -> DataFrame:
    """The records of the workload's input, transformed into those of its output."""
    reader = spark.readStream.format("kafka").option("kafka.bootstrap.servers", given["bootstrap"])
    reader = reader.option("startingOffsets", "earliest")
    if given["batch"]:
        reader = reader.option("maxOffsetsPerTrigger", str(given["batch"]))
    raw = reader.option("subscribe", given["input"]).load()
    if given["work"] == "join":
        return joined(raw, reader.option("subscribe", given["other"]).load())
    if given["work"] == "table":
        return looked_up(raw, spark.read.csv(given["table"], header=True))
    build = {"filter": passed, "rewrite": rewritten, "count": counted, "windows": windowed}[given["work"]]
    return build(raw, given)


def _batch(query: StreamingQuery) -> int:
    """The number of the last batch that was committed, or -1."""
    told = query.lastProgress
    return -1 if told is None else told["batchId"]


def main(given: dict[str, Any]) -> None:
    builder = SparkSession.builder.appName("by hand").master("local[*]").config("spark.driver.memory", "2g")
    builder = builder.config("spark.jars", given["jars"]).config("spark.ui.enabled", "false")
    builder = builder.config("spark.ui.showConsoleProgress", "false")
    if given["work"] in ("count", "windows", "join"):
        builder = builder.config("spark.sql.streaming.stateStore.providerClass", ROCKSDB)
        builder = builder.config("spark.sql.shuffle.partitions", str(given["state"]))
    spark = builder.getOrCreate()
    writer = built(spark, given).writeStream.format("kafka")
    writer = writer.option("kafka.bootstrap.servers", given["bootstrap"]).option("topic", given["output"])
    writer = writer.outputMode("update" if given["work"] == "count" else "append")
    writer = writer.option("checkpointLocation", f"{given['folder']}/checkpoint")
    query, again, over, whole = writer.start(), threading.Event(), threading.Event(), threading.Event()
    signal.signal(signal.SIGUSR1, lambda *_: again.set())
    signal.signal(signal.SIGTERM, lambda *_: over.set())
    signal.signal(signal.SIGUSR2, lambda *_: (whole.set(), over.set()))
    while query.isActive and not over.is_set():
        if again.wait(0.05):
            again.clear()
            query.stop()
            query = writer.start()
    if over.is_set():
        begun = time.monotonic()
        last = _batch(query)
        while whole.is_set() and _batch(query) == last:
            time.sleep(0.01)
        query.stop()
        print(f"stopped in {time.monotonic() - begun:.3f} s", flush=True)
        spark.stop()
    else:
        query.awaitTermination()


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
