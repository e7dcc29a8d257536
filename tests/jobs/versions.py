"""A job that tags what it reads with the version of a module beside it, and counts."""

from __future__ import annotations

from tagging import tagged

from anabranch import Job

job = Job("versions")

flights = job.read("flights", key="tailnum string", schema="carrier string, origin string, dest string")
flights.map(tagged, schema="tailnum string, origin string, version string").write("tagged")
flights.agg(flights="count(*)", name="per-plane").write("counts")
