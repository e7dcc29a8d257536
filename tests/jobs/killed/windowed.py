"""How many records each key has in a minute, and their sum."""

from __future__ import annotations

from anabranch import Job, tumbling

job = Job("windowed")

numbers = job.read("numbers", key="k string", schema="n int, at timestamp", event_time="at", watermark="0 seconds")
numbers.window(tumbling("1 minute")).agg(records="count(*)", total="sum(n)", emit="on_close").write("minutes")
