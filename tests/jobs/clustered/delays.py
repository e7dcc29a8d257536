"""The job of the examples with Python functions in it, of a module beside it and of a package below its folder."""

from __future__ import annotations

from marks import unmarked
from notes.witness import marked

from anabranch import Job, tumbling

job = Job("delays")

SCHEMA = "tailnum string, carrier string, origin string, dest string, dep_delay int, at timestamp"
flights = job.read(
    "flights",
    key="tailnum string",
    schema=SCHEMA.removeprefix("tailnum string, "),
    event_time="at",
    watermark="10 minutes",
)

late = flights.where("dep_delay >= 15").map(marked, schema=f"{SCHEMA}, mark string", name="marked")
late.flat_map(unmarked, schema=SCHEMA, name="unmarked").write("late-flights")

(
    flights.partition_by("dest")
    .window(tumbling("1 hour"))
    .agg(flights="count(*)", mean_delay="avg(dep_delay)", emit="on_close")
    .write("delay-by-destination")
)
