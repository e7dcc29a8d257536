"""Determines which seats are free, what happens when a seat is taken or lost, and how many processes a job needs."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from anabranch.coordinator.jobs.parts import Process
from anabranch.coordinator.jobs.running_job import RunningJob
from anabranch.coordinator.launcher.launch_policy import COMES_WITHIN, Demand
from anabranch.model.deployment_state import DeploymentState
from anabranch.model.lane import Lane, LaneState
from anabranch.protocol.lane_report import LanePhase

__all__ = [
    "be_patient",
    "demand",
    "expel",
    "free",
    "may_write",
    "program_due",
    "relieved",
    "take",
    "try_again",
    "unprepared",
    "until_seated",
]

_PREPARED_WITHIN = 5.0
"""The maximum time, in seconds from the beginning of a change, for which lanes wait for other processes to prepare the
lanes' successors.
"""


def program_due(job: RunningJob) -> int:
    """The deployment whose code the next process should have. If some deployments have a seat without a process, the
    result is the earliest of these deployments. Otherwise, the result is the current deployment. If processes are never
    expelled, any seat's process may be dead, and a new process can take the seat. So every seat then counts as a seat
    without a process.
    """
    taken = job.seats.taken if job.seats.expels else frozenset()
    return min((job.deployment_of(seat) for seat in job.busy_seats - taken), default=job.deployment)


def relieved(job: RunningJob) -> bool:
    """Whether lanes of former deployments may close. During a change, if a launcher starts the containers, these lanes
    wait until the current deployment has at least as many processes as seats. The processes counted are those that hold
    a seat for this deployment, warm processes that stand by, and processes that wait for a Spark cluster's task slots,
    which the former lanes may occupy. Without a launcher, the lanes don't wait, because the successors' containers
    might not be started until the former containers have ended.
    """
    if not job.seats.launched or job.state is not DeploymentState.CHANGING:
        return True
    there = {p.record.execution for p in job.seats.processes.values() if p.record.deployment == job.deployment}
    warm = {execution for execution in job.seats.asked if job.seats.resting[execution].warm}
    return len(there | warm | job.seats.waiting) >= len(job.model_seats)


def unprepared(job: RunningJob) -> frozenset[str]:
    """The ids of the closing lanes that must keep running for now, because a process in another seat hasn't prepared
    one of their successors yet. A lane doesn't wait for a process that has to start first, or that runs another version
    of the job. No lane waits if the change is hasty, or has been under way for ``_PREPARED_WITHIN`` seconds.
    """
    if not job.seats.patient or job.progress.hasty or job.state is not DeploymentState.CHANGING:
        return frozenset()
    holders = {process.record.seat: process for process in job.seats.processes.values()}
    stands_by = any(job.seats.resting[execution].warm for execution in job.seats.asked)
    found: set[str] = set()
    for lane in job.lanes:
        if lane.state is not LaneState.PLANNED or lane.start_is_known:
            continue
        holder = holders.get(lane.seat)
        if holder is None:
            waits = stands_by
        else:
            waits = holder.record.deployment == lane.deployment and lane.id not in holder.prepared
        if waits:
            found.update(name for name in lane.predecessors if job.known[name].seat != lane.seat)
    return frozenset(found)


def be_patient(job: RunningJob, now: float) -> None:
    """Update whether closing lanes still wait for processes in other seats."""
    job.seats.patient = now < job.progress.changing_since + _PREPARED_WITHIN


def free(job: RunningJob, deployment: int) -> frozenset[str]:
    """The free seats for a deployment. A seat is free if no process has it, and if none of its lanes is waiting to be
    fenced."""
    taken = job.seats.taken | {lane.seat for lane in job.lanes if lane.unfenced}
    return frozenset(seat for seat in job.busy_seats - taken if job.deployment_of(seat) == deployment)


def may_write(job: RunningJob, process: Process) -> list[Lane]:
    """The lanes in a process's seat that the process may have started and hasn't reported as ended."""
    its = [lane for lane in job.lanes if lane.seat == process.record.seat and lane.state is not LaneState.CLOSED]
    return [lane for lane in its if lane.folder_epoch and not job.ended(lane.id)]


def demand(job: RunningJob, now: float, lease: float) -> Demand:
    """The containers that a launcher should run for the job."""
    runs = job.state.runs
    former = {seat for seat in job.busy_seats if job.deployment_of(seat) != job.deployment}
    former |= {p.record.seat for p in job.seats.processes.values() if p.record.deployment != job.deployment}
    spare = job.settings.warm_containers if runs else 0
    without_seat = job.seats.standing_by(now - lease)
    return Demand(
        job=job.job,
        wanted=len(job.busy_seats) + len(former) + spare if runs else 0,
        spare=spare,
        busy=bool(spare) and _is_busy(job),
        preparing=not relieved(job) or not job.busy_seats <= job.seats.taken,
        over=job.done,
        begun=job.seats.begun,
        sure_from=job.seats.sure_from,
        holders=_holders(job),
        standing_by=without_seat - job.seats.waiting,
        waiting=job.seats.waiting,
        returning=job.seats.returning_since(now - COMES_WITHIN),
    )


def _is_busy(job: RunningJob) -> bool:
    """Whether lanes of a job that has run before are being started, or haven't written anything since a change."""
    if job.state is DeploymentState.CHANGING or job.progress.pause is not None:
        return True
    has_run = job.state is DeploymentState.RUNNING
    return has_run and not all(_runs(job, lane.id) or job.ended(lane.id) for lane in job.lanes)


