"""Makes the document with the current metrics of a job, :class:`anabranch.views.live.Live`, from a snapshot of the job
or from the store.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from anabranch import drain_progress
from anabranch.coordinator.jobs import draining, standbys, status_view
from anabranch.coordinator.jobs.parts import Process
from anabranch.coordinator.jobs.running_job import RunningJob
from anabranch.coordinator.store import ContainerRecord
from anabranch.model.deployment_state import DeploymentState
from anabranch.model.lane import Lane, LaneState, open_lanes
from anabranch.protocol.lane_report import LaneReport
from anabranch.views.live import CONTAINERS, COPIES, HELD_UP, LANES, RESTING, STAGES, ChangeProgress, Live
from anabranch.views.table import Table

__all__ = ["all_heard", "change_of", "lag", "lag_of", "live", "stored"]


def lag(report: LaneReport) -> int | None:
    """The number of offsets between a lane's positions and its inputs' end offsets; None if the end offsets aren't
    known.
    """
    return report.progress.lag if report.progress.ends_known else None


def lag_of(reports: Iterable[LaneReport]) -> int | None:
    """The total lag of several lanes; None if the lag of any of these lanes isn't known."""
    found = 0
    for report in reports:
        its = lag(report)
        if its is None:
            return None
        found += its
    return found


def all_heard(lanes: Iterable[Lane], reports: Mapping[str, LaneReport]) -> bool:
    """Whether each running lane has reported since this coordinator began to serve the job."""
    return all(lane.id in reports for lane in lanes if lane.state is LaneState.RUNNING)


def live(job: RunningJob, at: float, clock: float, lease: float, lost: Sequence[ContainerRecord] = ()) -> Live:
    """The metrics of a job that is served here.

    Args:
        at: the current time, in seconds since 1970.
        clock: the current time on the clock for leases.
        lease: how many seconds a process counts as alive after a heartbeat.
        lost: processes that no longer hold their seats, but should be shown.
    """
    lanes = open_lanes(job.lanes)
    heard = [job.reports[lane.id] for lane in lanes if lane.id in job.reports]
    per_seat = Counter(lane.seat for lane in lanes)
    living = [_container(one, at - clock, clock, lease, per_seat) for one in job.seats.processes.values()]
    gone = [_stored_container(one, None, 0) for one in lost]
    resting = [
        (
            its.execution,
            its.host,
            its.pid,
            its.rack,
            its.deployment or job.deployment,
            at - clock + job.seats.asked[its.execution],
            len(its.copies),
        )
        for its in job.seats.resting.values()
        if job.seats.asked.get(its.execution, -math.inf) >= clock - lease
    ]
    copies = [
        (has.lane, has.number, member.container, member.rack, has.batch, standbys.behind(job, has), has.error)
        for member in standbys.members(job).values()
        for has in member.copies
    ]
    return Live(
        at=at,
        rev=f"{job.deployment}.{job.generation}.{job.seats.revision}",
        job=job.job,
        served=True,
        state=job.state.value,
        since=job.progress.changed_at,
        deployment=job.deployment,
        generation=job.generation,
        factor=job.model.factor,
        seats=len(job.model_seats),
        error=job.error,
        lanes=Table.of(LANES, (_lane(lane, job.reports.get(lane.id)) for lane in lanes)),
        containers=Table.of(CONTAINERS, [*living, *gone]),
        resting=Table.of(RESTING, resting),
        copies=Table.of(COPIES, copies),
        windows=sum(each.drain.windows for each in heard) if heard else None,
        drain=job.progress.drain,
        stages=Table.of(STAGES, _stages(job)),
        held_up=Table.of(
            HELD_UP,
            (
                (each.lane, each.drain.stuck, each.drain.overdue, each.attempt.waits)
                for each in heard
                if each.drain.stuck or each.attempt.waits
            ),
        ),
        change=change_of(job, at - clock),
        rescale_seconds=job.progress.rescale_seconds,
        launching=job.seats.launching,
        warnings=status_view.warnings(job),
    )


def _stages(job: RunningJob) -> Iterable[tuple[Any, ...]]:
    """The rows of :attr:`Live.stages`; none unless the job is draining."""
    drain = job.progress.drain
    if drain is None:
        return
    until = drain_progress.stops_at(drain)
    for stage, names in draining.stages(job.lanes).items():
        heard = [job.reports[name] for name in names if name in job.reports]
        yield (
            stage,
            len(names),
            sum(each.drain.halted == drain.notification.uuid for each in heard),
            sum(each.drain.drained for each in heard),
            sum(drain_progress.records_left(each, until) for each in heard),
            sum(each.drain.windows for each in heard),
        )


