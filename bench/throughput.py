"""Rows per second of anabranch's lanes, as a ratio to queries written by hand with the same reader and writer."""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery
from tests.support.interruption import interruptible

from anabranch import Job, config
from anabranch.container.checkpoint.folder import Folder
from anabranch.grouping import groupers
from anabranch.model.lane import Lane
from anabranch.planning import plan as planning
from anabranch.spark.query import resolution, sink
from anabranch.spark.query.plan import LoadedJob
from anabranch.spark.query.query import LaneQuery
from anabranch.spark.session import session
from anabranch.systems.embedded import EmbeddedSystem, Log, append, read_slice
from anabranch.systems.embedded.spark import FORMAT
from anabranch.systems.output import Target
from anabranch.systems.records import RECORD_SCHEMA
from anabranch.systems.systems import Systems

PARTITIONS = 4
KEYS = 4_000
SCHEMA = "carrier string, flight int, origin string, dest string, dep_delay int, hour string"
STATE_PARTITIONS = 4
WARMING = 3
"""Pairs that aren't counted: in the first pairs, Java still compiles, and both queries use what it has compiled."""


@dataclass(frozen=True)
class Bench:
    """What all queries of a run use: the session, the settings, the log, a folder, and the sizes of input and batch."""

    spark: SparkSession
    settings: config.Settings
    log: Log
    folder: Path
    rows: int
    batch: int


def records(rows: int) -> Iterator[pa.RecordBatch]:
    """Flight-like JSON of about 110 bytes, keyed by one of ``KEYS`` tail numbers."""
    random = np.random.default_rng(1)
    for start in range(0, rows, 100_000):
        count = min(100_000, rows - start)
        keys = pc.binary_join_element_wise("N", pa.array(random.integers(0, KEYS, count)).cast(pa.string()), "")
        delay = pa.array(random.integers(-10, 60, count)).cast(pa.string())
        dest = pc.binary_join_element_wise("D", pa.array(random.integers(0, 100, count)).cast(pa.string()), "")
        flight = pa.array(np.arange(start, start + count)).cast(pa.string())
        value = pc.binary_join_element_wise(
            '{"carrier":"UA","flight":', flight, ',"origin":"EWR","dest":"', dest, '","dep_delay":', delay,
            ',"hour":"2013-01-01T10:00:00Z"}', "",
        )  # fmt: skip
        yield pa.RecordBatch.from_arrays(
            [
                keys.cast(pa.binary()),
                value.cast(pa.binary()),
                pa.nulls(count, RECORD_SCHEMA.field("headers").type),
                pa.array(np.full(count, 1_400_000_000_000_000), RECORD_SCHEMA.field("timestamp").type),
            ],
            schema=RECORD_SCHEMA,
        )


def filter_job(output: str) -> Job:
    job = Job("bench")
    job.read("flights", key="tailnum string", schema=SCHEMA).where("dep_delay >= 15").write(output)
    return job


def count_job(output: str) -> Job:
    job = Job("bench")
    flights = job.read("flights", key="tailnum string", schema=SCHEMA)
    flights.agg(flights="count(*)", total="sum(dep_delay)").write(output)
    return job


def filter_by_hand(raw: DataFrame) -> DataFrame:
    parsed = raw.select(F.from_json(F.col("value").cast("string"), SCHEMA).alias("v"), "*")
    rows = parsed.select("v.*", F.col("key").cast("string").alias("tailnum"), "key", "headers", "timestamp", "offset")
    value = F.to_json(F.struct("carrier", "flight", "origin", "dest", "dep_delay", "hour", "tailnum"))
    late = rows.where("dep_delay >= 15")
    return _output(late, F.col("key"), value, F.col("headers"), F.col("timestamp"), F.col("offset"))


def count_by_hand(raw: DataFrame) -> DataFrame:
    parsed = raw.select(F.from_json(F.col("value").cast("string"), SCHEMA).alias("v"), "key")
    rows = parsed.select("v.*", F.col("key").cast("string").alias("tailnum"))
    counted = rows.groupBy("tailnum").agg(F.count("*").alias("flights"), F.sum("dep_delay").alias("total"))
    value = F.to_json(F.struct("tailnum", "flights", "total"))
    headers = F.lit(None).cast("string")
    key = F.col("tailnum").cast("binary")
    return _output(counted, key, value, headers, F.current_timestamp(), F.lit(0).cast("bigint"))


