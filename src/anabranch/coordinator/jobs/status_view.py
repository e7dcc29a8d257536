"""A running job as shown by ``status``."""

from __future__ import annotations

from collections.abc import Sequence

from anabranch.coordinator.jobs import racks, standbys, troubles
from anabranch.coordinator.jobs.running_job import RunningJob
from anabranch.coordinator.store import ContainerRecord
from anabranch.model.lane import LaneState
from anabranch.protocol.standby import StandbyStatus
from anabranch.protocol.status import JobStatus, LaneStatus

__all__ = ["status", "warnings"]


def status(job: RunningJob, now: float, lease: float, lost: Sequence[ContainerRecord] = ()) -> JobStatus:
    """The status of a job. ``lost`` are processes that no longer hold their seats."""
    standing_by = job.seats.standing_by(now - lease)
    containers = [one.record.status(now < one.lease_ends, one.lease_ends - now) for one in job.seats.processes.values()]
    return JobStatus(
        job=job.job,
        deployment=job.deployment,
        generation=job.generation,
        state=job.state,
        lanes=tuple(
            LaneStatus(lane=lane, report=job.reports.get(lane.id))
            for lane in job.lanes
            if lane.state is not LaneState.CLOSED
        ),
        containers=(*containers, *(one.status(alive=False) for one in lost)),
        error=job.error,
        promises=dict(job.terms.promises),
        seats=len(job.model_seats),
        factor=job.model.factor,
        tasks={stage: tasks for stage, (tasks, _) in job.figures.items()},
        consumption={stage: ratio for stage, (_, ratio) in job.figures.items()},
        rescale_seconds=job.progress.rescale_seconds,
        standing_by=len(standing_by),
        warming_up=sum(not job.seats.resting[execution].warm for execution in standing_by),
        launching=job.seats.launching,
        inputs=dict(job.inputs.counts),
        warnings=warnings(job),
        drain=job.progress.drain,
        copies=tuple(
            StandbyStatus(
                lane=has.lane,
                number=has.number,
                container=member.container,
                rack=member.rack,
                batch=has.batch,
                behind=standbys.behind(job, has),
                error=has.error,
            )
            for member in standbys.members(job).values()
            for has in member.copies
        ),
    )


def warnings(job: RunningJob) -> tuple[str, ...]:
    due = (f"{what}: {why}" for what, why in job.progress.troubles.items())
    fences = (f"lane {lane} can't be fenced yet: {why}" for (lane, _), why in troubles.unfenced(job).items())
    return tuple(each for each in (*due, *fences, job.inputs.warning, racks.misplaced(job)) if each)
