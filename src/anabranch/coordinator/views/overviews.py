"""Makes the lines of the overview of all jobs."""

from __future__ import annotations

from collections.abc import Collection

from anabranch.coordinator.jobs.registry import JobRegistry
from anabranch.coordinator.jobs.running_job import RunningJob
from anabranch.coordinator.store import stored_jobs
from anabranch.coordinator.views import diagnosis, live_view
from anabranch.model.deployment_state import DeploymentState
from anabranch.model.lane import LaneState, open_lanes
from anabranch.protocol.status import JobStatus
from anabranch.views.overview import JobOverview

__all__ = ["StoredOverviews", "served"]


def served(job: RunningJob, registry: JobRegistry, lag_trend: float | None) -> JobOverview:
    """The line of a job that is served here."""
    lanes = open_lanes(job.lanes)
    heard = [job.reports[lane.id] for lane in lanes if lane.id in job.reports]
    whole = bool(heard) and live_view.all_heard(lanes, job.reports)
    now, clock = registry.now(), registry.clock()
    change = live_view.change_of(job, now - clock)
    trouble = diagnosis.findings(registry.status(job), now, registry.lease, change)
    return JobOverview(
        job=job.job,
        state=job.state.value,
        served=True,
        deployment=job.deployment,
        generation=job.generation,
        factor=job.model.factor,
        seats=len(job.model_seats),
        lanes=len(lanes),
        failed_lanes=sum(lane.state is LaneState.FAILED for lane in lanes),
        changed_at=job.progress.changed_at,
        containers=sum(clock < each.lease_ends for each in job.seats.processes.values()),
        lag=live_view.lag_of(heard) if whole else None,
        lag_trend=lag_trend,
        rows=sum(each.load.reading for each in heard) if whole else None,
        arriving=sum(each.load.arriving for each in heard) if whole else None,
        error=job.error,
        worst=trouble[0] if trouble else None,
    )


class StoredOverviews:
    """Makes the overview lines of jobs that aren't served here, and caches the lines of jobs at rest. Thread-safe."""

    def __init__(self, registry: JobRegistry) -> None:
        self._registry = registry
        self._store = registry.store
        self._models: dict[str, tuple[tuple[int, int], int, int]] = {}
        self._at_rest: dict[str, tuple[tuple[object, ...], JobOverview]] = {}

    def keep(self, jobs: Collection[str]) -> None:
        """Forget all jobs but these."""
        self._models = {job: known for job, known in list(self._models.items()) if job in jobs}
        self._at_rest = {job: known for job, known in list(self._at_rest.items()) if job in jobs}

    def of(self, job: str, revision: tuple[object, ...] | None = None) -> JobOverview:
        """The line of a job. Raises NotFoundError if the job doesn't exist.

        Args:
            revision: what :meth:`Store.revisions` returned for the job. If there is a cached line for the same
                revision, the cached line is returned.
        """
        before = self._at_rest.get(job)
        if revision is not None and before is not None and before[0] == revision:
            return before[1]
        line = self._made(job)
        if revision is not None and not DeploymentState(line.state).active:
            self._at_rest[job] = (revision, line)
        return line

    def _made(self, job: str) -> JobOverview:
        its, counts = stored_jobs.deployment(self._store, job), self._store.lane_states(job)
        key = (its.id, its.generation)
        known = self._models.get(job)
        if known is None or known[0] != key:
            model = self._store.model(job, its.id, its.generation)
            known = self._models[job] = (key, model.factor, len(model.containers))
        status = JobStatus(
            job=job, deployment=its.id, generation=its.generation, state=its.state, error=its.error, served=False
        )
        trouble = diagnosis.findings(status, self._registry.now(), self._registry.lease)
        return JobOverview(
            job=job,
            state=its.state,
            served=False,
            deployment=its.id,
            generation=its.generation,
            factor=known[1],
            seats=known[2],
            lanes=sum(counts.values()) - counts.get(LaneState.CLOSED.value, 0),
            failed_lanes=counts.get(LaneState.FAILED.value, 0),
            changed_at=its.changed_at,
            error=its.error,
            worst=trouble[0] if trouble else None,
        )