def _output(frame: DataFrame, key: Any, value: Any, headers: Any, timestamp: Any, origin: Any) -> DataFrame:
    return frame.select(
        F.lit(0).alias("output"),
        key.alias("key"),
        value.cast("binary").alias("value"),
        headers.alias("headers"),
        timestamp.alias("timestamp"),
        origin.alias("origin"),
    )


def by_hand(bench: Bench, build: Callable[[DataFrame], DataFrame], mode: str, output: str) -> StreamingQuery:
    """What a careful person would write: the reader, the operators, and the exactly-once writer in foreachBatch.

    The query has our state store and our number of partitions, and writes checkpoints in Spark's own way.
    """
    partitions = list(range(PARTITIONS))
    options = {
        "root": str(bench.log.root), "stream": "flights", "partitions": json.dumps(partitions), "starting": "{}",
        "max_rows": str(bench.batch),
    }  # fmt: skip
    lane = Lane(id=output, job="by-hand", deployment=0, stage="0", group="outputs", seat="0", tasks=(), ssps=())
    publisher = EmbeddedSystem(bench.log.root).publisher(lane, 1)
    targets = {0: Target(output, PARTITIONS)}

    def each(batch: DataFrame, number: int) -> None:
        publisher.publish(number, sink.write(sink.writing(batch, publisher.output, targets, number)), {})

    frame = build(bench.spark.readStream.format(FORMAT).options(**options).load())
    stream = frame.writeStream.foreachBatch(each).outputMode(mode)
    stream = stream.option("checkpointLocation", str(bench.folder / "by-hand" / output))
    # A query takes the session's settings when it starts.
    settings = {**session.SPARKS_OWN, "spark.sql.shuffle.partitions": str(STATE_PARTITIONS)}
    kept = {name: bench.spark.conf.get(name) for name in settings}
    try:
        for name, value in settings.items():
            bench.spark.conf.set(name, value)
        return stream.start()
    finally:
        for name, before in kept.items():
            bench.spark.conf.set(name, before)


def anabranch(bench: Bench, job: Job, output: str) -> StreamingQuery:
    """The same query as a lane of a job. Records that can't be processed are treated as in a real job."""
    systems = Systems(bench.settings, job.name)
    around = planning.Surroundings(
        factor=1,
        containers=1,
        grouper_name="partition",
        grouper=groupers.named("partition"),
        partitions={name: bench.log.describe(name).partitions for name in bench.log.streams()},
        systems=systems.bound(),
    )
    plan = planning.make(job.graph, around)
    for each in plan.outputs:
        if not systems.is_table(str(each.stream)):
            bench.log.create(str(each.stream), each.partitions)
    (lane,) = planning.lanes_of(plan, STATE_PARTITIONS, lambda: output[-8:])
    folder = Folder(bench.spark, str(bench.folder / "lanes" / output))
    schemas = resolution.columns(job.graph, job.functions, {}, "", bench.settings.outputs)
    return LaneQuery(
        job=LoadedJob(bench.spark, bench.settings, job.graph, job.functions, schemas, {}, ""),
        lane=lane,
        epoch=1,
        folder=folder.uri,
        planned=folder.batch,
        clock=str(bench.folder / f"{output}.clock"),
        starting={},
    ).start()


def measured(bench: Bench, query: StreamingQuery) -> float:
    """Rows per second over all full batches except the first, which warms up."""
    try:
        query.processAllAvailable()
        batches = [p for p in query.recentProgress if p["numInputRows"]]
    finally:
        query.stop()
    assert sum(p["numInputRows"] for p in batches) >= bench.rows
    counted = [p for p in batches if p["numInputRows"] >= bench.batch][1:]
    seconds = sum(p["durationMs"]["triggerExecution"] for p in counted) / 1000
    return float(sum(p["numInputRows"] for p in counted) / seconds)


def written(bench: Bench, output: str) -> list[tuple[bytes, bytes]]:
    """The number of records and the last value of each key, to check that both sides did the same."""
    found: dict[bytes, bytes] = {}
    total = 0
    for partition, tail in bench.log.ends(output).items():
        for piece in bench.log.slices(output, partition, 0, tail.end):
            for batch in read_slice(piece):
                total += batch.num_rows
                found.update(zip(batch.column("key").to_pylist(), batch.column("value").to_pylist(), strict=True))
    return [(b"records", str(total).encode()), *sorted(found.items())]


