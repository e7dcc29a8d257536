"""Counts of each key that go on, windows, records that pass through; and another stream that nothing happens to."""

from __future__ import annotations

from anabranch import Job, tumbling

job = Job("counted")

numbers = job.read(
    "numbers", key="k string", schema="n int, at timestamp", event_time="at", watermark="5 minutes", name="numbers"
)
numbers.where("n >= 0").write("seen")
numbers.agg(n="count(*)", last="max(n)", name="counts").write("counts")
numbers.window(tumbling("10 seconds")).agg(n="count(*)", name="windows").write("windows")

others = job.read("others", key="k string", schema="n int", name="others")
others.agg(n="count(*)", name="other").write("other-counts")
