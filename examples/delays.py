"""Late flights, and how many flights and what mean delay each destination has in each hour."""

from anabranch import Job

job = Job("delays")

flights = job.read(
    "flights",
    key="tailnum string",
    schema="carrier string, origin string, dest string, dep_delay int, hour string",
)

flights.where("dep_delay >= 15").write("late-flights")

(
    flights.partition_by("dest")
    .agg(by="hour", flights="count(*)", mean_delay="avg(dep_delay)")
    .write("delay-by-destination")
)
