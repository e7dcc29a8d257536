"""All that a drain has to empty: a join, windows and timers; durable stages behind them, and one inside the query."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any

from anabranch import Job, MapState, Processor, Timers, tumbling

MINUTE = timedelta(minutes=1)


class Minutely(Processor):
    """A row for each key and minute, when that is over."""

    rows = MapState("timestamp", "long")

    def on_message(self, message: dict[str, Any], timers: Timers) -> None:
        ends = message["at"].replace(second=0, microsecond=0) + MINUTE
        self.rows.set(ends, self.rows.get(ends, 0) + 1)
        timers.register(ends)

    def on_timer(self, key: dict[str, Any], at: datetime, timers: Timers) -> Iterator[dict[str, Any]]:
        yield {"k": key["k"], "ends": at, "n": self.rows.get(at)}
        self.rows.delete(at)


job = Job("every")
SIDE: dict[str, Any] = {"schema": "n int, at timestamp", "event_time": "at", "watermark": "10 seconds"}
asked = job.read("asked", key="k string", **SIDE)
told = job.read("told", key="k string", **SIDE)
rules = job.read("rules", key="k string", schema="n int", broadcast=True)

pairs = asked.join(told, within="20 seconds", how="left", prefix="told_", name="pairs")
pairs.write("pairs")
by_n = pairs.with_columns(alone="told_n IS NULL").partition_by("n", name="by-n")
by_n.partition_by("alone", name="by-kind").agg(n="count(*)", name="of-kind").write("kinds")

minutely = asked.process(Minutely(), schema="k string, ends timestamp, n long", timers="event_time", name="minutely")
minutely.write("minutely")
minutely.partition_by("ends", name="by-minute").agg(n="count(*)", name="of-minute").write("minutes")

by_five = told.with_columns(five="n % 5").partition_by("five", via="spark", name="inside")
by_five.window(tumbling("1 minute")).agg(n="count(*)", name="windows").write("windows")

asked.select("k", "n").merge(rules).agg(n="count(*)", of_rules="count_if(n < 0)", name="given").write("given")
