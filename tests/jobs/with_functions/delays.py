"""The job of examples/delays.py, with functions that change nothing."""

from typing import Any

import pyarrow as pa

from anabranch import Job, tumbling

job = Job("delays")


def same(flight: dict[str, Any]) -> dict[str, Any]:
    return flight


def all_of_them(several: pa.RecordBatch) -> pa.RecordBatch:
    return several


flights = job.read(
    "flights",
    key="tailnum string",
    schema="carrier string, origin string, dest string, dep_delay int, at timestamp",
    event_time="at",
    watermark="10 minutes",
)

flights.where("dep_delay >= 15").map(same).write("late-flights")

(
    flights.map_arrow(all_of_them)
    .partition_by("dest")
    .window(tumbling("1 hour"))
    .agg(flights="count(*)", mean_delay="avg(dep_delay)", emit="on_close")
    .map(same)
    .write("delay-by-destination")
)
