"""Each record with its rank in its key, and a row for each key and minute when that is over."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any

from anabranch import Job, MapState, Processor, Timers, ValueState

job = Job("processed")
MINUTE = timedelta(minutes=1)


class Ranked(Processor):
    rank = ValueState("long")
    minutes = MapState("timestamp", "long")

    def on_message(self, message: dict[str, Any], timers: Timers) -> Iterator[dict[str, Any]]:
        rank = self.rank.get(0)
        self.rank.set(rank + 1)
        ends = message["at"].replace(second=0, microsecond=0) + MINUTE
        self.minutes.set(ends, self.minutes.get(ends, 0) + 1)
        timers.register(ends)
        yield {"k": message["k"], "n": message["n"], "rank": rank, "ends": None}

    def on_timer(self, key: dict[str, Any], at: datetime, timers: Timers) -> Iterator[dict[str, Any]]:
        yield {"k": key["k"], "n": self.minutes.get(at), "rank": None, "ends": at}
        self.minutes.delete(at)


numbers = job.read("numbers", key="k string", schema="n int, at timestamp", event_time="at", watermark="0 seconds")
numbers.process(
    Ranked(), schema="k string, n long, rank long, ends timestamp", timers="event_time", name="ranked"
).write("ranked")
