"""Rows per second into tables, exactly once, compared with Spark's own Parquet sink: one filter, the same reader, one
session.
"""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import duckdb
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery
from tests.support import postgres
from tests.support.iceberg import iceberg_catalog
from tests.support.interruption import interruptible

from anabranch.config import OutputSettings
from anabranch.spark.query import resolution, tables
from anabranch.spark.session import session
from anabranch.systems.embedded.spark import FORMAT
from anabranch.systems.systems import Systems
from bench.throughput import PARTITIONS, SCHEMA, WARMING, Bench, anabranch, filled, filter_job, measured, records

KINDS = ("parquet", "delta", "iceberg", "postgresql")


def by_spark(bench: Bench, output: str) -> StreamingQuery:
    """Write the job's columns from the embedded log with Spark's own Parquet sink."""
    options = {"root": str(bench.log.root), "stream": "flights", "partitions": str(list(range(PARTITIONS)))}
    raw = bench.spark.readStream.format(FORMAT).options(**options, starting="{}", max_rows=str(bench.batch)).load()
    parsed = raw.select(F.from_json(F.col("value").cast("string"), SCHEMA).alias("v"), "key")
    late = parsed.select("v.*", F.col("key").cast("string").alias("tailnum")).where("dep_delay >= 15")
    stream = late.writeStream.format("parquet").option("path", str(bench.folder / "tables" / output))
    stream = stream.option("checkpointLocation", str(bench.folder / "by-spark" / output))
    kept = {name: bench.spark.conf.get(name) for name in session.SPARKS_OWN}
    try:
        for name, value in session.SPARKS_OWN.items():
            bench.spark.conf.set(name, value)
        return stream.start()
    finally:
        for name, before in kept.items():
            bench.spark.conf.set(name, before)


def by_job(bench: Bench, kind: str, output: str, url: str) -> StreamingQuery:
    """Run a lane that writes into a new table."""
    places: dict[str, dict[str, object]] = {
        "postgresql": {"url": url, "table": output},
        "iceberg": {"table": f"bench.{output}", "catalog": iceberg_catalog(bench.folder / "tables")},
    }
    where = places.get(kind, {"path": str(bench.folder / "tables" / output)})
    bound = {output: OutputSettings(to=kind, **where)}  # type: ignore[arg-type]
    mine = replace(bench, settings=bench.settings.model_copy(update={"outputs": bound}))
    job = filter_job(output)
    written = job.graph.nodes[-1]
    schema = tables.schema_of([written], resolution.columns(job.graph, {}, {}, "", bound))
    Systems(mine.settings).table(output).prepare(schema, create=True)
    return anabranch(mine, job, output)


def rows(path: Path) -> int:
    ((found,),) = duckdb.sql(f"select count(*) from '{path}/*.parquet'").fetchall()
    return int(found)


def sides(bench: Bench, kind: str, number: int, url: str) -> Iterator[float]:
    """The speeds of our side and of Spark's. Each side runs first in every other pair."""
    ours, theirs = f"ours-{kind}-{number:08d}", f"spark-{kind}-{number:08d}"
    speed = {}
    for side in (0, 1) if number % 2 else (1, 0):
        speed[side] = measured(bench, by_spark(bench, theirs) if side else by_job(bench, kind, ours, url))
    placed = bench.folder / "tables" / (f"warehouse/bench/{ours}/data" if kind == "iceberg" else ours)
    if kind != "postgresql" and rows(placed) != rows(bench.folder / "tables" / theirs):
        raise SystemExit(f"{kind}: the two sides wrote different numbers of rows")
    yield from (speed[0], speed[1])


def main() -> None:
    interruptible()
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--rows", type=int, default=4_000_000)
    parser.add_argument("--batch", type=int, default=500_000)
    parser.add_argument("--only", choices=KINDS)
    parser.add_argument("--warming", type=int, default=WARMING, help="pairs that aren't counted")
    given = parser.parse_args()
    kinds = [given.only] if given.only else KINDS
    with ExitStack() as stack:
        url = stack.enter_context(postgres.serving()).new_database() if "postgresql" in kinds else ""
        bench = stack.enter_context(filled(records(given.rows), given.rows, given.batch))
        for kind in kinds:
            ratios = []
            for number in range(1 - given.warming, given.pairs + 1):
                ours, theirs = sides(bench, kind, number + given.warming, url)
                if number > 0:
                    ratios.append(ours / theirs)
                    print(f"{kind} pair {number}: {ours:,.0f} / {theirs:,.0f} rows/s = {ratios[-1]:.2f}", flush=True)
            print(f"{kind}: anabranch / Spark's Parquet sink, median: {statistics.median(ratios):.2f}", flush=True)


if __name__ == "__main__":
    main()
