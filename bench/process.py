"""Hourly counts by a ``process`` with a map and a timer for each hour, compared with the same counts by a window."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any

from tests.support.interruption import interruptible

from anabranch import Job, MapState, Processor, Timers, tumbling
from bench.event_time import records
from bench.throughput import PARTITIONS, Bench, anabranch, filled

HOUR = timedelta(hours=1)
WARMING = 1


class Hourly(Processor):
    counts = MapState("timestamp", "long")

    def on_message(self, message: dict[str, Any], timers: Timers) -> None:
        ends = message["at"].replace(minute=0, second=0, microsecond=0) + HOUR
        self.counts.set(ends, self.counts.get(ends, 0) + 1)
        timers.register(ends)

    def on_timer(self, key: dict[str, Any], at: datetime, timers: Timers) -> Iterator[dict[str, Any]]:
        yield {"tailnum": key["tailnum"], "ends": at, "n": self.counts.get(at)}
        self.counts.delete(at)


def job(by: str, output: str) -> Job:
    """The job that counts with the given operator: ``"window"`` or ``"process"``."""
    built = Job("bench")
    read = built.read("flights", key="tailnum string", schema="at timestamp", event_time="at", watermark="1 hour")
    if by == "window":
        read.window(tumbling("1 hour")).agg(n="count(*)").write(output)
    else:
        result = "tailnum string, ends timestamp, n long"
        read.process(Hourly(), schema=result, timers="event_time").write(output)
    return built


def speed(bench: Bench, by: str) -> float:
    """Rows per second over all batches that ran, except the first, which warms up."""
    bench.log.create(by, PARTITIONS)
    query = anabranch(bench, job(by, by), by)
    try:
        query.processAllAvailable()
        ran: list[Any] = [p for p in query.recentProgress if "addBatch" in p["durationMs"]][WARMING:]
    finally:
        query.stop()
    seconds = sum(p["durationMs"]["triggerExecution"] for p in ran) / 1000
    return float(sum(p["numInputRows"] for p in ran)) / seconds


def main() -> None:
    interruptible()
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=400_000)
    parser.add_argument("--batch", type=int, default=100_000)
    arguments = parser.parse_args()
    with filled(records(arguments.rows), arguments.rows, arguments.batch) as bench:
        bench.spark.conf.set("spark.sql.streaming.numRecentProgressUpdates", "1000")
        window, process = (speed(bench, by) for by in ("window", "process"))
        print(
            f"process: {process:,.0f} rows/s, a window {window:,.0f} rows/s: {window / process:.0f} times as fast, in "
            f"batches of {arguments.batch:,} rows"
        )


if __name__ == "__main__":
    main()
