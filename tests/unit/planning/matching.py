"""A job whose inputs are bound to a pattern."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from anabranch import Job
from anabranch.model.job_model import JobModel, Matched
from anabranch.planning import patterns
from anabranch.planning import plan as planning
from anabranch.planning.plan import Plan
from anabranch.protocol.deployment import StartRequest
from tests.unit.coordinator.programs import PROGRAM
from tests.unit.planning.factory import around, new_id

PATTERN = "in-.*"


def job() -> Job:
    made = Job("j")
    rows = made.read("in", key="k string", schema="n int")
    rows.where("n > 0").write("in-out")
    rows.agg(n="count(*)", name="counted").write("counts")
    return made


def matched(*streams: str, pattern: str = PATTERN) -> dict[str, Matched]:
    return {"in": Matched(system="embedded", pattern=pattern, streams=streams)}


def planned(made: Job, grouper: str = "partition", factor: int = 1, containers: int = 1, **counts: int) -> Plan:
    """``counts``: of the streams that match, ``in_a`` for ``in-a``, and of others."""
    surroundings = around(grouper, factor, containers, **counts)
    its = matched(*(name for name in surroundings.partitions if name.startswith("in-")))
    return planning.make(made.graph, replace(surroundings, patterns=its))


def named(counts: Mapping[str, int]) -> dict[str, int]:
    return {f"embedded/in-{stream}": count for stream, count in counts.items()}


def found(made: Job, *there: str, known: JobModel | None = None, new: bool = True, pattern: str = PATTERN) -> Any:
    every = {"in": pattern, "other": "never-read"}
    its = patterns.found(made.graph, every, {"in": "embedded"}, {"embedded": there}, known, new)
    return its["in"].streams


# --- the coordinator --------------------------------------------------------------------------------------------------
def start(**counts: int) -> StartRequest:
    made = job()
    plan = planned(made, **counts)
    return StartRequest(
        graph=made.graph, model=plan.model, lanes=planning.lanes_of(plan, 4, new_id), fingerprint={}, program=PROGRAM
    )
