"""Determines which processes maintain standbys of a job's lanes, and which closing lanes wait for standbys."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from anabranch.coordinator.jobs import standby_plan
from anabranch.coordinator.jobs.parts import Process
from anabranch.coordinator.jobs.running_job import RUN_STATES, RunningJob
from anabranch.coordinator.jobs.standby_plan import Member, StandbyOrders
from anabranch.model.deployment_state import DeploymentState
from anabranch.model.lane import LaneState
from anabranch.protocol.standby import StandbyReport

__all__ = ["behind", "is_news", "members", "prepare", "unready", "wanted"]

_COPIES_WITHIN = 300.0
"""The maximum time, in seconds, for which closing lanes keep running because their successors lack standbys. The time
is counted from the beginning of a change or from ``Seats.begun``, whichever is later.
"""


def members(job: RunningJob) -> dict[str, Member]:
    """The job's processes, with or without a seat, by EXECUTION_ENV_CONTAINER_ID. Processes that wait for task slots
    are left out, because they can't keep standbys.
    """
    standing_by = job.seats.asked.keys() - job.seats.waiting
    found = {
        execution: Member(rack=its.rack, copies=its.copies)
        for execution, its in job.seats.resting.items()
        if execution in standing_by
    }
    return found | {
        each.record.execution: Member(rack=each.record.rack, container=each.record.id, copies=each.copies)
        for each in job.seats.processes.values()
    }


def _runners(job: RunningJob) -> dict[str, str]:
    """For each stateful lane that runs and has a folder, the execution of its process."""
    holders = {each.record.seat: each.record for each in job.seats.processes.values()}
    return {
        lane.id: holders[lane.seat].execution
        for lane in job.lanes
        if lane.stateful
        and lane.folder_epoch
        and lane.state in RUN_STATES
        and not (lane.abandoned or lane.unfenced or job.ended(lane.id))
        and lane.seat in holders
        and holders[lane.seat].deployment == lane.deployment
    }


def _moving(job: RunningJob, runners: Mapping[str, str]) -> dict[str, list[str]]:
    """For each lane that should close, the processes of the successors that continue from its state. The lane's own
    process stands in for a successor without a process.
    """
    found: dict[str, list[str]] = {}
    for lane in job.lanes if job.state is DeploymentState.CHANGING else ():
        clears = lane.afresh or (lane.rewind is not None and lane.rewind.clear)
        for before in lane.predecessors if lane.stateful and not lane.folder_epoch and not clears else ():
            if before in runners and job.known[before].state is LaneState.CLOSING:
                holder = job.seats.of(lane.seat)
                its = runners[before] if holder is None else holder.record.execution
                found.setdefault(before, []).append(its)
    return found


def unready(job: RunningJob) -> frozenset[str]:
    """The closing lanes that keep running, for a limited time, until there are standbys for their successors."""
    if not (job.standbys.patient and job.settings.assignment.standbys and job.state is DeploymentState.CHANGING):
        return frozenset()
    there = members(job).values()
    return frozenset(
        lane
        for lane, followers in _moving(job, _runners(job)).items()
        if not standby_plan.is_warm(job.known[lane], job.last_batch(lane), len(followers), there)
    )


def prepare(job: RunningJob, now: float, lease: float) -> None:
    """Forget processes that no longer stand by, and update whether closing lanes still wait for standbys."""
    job.seats.standing_by(now - lease)
    job.standbys.patient = now < max(job.progress.changing_since, job.seats.begun) + _COPIES_WITHIN


def wanted(job: RunningJob) -> StandbyOrders:
    """What each process should do with standbys."""
    there, count = members(job), job.settings.assignment.standbys
    if not job.state.runs or not (count or any(member.copies for member in there.values())):
        return {}
    runners = _runners(job)
    return standby_plan.told(job.known, runners, there, count, _moving(job, runners) if count else {})


def is_news(job: RunningJob, process: Process, copies: Sequence[StandbyReport]) -> bool:
    """Whether new reports about a process's standbys can change any order."""
    if job.state is DeploymentState.CHANGING:
        return process.copies != tuple(copies)
    return {*map(_shape, process.copies)} != {*map(_shape, copies)}


def behind(job: RunningJob, has: StandbyReport) -> int | None:
    return None if has.batch < 0 else max(0, job.last_batch(has.lane) - has.batch)


def _shape(has: StandbyReport) -> tuple[str, int, int, bool, str]:
    """The parts of a report about a standby that don't concern the standby's progress."""
    return (has.lane, has.epoch, has.number, has.batch < 0, has.error)
