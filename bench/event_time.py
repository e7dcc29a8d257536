"""What anabranch's watermark costs compared with Spark's own: hourly counts by the same query on the same log."""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from tests.support.interruption import interruptible

from anabranch import Job, tumbling
from anabranch.systems.records import RECORD_SCHEMA
from bench.throughput import KEYS, PARTITIONS, Bench, anabranch, filled

FIRST = 1_356_998_400
SPEED = 20_000
"""Rows per hour of event time."""


def records(rows: int) -> Iterator[pa.RecordBatch]:
    """Rows of about 40 bytes in the order of their event time, keyed by one of ``KEYS`` tail numbers."""
    random = np.random.default_rng(1)
    for start in range(0, rows, 100_000):
        count = min(100_000, rows - start)
        keys = pc.binary_join_element_wise("N", pa.array(random.integers(0, KEYS, count)).cast(pa.string()), "")
        at = pa.array(FIRST + np.arange(start, start + count) * 3600 // SPEED, pa.timestamp("s"))
        value = pc.binary_join_element_wise('{"at":"', pc.strftime(at, format="%Y-%m-%dT%H:%M:%SZ"), '"}', "")
        yield pa.RecordBatch.from_arrays(
            [
                keys.cast(pa.binary()),
                value.cast(pa.binary()),
                pa.nulls(count, RECORD_SCHEMA.field("headers").type),
                pa.array(np.full(count, FIRST * 1_000_000), RECORD_SCHEMA.field("timestamp").type),
            ],
            schema=RECORD_SCHEMA,
        )


def job(output: str) -> Job:
    built = Job("bench")
    read = built.read("flights", key="tailnum string", schema="at timestamp", event_time="at", watermark="1 hour")
    read.window(tumbling("1 hour")).agg(n="count(*)").write(output)
    return built


def batches(bench: Bench, output: str) -> list[tuple[int, float]]:
    """Rows and seconds of every batch that ran, except the first, which warms up."""
    bench.log.create(output, PARTITIONS)
    query = anabranch(bench, job(output), output)
    try:
        query.processAllAvailable()
        ran: list[Any] = [p for p in query.recentProgress if "addBatch" in p["durationMs"]]
    finally:
        query.stop()
    return [(p["numInputRows"], p["durationMs"]["triggerExecution"] / 1000) for p in ran[1:]]


def main() -> None:
    interruptible()
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--rows", type=int, default=2_000_000)
    parser.add_argument("--batch", type=int, default=200_000)
    arguments = parser.parse_args()
    with filled(records(arguments.rows), arguments.rows, arguments.batch) as bench:
        settings = bench.settings
        bench.spark.conf.set("spark.sql.streaming.numRecentProgressUpdates", "1000")
        scopes = {
            scope: replace(
                bench,
                settings=settings.model_copy(
                    update={"job": settings.job.model_copy(update={"watermark_scope": scope})}
                ),
            )
            for scope in ("ssp", "lane")
        }
        print("pair: our watermark / Spark's own: ms a full batch, batches in all, s in all", flush=True)
        ratios: list[float] = []
        extra: list[float] = []
        for number in range(arguments.pairs + 1):
            order = ("ssp", "lane") if number % 2 else ("lane", "ssp")
            ran = {scope: batches(scopes[scope], f"{scope}-{number:08d}") for scope in order}
            full = {s: statistics.median(t for rows, t in each if rows >= arguments.batch) for s, each in ran.items()}
            whole = {scope: sum(seconds for _, seconds in each) for scope, each in ran.items()}
            if number:
                ratios.append(full["ssp"] / full["lane"])
                extra.append(full["ssp"] - full["lane"])
                told = [f"{full[s] * 1000:.0f} ms, {len(ran[s])}, {whole[s]:.1f} s" for s in ("ssp", "lane")]
                print(f"pair {number}: {told[0]} / {told[1]} = {ratios[-1]:.2f}", flush=True)
        more = statistics.median(extra)
        print(
            f"event time: median of {arguments.pairs} pairs: {statistics.median(ratios):.2f} times a batch of "
            f"{arguments.batch:,} rows; {more * 1000:+.0f} ms a batch, {more / arguments.batch * 1e6:+.3f} µs a row"
        )


if __name__ == "__main__":
    main()
