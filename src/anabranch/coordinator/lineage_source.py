"""Tells :mod:`anabranch.telemetry.lineage` about the jobs that a coordinator serves."""

from __future__ import annotations

from collections.abc import Callable, Collection

from anabranch import config as configuration
from anabranch.coordinator.coordinator import Coordinator
from anabranch.errors import NotFoundError
from anabranch.protocol.status import JobStatus
from anabranch.telemetry import datasets
from anabranch.telemetry.datasets import Datasets

__all__ = ["ServedJobs"]


class ServedJobs:
    """The jobs that a coordinator serves, and their datasets.

    Args:
        leads: returns whether the coordinator leads.
    """

    def __init__(self, coordinator: Coordinator, leads: Callable[[], bool] = lambda: True) -> None:
        self._coordinator = coordinator
        self._leads = leads

    def jobs(self, also: Collection[str]) -> list[JobStatus] | None:
        """The status of every served job, and of every job in ``also`` that the store knows. None if this coordinator
        doesn't lead."""
        if not self._leads():
            return None
        with self._coordinator.registry.locked_as_seen():
            served = set(self._coordinator.registry.jobs)
        found = []
        for job in sorted(served | set(also)):
            try:
                found.append(self._coordinator.status(job))
            except NotFoundError:  # it was removed from the store
                continue
        return found

    def datasets(self, status: JobStatus) -> Datasets:
        """The inputs and outputs of a served job. Raises NotFoundError if the job isn't served any more."""
        registry = self._coordinator.registry
        with registry.locked_as_seen():
            running_job = registry.jobs.get(status.job)
            if running_job is None:
                raise NotFoundError(f"job {status.job} isn't served here any more")
            graph, given = registry.present(running_job).graph, running_job.settings.given
        return datasets.of_job(graph, configuration.of_job(status.job, given), status.inputs)
