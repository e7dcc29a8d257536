"""As the example, and how many flights each destination ever had."""

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

by_destination = flights.partition_by("dest")
(
    by_destination.window(tumbling("1 hour"))
    .agg(flights="count(*)", mean_delay="avg(dep_delay)", emit="on_close")
    .write("delay-by-destination")
)
by_destination.agg(flights="count(*)", name="counted").write("counts")
