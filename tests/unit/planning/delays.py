"""The job of the tutorial, and plans of it."""

from __future__ import annotations

from anabranch import Job
from anabranch.planning import plan as planning
from anabranch.planning.plan import Plan, Surroundings

EXACT, ROUGH = planning.EXACTLY_ONCE, planning.AT_LEAST_ONCE


def delays() -> Job:
    """One source; an SQL branch, a function, a stage by destination with a count, and a report of it."""
    job = Job("delays")
    flights = job.read("flights", key="tail string", schema="dest string, delay int")
    flights.where("delay > 15").write("late")
    flights.agg(n="count(*)", name="per-tail").write("tails")
    counts = flights.partition_by("dest").agg(n="count(*)", name="per-dest")
    counts.write("dests")
    counts.foreach_batch(print, name="report")
    return job


def make(job: Job, surroundings: Surroundings) -> Plan:
    return planning.make(job.graph, surroundings)
