"""Joins each departure with the landings of the same plane within eight hours. A departure without such a landing is
written alone."""

from anabranch import Job

job = Job("arrivals")

side = {"key": "tailnum string", "event_time": "at", "watermark": "10 minutes"}
taken_off = job.read("departures", schema="dest string, at timestamp", **side)
landed = job.read("landings", schema="gate string, at timestamp", **side)

(
    taken_off.join(landed, within="8 hours", how="left", prefix="landed_")
    .select("tailnum", "dest", "at", "landed_at", "landed_gate")
    .write("arrivals")
)
