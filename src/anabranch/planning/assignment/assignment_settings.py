"""The settings of a job that determine how tasks are assigned to seats."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from anabranch.config import AssignmentSettings
from anabranch.model.job_model import JobModel
from anabranch.model.lane import Lane
from anabranch.planning.assignment.assignor import Placing, Rules, Seating

__all__ = ["as_in", "lanes_reading", "rules", "settings_of"]


def settings_of(settings: Mapping[str, Any]) -> AssignmentSettings:
    """The assignment settings among a job's stored settings."""
    return AssignmentSettings(**settings.get("assignment", {}))


def rules(settings: AssignmentSettings) -> Rules:
    return Rules(
        strategy=settings.strategy,
        first=settings.first,
        traffic_cost=settings.traffic_cost,
        non_overlap_cost=settings.non_overlap_cost,
    )


def as_in(model: JobModel) -> Placing:
    """A placing that gives each task its seat in ``model``, the model of another generation with the same tasks."""
    seats, racks = model.seats_of_tasks(), {each.seat: each.rack for each in model.containers}
    return lambda *_: Seating(seats=seats, racks=racks)


def lanes_reading(lanes: Iterable[Lane]) -> dict[str, dict[str, int]]:
    """For each stage and ``system/stream``, how many of the stage's groups read the stream. Broadcast streams are left
    out.
    """
    groups: dict[str, dict[str, set[str]]] = {}
    for lane in lanes:
        for name in {f"{ssp.system}/{ssp.stream}" for ssp in lane.ssps}:
            groups.setdefault(lane.stage, {}).setdefault(name, set()).add(lane.group)
    return {stage: {name: len(its) for name, its in read.items()} for stage, read in groups.items()}
