"""Determines the racks of a job's seats. Based on these racks, chooses the seats of the job's tasks and processes. Also
warns about containers whose tasks were placed for other racks.
"""

from __future__ import annotations

from collections.abc import Collection

from anabranch.coordinator.jobs.running_job import RunningJob
from anabranch.planning.assignment import assignment_settings as assignment
from anabranch.planning.assignment import assignor
from anabranch.planning.assignment.assignor import Placing, Where
from anabranch.planning.transition import follow

__all__ = ["misplaced", "nearest", "placing", "where"]


def where(job: RunningJob, containers: int) -> Where:
    """The racks of the first ``containers`` seats, and of partitions. A seat is in the rack of its container. A seat
    without a container counts as being in the rack for which its tasks were placed. If there is no such rack, the seat
    counts as being in the rack that the settings name for it.
    """
    placed, named = {each.seat: each.rack for each in job.model.containers}, job.settings.assignment.racks
    racks: dict[str, str | None] = {}
    for number in range(containers):
        seat, expected = str(number), named[number % len(named)] or None if named else None
        holder = job.seats.of(seat)
        racks[seat] = placed.get(seat) or expected if holder is None else holder.record.rack
    lanes = assignment.lanes_reading(follow.heads(job.lanes)) if job.inputs.replicas else {}
    return Where(seats=racks, partitions=job.inputs.replicas, lanes=lanes)


def placing(job: RunningJob, containers: int) -> Placing:
    """A function that places tasks in the first ``containers`` seats, based on racks and on the job's settings."""
    found, rules = where(job, containers), assignment.rules(job.settings.assignment)
    return lambda stages, former: assignor.seat(stages, former, found, rules)


def nearest(job: RunningJob, free: Collection[str], rack: str | None) -> str:
    """The best free seat for a process in a rack. The best seat is a seat whose tasks were placed for this rack. The
    second best is a seat whose tasks were placed for no rack. Any other seat is the third choice.
    """
    placed = {each.seat: each.rack for each in job.model.containers}
    return min(free, key=lambda seat: (placed.get(seat) != rack, placed.get(seat) is not None, seat))


def misplaced(job: RunningJob) -> str:
    """A warning about containers that aren't in the racks for which their tasks were placed. Empty if there are
    no such containers, if the assignment strategy is ``none``, or if the job has only one container.
    """
    if job.settings.assignment.strategy == "none" or len(job.model.containers) == 1:
        return ""
    held = {each.record.seat: each.record.rack for each in job.seats.processes.values()}
    other = [each for each in job.model.containers if each.seat in held and held[each.seat] != each.rack]
    if not other:
        return ""
    told = ", ".join(f"seat {each.seat} is in {_rack(held[each.seat])}, not {_rack(each.rack)}" for each in other)
    return f"tasks were placed for other racks: {told}: see anabranch plan assign {job.job}"


def _rack(rack: str | None) -> str:
    return "no rack" if rack is None else f"rack {rack}"