def pairs(
    bench: Bench, name: str, job: Callable[[str], Job], hand: Callable[[DataFrame], DataFrame], count: int
) -> None:
    mode = "append" if name == "filter" else "update"
    ratios: list[float] = []
    for number in range(1 - WARMING, count + 1):
        ours, theirs = f"ours-{name}-{number + WARMING:08d}", f"hand-{name}-{number + WARMING:08d}"
        for output in (ours, theirs):
            bench.log.create(output, PARTITIONS)
        # Each side goes first in every other pair. The pairs up to 0 warm both sides up, and aren't counted.
        sides = [lambda o=ours: anabranch(bench, job(o), o), lambda o=theirs: by_hand(bench, hand, mode, o)]
        order = (0, 1) if number % 2 else (1, 0)
        speed = {side: measured(bench, sides[side]()) for side in order}
        if written(bench, ours) != written(bench, theirs):
            raise SystemExit(f"{name}: the two sides wrote different records")
        if number > 0:
            ratios.append(speed[0] / speed[1])
            print(f"{name} pair {number}: {speed[0]:,.0f} / {speed[1]:,.0f} rows/s = {ratios[-1]:.2f}", flush=True)
    print(f"{name}: anabranch / by hand, median of {count} pairs: {statistics.median(ratios):.2f}", flush=True)


def reading(bench: Bench, count: int) -> None:
    """Compare reading the log with Spark's reading of the same rows from Parquet: one stream each, without output."""
    parquet = str(bench.folder / "parquet")
    tables = [
        pa.Table.from_batches([b for piece in bench.log.slices("flights", p, 0, tail.end) for b in read_slice(piece)])
        for p, tail in bench.log.ends("flights").items()
    ]
    Path(parquet).mkdir()
    for number, table in enumerate(tables):
        pa.parquet.write_table(table.drop_columns(["headers"]), f"{parquet}/{number}.parquet")

    def of_log() -> float:
        options = {"root": str(bench.log.root), "stream": "flights", "partitions": "[0,1,2,3]", "starting": "{}"}
        frame = bench.spark.readStream.format(FORMAT).options(**options, max_rows=str(bench.rows)).load()
        return _drained(bench, frame.drop("headers"))

    def of_parquet() -> float:
        schema = "key binary, value binary, timestamp timestamp"
        return _drained(bench, bench.spark.readStream.schema(schema).parquet(parquet))

    ratios = []
    for number in range(count + 1):
        ours, theirs = of_log(), of_parquet()
        if number:
            ratios.append(ours / theirs)
    print(f"reading the log / reading Parquet, median of {count} pairs: {statistics.median(ratios):.2f}", flush=True)


def _drained(bench: Bench, frame: DataFrame) -> float:
    folder = tempfile.mkdtemp(dir=bench.folder)
    query = frame.writeStream.format("noop").option("checkpointLocation", folder).start()
    try:
        query.processAllAvailable()
        batches = [p for p in query.recentProgress if p["numInputRows"]]
    finally:
        query.stop()
    return float(bench.rows / (sum(p["durationMs"]["triggerExecution"] for p in batches) / 1000))


@contextmanager
def filled(several: Iterable[pa.RecordBatch], rows: int, batch: int) -> Iterator[Bench]:
    """A folder, a log with these records in the stream ``flights``, and a session, all for this run."""
    with tempfile.TemporaryDirectory(prefix="anabranch-bench-") as name:
        folder = Path(name)
        (folder / "anabranch.toml").write_text(f"[job]\nmax_rows_per_batch = {batch}\ntarget_batch_seconds = 0\n")
        settings = config.load(folder / "anabranch.toml")
        log = Log(settings.systems.embedded.root)
        settings.systems.embedded.root.mkdir(parents=True)
        log.create("flights", PARTITIONS)
        begun = time.monotonic()
        append(log, "flights", several)
        print(f"{rows:,} rows in the log after {time.monotonic() - begun:.0f} s", flush=True)
        spark = session.start(settings)
        yield Bench(spark, settings, log, folder, rows, batch)
        spark.stop()


def main() -> None:
    interruptible()
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", type=int, default=7)
    parser.add_argument("--rows", type=int, default=4_000_000)
    parser.add_argument("--batch", type=int, default=500_000)
    arguments = parser.parse_args()
    import pyarrow.parquet  # noqa: F401

    with filled(records(arguments.rows), arguments.rows, arguments.batch) as bench:
        reading(bench, arguments.pairs)
        pairs(bench, "filter", filter_job, filter_by_hand, arguments.pairs)
        pairs(bench, "count", count_job, count_by_hand, arguments.pairs)


if __name__ == "__main__":
    main()
