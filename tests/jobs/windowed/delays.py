"""A job with windows of each kind, of event time and of processing time."""

from __future__ import annotations

from anabranch import Job, session, sliding, tumbling

job = Job("delays")

flights = job.read("flights", key="tailnum string", schema="at timestamp", event_time="at", watermark="0 seconds")
flights.window(sliding("1 hour", "20 minutes")).agg(n="count(*)", name="slid").write("slid")
flights.window(session("1 hour")).agg(n="count(*)", name="sessions").write("sessions")
flights.window(tumbling("2 seconds"), time="processing").agg(n="count(*)", name="taken-in").write("taken-in")
