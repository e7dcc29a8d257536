"""The Prometheus metrics of a coordinator and its jobs. Labels never contain keys of records."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from anabranch import drain_progress
from anabranch.protocol.lane_report import LaneReport
from anabranch.protocol.status import JobStatus, LaneStatus

__all__ = ["CONTENT_TYPE", "exposition", "families"]

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

_LANES = {
    "lag_records": (
        "Offsets between the lane's positions and the ends of its inputs; missing while these ends aren't known."
    ),
    "batch": "Number of the lane's last committed batch; -1 if there is none.",
    "batch_seconds": "Duration of the lane's last committed batch.",
    "rows_per_second": (
        "Records per second that the lane reads in its running batch; while this isn't known, in its last batch."
    ),
    "rows": "Records that the lane has read since it last started.",
    "attempts": "Number of times that the lane's container has started the lane.",
    "stalls": "Number of times that the lane's container has restarted the lane because it made no progress.",
    "failed": "1 if the lane has failed and is no longer restarted, otherwise 0.",
    "awaits_since_seconds": (
        "Unix time at which the lane began to wait for a disk, a broker or a database; 0 if the lane isn't waiting."
    ),
    "watermark_seconds": "Watermark of the lane, as Unix time.",
    "dead_letters": "Dead letters that the lane has ever written.",
    "dropped_records": "Rejected records that the lane has dropped since it last started.",
    "late_groups": "Groups of late rows that the lane has dropped since it last started.",
    "running_batch_planned_records": "Records that the running batch reads; 0 between two batches.",
    "running_batch_done_records": "Records of the running batch that are done; 0 between two batches.",
    "running_batch_seconds": "Time since the running batch was planned; 0 between two batches.",
    "running_batch_left_seconds": "Predicted time until the running batch ends; missing until it can be predicted.",
}


_STANDBYS = {
    "behind_batches": "Committed batches of the lane that the standby lacks; missing until the standby is complete.",
    "failed": "1 if the standby can't be brought up to date, otherwise 0.",
}
_DRAINS = {
    "stages": "Stages of a draining job with lanes that haven't drained.",
    "lanes": "Lanes of a draining job that haven't drained.",
    "records": "Records that a draining job still has to read.",
    "windows": "Rows of state that a draining job still has to emit, for example one for each open window and key.",
}


def exposition(jobs: Iterable[JobStatus], invalid_heartbeats: int, leads: bool) -> bytes:
    """All metrics in Prometheus's text format. For a job that this coordinator doesn't serve, only the metrics of the
    job's state, seats and generation are included.

    Args:
        invalid_heartbeats: how many heartbeats came from processes that had never had a seat or had lost their seat.
        leads: whether this coordinator leads.
    """
    registry = CollectorRegistry()
    registry.register(_Collected(families(jobs, invalid_heartbeats, leads)))
    return generate_latest(registry)


def families(jobs: Iterable[JobStatus] = (), invalid_heartbeats: int = 0, leads: bool = True) -> list[Metric]:
    """All metric families. Without jobs, only the coordinator's families have samples. For the arguments, see
    :func:`exposition`.
    """
    return [*_of_coordinator(invalid_heartbeats, leads), *_of_jobs(list(jobs))]


class _Collected:
    def __init__(self, metrics: Sequence[Metric]) -> None:
        self._metrics = metrics

    def collect(self) -> Iterable[Metric]:
        return self._metrics


def _of_coordinator(invalid: int, leads: bool) -> Iterator[Metric]:
    yield CounterMetricFamily(
        "anabranch_invalid_heartbeats",
        "Heartbeats of processes that have no seat, or have lost their seat.",
        value=invalid,
    )
    yield GaugeMetricFamily("anabranch_leader", "1 if this coordinator leads, otherwise 0.", value=int(leads))


def _of_jobs(jobs: Sequence[JobStatus]) -> Iterator[Metric]:
    served = [job for job in jobs if job.served]
    yield from _of_drains(served)
    yield from _of_standbys(served)
    yield from _of_deployments(jobs)
    yield from _of_plans(served)
    yield from _of_containers(served)
    yield from _of_lanes(served)


def _of_deployments(jobs: Iterable[JobStatus]) -> Iterator[Metric]:
    state = GaugeMetricFamily("anabranch_job", "1 for the state that the job is in.", labels=["job", "state"])
    seats = GaugeMetricFamily("anabranch_job_seats", "Number of containers that should run the job.", labels=["job"])
    generation = GaugeMetricFamily(
        "anabranch_job_generation", "Current generation of the job's deployment.", labels=["job", "deployment"]
    )
    for job in jobs:
        state.add_metric([job.job, job.state], 1)
        seats.add_metric([job.job], job.seats)
        generation.add_metric([job.job, str(job.deployment)], job.generation)
    yield from (state, seats, generation)


def _of_plans(jobs: Iterable[JobStatus]) -> Iterator[Metric]:
    factor = GaugeMetricFamily("anabranch_job_factor", "Number of buckets of each partition.", labels=["job"])
    tasks = GaugeMetricFamily("anabranch_tasks", "Number of tasks of the stage.", labels=["job", "stage"])
    consumption = GaugeMetricFamily(
        "anabranch_input_consumption_ratio",
        "Average number of containers that read each partition of the stage's inputs.",
        labels=["job", "stage"],
    )
    inputs = GaugeMetricFamily(
        "anabranch_input_partitions",
        "Partition count of the input at the last check; 0 if the stream no longer exists.",
        labels=["job", "stream"],
    )
    rescale = GaugeMetricFamily("anabranch_rescale_seconds", "Duration of the job's last change.", labels=["job"])
    for job in jobs:
        factor.add_metric([job.job], job.factor)
        for stage, count in job.tasks.items():
            tasks.add_metric([job.job, stage], count)
            consumption.add_metric([job.job, stage], job.consumption[stage])
        for stream, partitions in job.inputs.items():
            inputs.add_metric([job.job, stream], partitions)
        if job.rescale_seconds is not None:
            rescale.add_metric([job.job], job.rescale_seconds)
    yield from (factor, tasks, consumption, inputs, rescale)


def _of_containers(jobs: Iterable[JobStatus]) -> Iterator[Metric]:
    containers = GaugeMetricFamily(
        "anabranch_job_containers", "Number of the job's containers that are alive.", labels=["job"]
    )
    lease = GaugeMetricFamily(
        "anabranch_container_lease_seconds",
        "Time until the container's lease ends.",
        labels=["job", "container", "rack"],
    )
    for job in jobs:
        containers.add_metric([job.job], sum(one.alive is True for one in job.containers))
        for one in job.containers:
            if one.lease is not None:
                lease.add_metric([job.job, one.container, one.rack or ""], one.lease)
    yield from (containers, lease)


def _of_drains(jobs: Iterable[JobStatus]) -> Iterator[Metric]:
    families = {
        name: GaugeMetricFamily(f"anabranch_drain_{name}_left", what, labels=["job"]) for name, what in _DRAINS.items()
    }
    for job in jobs:
        if job.drain is not None:
            left = drain_progress.left(job)
            for name, family in families.items():
                family.add_metric([job.job], getattr(left, name))
    yield from families.values()


def _of_standbys(jobs: Iterable[JobStatus]) -> Iterator[Metric]:
    families = {
        name: GaugeMetricFamily(
            f"anabranch_standby_{name}", what, labels=["job", "lane", "number", "container", "rack"]
        )
        for name, what in _STANDBYS.items()
    }
    for job in jobs:
        for copy in job.copies:
            labels = [job.job, copy.lane, str(copy.number), copy.container, copy.rack or ""]
            families["failed"].add_metric(labels, int(bool(copy.error)))
            if copy.behind is not None:
                families["behind_batches"].add_metric(labels, copy.behind)
    yield from families.values()


def _of_lanes(jobs: Iterable[JobStatus]) -> Iterator[Metric]:
    families = {
        name: GaugeMetricFamily(f"anabranch_lane_{name}", what, labels=["job", "stage", "lane", "container"])
        for name, what in _LANES.items()
    }
    late = GaugeMetricFamily(
        "anabranch_lane_late_rows",
        "Late rows of the SSP that the lane has written as dead letters since it last started.",
        labels=["job", "stage", "lane", "container", "ssp"],
    )
    for job in jobs:
        at = {one.seat: one.container for one in job.containers if one.gone is None}
        for lane in job.lanes:
            labels = [job.job, lane.lane.stage, lane.lane.id, at.get(lane.lane.seat, "")]
            for name, value in _of_lane(lane):
                families[name].add_metric(labels, value)
            for ssp, rows in (lane.report.event_time.late if lane.report is not None else {}).items():
                late.add_metric([*labels, ssp], rows)
    yield late
    yield from families.values()


def _of_lane(lane: LaneStatus) -> Iterator[tuple[str, float]]:
    yield "failed", int(lane.lane.error is not None)
    report: LaneReport | None = lane.report
    if report is None:
        return
    if report.progress.ends_known:
        yield "lag_records", lane.lag
    yield "batch", report.progress.batch
    yield "batch_seconds", report.load.seconds
    yield "rows_per_second", report.load.rows_per_second
    yield "rows", report.progress.rows
    yield "attempts", report.attempt.number
    yield "stalls", report.attempt.stalls
    yield "awaits_since_seconds", report.attempt.awaits_since
    yield "dead_letters", report.progress.dead_letters
    yield "dropped_records", report.event_time.dropped
    yield "late_groups", report.event_time.late_groups
    running = report.progress.batch_progress
    yield "running_batch_planned_records", running.planned if running is not None else 0
    yield "running_batch_done_records", running.done if running is not None else 0
    yield "running_batch_seconds", running.seconds if running is not None else 0.0
    if running is not None and running.left is not None:
        yield "running_batch_left_seconds", running.left
    if report.event_time.watermark is not None:
        yield "watermark_seconds", report.event_time.watermark / 1000
