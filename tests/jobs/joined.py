"""Two streams of different partition counts, joined by their key within two minutes."""

from __future__ import annotations

from anabranch import Job

job = Job("joined")

asked = job.read("asked", key="k string", schema="n int, at timestamp", event_time="at", watermark="5 seconds")
told = job.read("told", key="k string", schema="n int, at timestamp", event_time="at", watermark="5 seconds")
asked.join(told, within="2 minutes", how="left", prefix="told_", name="pairs").write("pairs")
