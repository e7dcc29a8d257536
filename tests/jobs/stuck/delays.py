"""As the example; but as long as there is a file ``hang`` beside the job, a function never returns from one flight."""

import time
from pathlib import Path
from typing import Any

from anabranch import Job, tumbling

HANG = Path(__file__).resolve().parent / "hang"

job = Job("delays")


def wait(flight: dict[str, Any]) -> dict[str, Any]:
    while flight["origin"] == "EWR-1500" and HANG.exists():
        time.sleep(0.2)
    return flight


flights = job.read(
    "flights",
    key="tailnum string",
    schema="carrier string, origin string, dest string, dep_delay int, at timestamp",
    event_time="at",
    watermark="10 minutes",
).map(wait)

flights.where("dep_delay >= 15").write("late-flights")
(
    flights.partition_by("dest")
    .window(tumbling("1 hour"))
    .agg(flights="count(*)", mean_delay="avg(dep_delay)", emit="on_close")
    .write("delay-by-destination")
)
