"""Writes late flights, and the number of flights and their mean delay for each destination and hour."""

from anabranch import Job, tumbling

job = Job("delays")

flights = job.read(
    "flights",
    key="tailnum string",
    schema="carrier string, origin string, dest string, dep_delay int, at timestamp",
    event_time="at",
    watermark="10 minutes",
)

flights.where("dep_delay >= 15").write("late-flights")

(
    flights.partition_by("dest")
    .window(tumbling("1 hour"))
    .agg(flights="count(*)", mean_delay="avg(dep_delay)", emit="on_close")
    .write("delay-by-destination")
)
