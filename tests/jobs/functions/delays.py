"""The job of examples/delays.py, with functions instead of outputs."""

from saving import into

from anabranch import Job, tumbling

job = Job("delays")

flights = job.read(
    "flights",
    key="tailnum string",
    schema="carrier string, origin string, dest string, dep_delay int, at timestamp",
    event_time="at",
    watermark="10 minutes",
)

flights.where("dep_delay >= 15").foreach_batch(into("late-flights"))

(
    flights.partition_by("dest")
    .window(tumbling("1 hour"))
    .agg(flights="count(*)", mean_delay="avg(dep_delay)", emit="on_close")
    .foreach_batch(into("delay-by-destination"))
)
