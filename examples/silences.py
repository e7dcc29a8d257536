"""Finds planes that haven't sent anything for an hour, with a timer for each plane."""

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any

from anabranch import Job, Processor, Timers, ValueState

job = Job("silences")
HOUR = timedelta(hours=1)


class Silence(Processor):
    last = ValueState("timestamp")

    def on_message(self, message: dict[str, Any], timers: Timers) -> None:
        before = self.last.get()
        if before is not None:
            if message["at"] <= before:
                return  # messages can come out of order, and the timer is for the latest
            timers.delete(before + HOUR)
        self.last.set(message["at"])
        timers.register(message["at"] + HOUR)

    def on_timer(self, key: dict[str, Any], at: datetime, timers: Timers) -> Iterator[dict[str, Any]]:
        yield {"tailnum": key["tailnum"], "silent_since": at - HOUR}


flights = job.read("flights", key="tailnum string", schema="at timestamp", event_time="at", watermark="10 minutes")

flights.process(Silence(), schema="tailnum string, silent_since timestamp", timers="event_time", name="silence").write(
    "silences"
)