def _runs(job: RunningJob, lane: str) -> bool:
    return lane in job.reports and job.reports[lane].phase == LanePhase.RUNNING


def try_again(job: RunningJob, now: float) -> bool:
    """Let a launcher that has given up try again, if the job should run. Returns whether the launcher tries
    again."""
    gave_up = job.seats.launching is not None and job.seats.launching.gave_up and demand(job, now, 0.0).wanted > 0
    if gave_up:
        job.seats.begun, job.seats.launching = now, None
    return gave_up


def _holders(job: RunningJob) -> frozenset[str]:
    return frozenset(process.record.execution for process in job.seats.processes.values())


def expel(job: RunningJob, process: Process, lanes: Sequence[Lane]) -> None:
    """Record that a process has lost its seat. ``lanes`` are the lanes, as stored, for which the process might
    still write."""
    del job.seats.processes[process.record.id]
    for lane in lanes:
        job.known[lane.id] = lane
        job.reports.pop(lane.id, None)


def take(job: RunningJob, process: Process, lanes: Sequence[Lane], now: float) -> None:
    """Give a seat and its lanes, as stored, to a process. Lanes that had ended run again, unless they had caught up."""
    former = job.seats.of(process.record.seat)
    if former is not None:
        del job.seats.processes[former.record.id]
    elif job.state is DeploymentState.CHANGING and process.record.execution not in job.seats.asked:
        job.progress.shown = job.progress.shown.started(now - job.progress.changing_since)
    job.seats.processes[process.record.id] = process
    job.seats.asked.pop(process.record.execution, None)
    job.seats.returning.pop(process.record.execution, None)
    for lane in lanes:
        job.known[lane.id] = lane
        if not (job.terms.until_caught_up and job.caught_up(lane.id)):
            job.reports.pop(lane.id, None)


def until_seated(job: RunningJob, free: Collection[str]) -> float:
    """The expected seconds until containers are ready for the seats ``free``; 0.0 if enough processes stand by, or if
    no launcher starts containers. Processes that wait for task slots don't count.
    """
    if not job.seats.launched or len(free) <= len(job.seats.asked.keys() - job.seats.waiting):
        return 0.0
    return job.progress.shown.container
