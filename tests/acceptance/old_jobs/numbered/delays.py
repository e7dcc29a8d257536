"""Late flights, flights by destination and hour, and each plane's flights counted by hand."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from anabranch import Job, Processor, Timers, ValueState, tumbling

job = Job("delays")


class Numbered(Processor):
    before = ValueState("long")

    def on_message(self, message: dict[str, Any], timers: Timers) -> Iterator[dict[str, Any]]:
        number = self.before.get(0) + 1
        self.before.set(number)
        yield {"tailnum": message["tailnum"], "origin": message["origin"], "n": number}


flights = job.read(
    "flights",
    key="tailnum string",
    schema="carrier string, origin string, dest string, dep_delay int, at timestamp",
    event_time="at",
    watermark="10 minutes",
)
flights.where("dep_delay >= 15").write("late-flights")
flights.process(Numbered(), schema="tailnum string, origin string, n long", name="numbered").write("numbered-flights")
(
    flights.partition_by("dest", name="by-dest")
    .window(tumbling("1 hour"))
    .agg(flights="count(*)", mean_delay="avg(dep_delay)", emit="on_close", name="hourly")
    .write("delay-by-destination")
)