def stored(fields: dict[str, Any], lanes: Iterable[Lane], containers: Iterable[ContainerRecord]) -> Live:
    """The stored metrics of a job that isn't served here. ``fields`` are the document's fields that don't come from
    ``lanes`` or ``containers``.
    """
    its = open_lanes(lanes)
    per_seat = Counter(lane.seat for lane in its)
    return Live(
        served=False,
        lanes=Table.of(LANES, (_lane(lane, None) for lane in its)),
        containers=Table.of(CONTAINERS, (_stored_container(one, None, per_seat[one.seat]) for one in containers)),
        resting=Table.of(RESTING, ()),
        copies=Table.of(COPIES, ()),
        **fields,
    )


def _lane(lane: Lane, report: LaneReport | None) -> tuple[Any, ...]:
    known = (lane.id, lane.stage, lane.group, lane.seat, lane.state.value)
    if report is None:
        last = lane.last_batch if lane.last_batch >= 0 else None
        heard: tuple[Any, ...] = (None, lane.epoch, last, *(None,) * 5, lane.watermark, *(None,) * 8)
        return (*known, *heard, lane.put_aside, None, lane.error, "", None, "")
    batch = report.progress.batch_progress
    return (
        *known,
        report.phase,
        lane.epoch,
        report.progress.batch,
        report.load.reading,
        report.load.arriving,
        lag(report),
        report.load.busy,
        report.load.working,
        report.event_time.watermark,
        report.event_time.held_by,
        max(report.event_time.times.values(), default=None),
        report.attempt.number,
        report.attempt.stalls,
        report.load.seconds,
        report.load.usual_seconds,
        report.load.skew,
        report.load.slowest,
        report.progress.dead_letters,
        sum(report.event_time.late.values()),
        report.error or lane.error,
        report.attempt.trouble,
        None if batch is None or not batch.planned else min(1.0, batch.done / batch.planned),
        report.attempt.awaits,
    )


def _container(process: Process, epoch: float, now: float, lease: float, lanes: Counter[str]) -> tuple[Any, ...]:
    """A container's row. ``epoch`` is the time at which the clock for leases was 0, in seconds since 1970."""
    heard = epoch + process.lease_ends - lease if process.heard >= 0 else None
    known = _stored_container(process.record, process.lease_ends - now, lanes[process.record.seat])
    place = CONTAINERS.index("heard")
    return (*known[:place], heard, *known[place + 1 :])


def _stored_container(record: ContainerRecord, lease: float | None, lanes: int) -> tuple[Any, ...]:
    return (
        record.id,
        record.seat,
        record.epoch,
        record.host,
        record.pid,
        record.rack,
        lease,
        None,
        record.registered_at,
        record.deployment,
        lanes,
        record.gone,
    )


def change_of(job: RunningJob, epoch: float) -> ChangeProgress | None:
    """The progress of the change that is under way, if any. ``epoch`` is the time at which the clock for leases was 0,
    in seconds since 1970.
    """
    if job.state is not DeploymentState.CHANGING:
        return None
    watched = job.progress.pause
    closing = sorted(watched.closing if watched is not None else _not_followed(job))
    starting = [lane for lane in job.lanes if not set(closing).isdisjoint(lane.predecessors)]
    return ChangeProgress(
        generation=job.generation,
        began=epoch + job.progress.changing_since,
        predicted=watched.foretold if watched is not None else None,
        closing=tuple(closing),
        starting=tuple(lane.id for lane in starting),
        closed=sum(job.known[name].state is LaneState.CLOSED for name in closing if name in job.known),
        running=sum(lane.state is LaneState.RUNNING for lane in starting),
    )


def _not_followed(job: RunningJob) -> set[str]:
    """The lanes that are closing, and the predecessors of lanes that are planned but haven't begun yet."""
    closing = {lane.id for lane in job.lanes if lane.state is LaneState.CLOSING}
    waiting = [lane for lane in job.lanes if lane.state is LaneState.PLANNED and not lane.begun]
    return closing | {name for lane in waiting for name in lane.predecessors}
