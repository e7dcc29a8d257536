"""The Prometheus metrics of a coordinator and its jobs. Labels name jobs, lanes and containers, but never keys."""

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
    "lag_records": "offsets between a lane's positions and the ends of its inputs",
    "batch": "the last batch that a lane has committed",
    "batch_seconds": "how long a lane's last batch took",
    "rows_per_second": "records that a lane read in its last batch, a second",
    "rows": "records that a lane has read since it was begun",
    "attempts": "how often a lane's container has begun it",
    "stalls": "how often a lane stood still, in its container",
    "failed": "1 if a lane has failed and is left alone",
    "awaits_since_seconds": "since when a lane waits for a disk, a broker or the like, since 1970; 0: for nothing",
    "watermark_seconds": "up to when a lane's event time has come, in seconds since 1970",
    "rejected_records": "records that a lane has put aside or dropped",
    "late_groups": "groups of late rows that a lane has dropped since it was begun",
    "running_batch_planned_records": "records that the batch reads that a lane is at; 0 between two",
    "running_batch_done_records": "of these, those that are done",
    "running_batch_seconds": "since the batch was planned that a lane is at; 0 between two",
    "running_batch_left_seconds": "until its end, as foretold by its speed; none while that isn't known",
}


_STANDBYS = {
    "behind_batches": "batches that a lane has committed and a standby of it lacks; none until it is whole",
    "failed": "1 if a standby of a lane can't be brought up to date",
}
_DRAINS = {
    "stages": "stages that have open lanes",
    "lanes": "lanes that haven't drained",
    "records": "records that are to be taken in",
    "windows": "windows of keys that are open",
}


def exposition(jobs: Iterable[JobStatus], invalid_heartbeats: int, leads: bool) -> bytes:
    """All metrics in Prometheus's text format. A job that no coordinator serves has only the metrics of its state,
    seats and generation."""
    registry = CollectorRegistry()
    registry.register(_Collected(families(jobs, invalid_heartbeats, leads)))
    return generate_latest(registry)


def families(jobs: Iterable[JobStatus] = (), invalid_heartbeats: int = 0, leads: bool = True) -> list[Metric]:
    """All metric families. Without jobs, they have no samples."""
    return [*_of_coordinator(invalid_heartbeats, leads), *_of_jobs(list(jobs))]


class _Collected:
    def __init__(self, metrics: Sequence[Metric]) -> None:
        self._metrics = metrics

    def collect(self) -> Iterable[Metric]:
        return self._metrics


def _of_coordinator(invalid: int, leads: bool) -> Iterator[Metric]:
    yield CounterMetricFamily(
        "anabranch_invalid_heartbeats", "beats of processes that have no seat, or have it no more", value=invalid
    )
    yield GaugeMetricFamily("anabranch_leader", "1 if this coordinator leads", value=int(leads))


def _of_jobs(jobs: Sequence[JobStatus]) -> Iterator[Metric]:
    served = [job for job in jobs if job.served]
    yield from _of_drains(served)
    yield from _of_standbys(served)
    yield from _of_deployments(jobs)
    yield from _of_plans(served)
    yield from _of_containers(served)
    yield from _of_lanes(served)


def _of_deployments(jobs: Iterable[JobStatus]) -> Iterator[Metric]:
    state = GaugeMetricFamily("anabranch_job", "1 for the state that a job is in", labels=["job", "state"])
    seats = GaugeMetricFamily("anabranch_job_seats", "how many containers a job wants", labels=["job"])
    generation = GaugeMetricFamily("anabranch_job_generation", "of a job's deployment", labels=["job", "deployment"])
    for job in jobs:
        state.add_metric([job.job, job.state], 1)
        seats.add_metric([job.job], job.seats)
        generation.add_metric([job.job, str(job.deployment)], job.generation)
    yield from (state, seats, generation)


def _of_plans(jobs: Iterable[JobStatus]) -> Iterator[Metric]:
    factor = GaugeMetricFamily("anabranch_job_factor", "into how many buckets partitions are cut", labels=["job"])
    tasks = GaugeMetricFamily("anabranch_tasks", "of a stage", labels=["job", "stage"])
    consumption = GaugeMetricFamily(
        "anabranch_input_consumption_ratio",
        "in how many containers each partition is read, on average",
        labels=["job", "stage"],
    )
    inputs = GaugeMetricFamily(
        "anabranch_input_partitions", "that a stream was last seen to have; 0: it is gone", labels=["job", "stream"]
    )
    rescale = GaugeMetricFamily("anabranch_rescale_seconds", "how long a job's last change took", labels=["job"])
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
    containers = GaugeMetricFamily("anabranch_job_containers", "how many containers of a job live", labels=["job"])
    lease = GaugeMetricFamily(
        "anabranch_container_lease_seconds", "until a container's lease ends", labels=["job", "container", "rack"]
    )
    for job in jobs:
        containers.add_metric([job.job], sum(one.alive is True for one in job.containers))
        for one in job.containers:
            if one.lease is not None:
                lease.add_metric([job.job, one.container, one.rack or ""], one.lease)
    yield from (containers, lease)


def _of_drains(jobs: Iterable[JobStatus]) -> Iterator[Metric]:
    families = {
        name: GaugeMetricFamily(f"anabranch_drain_{name}_left", f"of a job that drains: {what}", labels=["job"])
        for name, what in _DRAINS.items()
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
        "rows of an SSP that a lane has put aside since it was begun, for they were late",
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
    yield "lag_records", lane.lag
    yield "batch", report.progress.batch
    yield "batch_seconds", report.load.seconds
    yield "rows_per_second", report.load.rows_per_second
    yield "rows", report.progress.rows
    yield "attempts", report.attempt.number
    yield "stalls", report.attempt.stalls
    yield "awaits_since_seconds", report.attempt.awaits_since
    yield "rejected_records", report.progress.dead_letters + report.event_time.dropped
    yield "late_groups", report.event_time.late_groups
    running = report.progress.batch_progress
    yield "running_batch_planned_records", running.planned if running is not None else 0
    yield "running_batch_done_records", running.done if running is not None else 0
    yield "running_batch_seconds", running.seconds if running is not None else 0.0
    if running is not None and running.left is not None:
        yield "running_batch_left_seconds", running.left
    if report.event_time.watermark is not None:
        yield "watermark_seconds", report.event_time.watermark / 1000
