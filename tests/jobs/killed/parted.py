"""A durable stream by another key between two stages: the records as they are, and a running count."""

from __future__ import annotations

from anabranch import Job

job = Job("parted")

numbers = job.read("numbers", key="k string", schema="n int, at timestamp")
groups = numbers.with_columns(g="n % 7").select("k", "n", "g").partition_by("g", name="groups")
groups.select("k", "n").write("passed")
groups.agg(records="count(*)", name="counted").write("counts")
