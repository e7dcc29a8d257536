"""A job that counts the flights of each plane and hour by hand: a timer at the end of the hour gives the row."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any

from anabranch import Job, MapState, Processor, Timers

job = Job("delays")
HOUR = timedelta(hours=1)


class Hourly(Processor):
    flights = MapState("timestamp", "long")

    def on_message(self, message: dict[str, Any], timers: Timers) -> None:
        ends = message["at"].replace(minute=0, second=0, microsecond=0) + HOUR
        self.flights.set(ends, self.flights.get(ends, 0) + 1)
        timers.register(ends)

    def on_timer(self, key: dict[str, Any], at: datetime, timers: Timers) -> Iterator[dict[str, Any]]:
        yield {"tailnum": key["tailnum"], "ends": at, "n": self.flights.get(at)}
        self.flights.delete(at)


flights = job.read("flights", key="tailnum string", schema="at timestamp", event_time="at", watermark="0 seconds")
flights.process(Hourly(), schema="tailnum string, ends timestamp, n long", timers="event_time", name="hourly").write(
    "hours"
)
