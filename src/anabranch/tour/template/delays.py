"""The job of the tour: it finds late flights, and computes the number of flights and their mean delay for each
destination in each hour."""

import time
from typing import Any

from anabranch import Job, tumbling

job = Job("delays")


def looked_up(flight: dict[str, Any]) -> dict[str, Any]:
    """Returns the flight unchanged, after the time that a call to another service could take. This wait makes the lag
    grow."""
    time.sleep(0.01)
    return flight


flights = job.read(
    "flights",
    key="tailnum string",
    schema="carrier string, flight int, origin string, dest string, dep_delay int, at timestamp",
    event_time="at",
    watermark="10 days",
).map(
    looked_up,
    schema="tailnum string, carrier string, flight int, origin string, dest string, dep_delay int, at timestamp",
)

flights.where("dep_delay >= 15").write("late-flights")

(
    flights.partition_by("dest")
    .window(tumbling("1 hour"))
    .agg(flights="count(*)", mean_delay="avg(dep_delay)", emit="on_close")
    .write("delay-by-destination")
)
