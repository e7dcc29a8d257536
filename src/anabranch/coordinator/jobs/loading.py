"""Makes a running job from a stored deployment."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol

from anabranch.coordinator.jobs import offers
from anabranch.coordinator.jobs.parts import DeploymentTerms, Process, Progress, RunSettings, Seats
from anabranch.coordinator.jobs.running_job import RunningJob
from anabranch.coordinator.store import DeploymentRecord, Store
from anabranch.errors import NotLeadingError
from anabranch.model.deployment_state import DeploymentState
from anabranch.model.job_model import JobModel
from anabranch.model.lane import Lane

__all__ = ["Surroundings", "adopted", "check_adopted", "loaded"]


class Surroundings(Protocol):
    """What a running job needs from its coordinator; see :class:`anabranch.coordinator.coordinator.Coordinator`."""

    clock: Callable[[], float]
    lease: float
    now: Callable[[], float]
    grace: float | None
    first: Callable[[], int]
    has_launcher: bool
    jobs: dict[str, RunningJob]


def check_adopted(surroundings: Surroundings, stored: DeploymentRecord) -> None:
    """Raises NotLeadingError if the job runs, or should run, in separate processes, but isn't served here at the
    moment, for example because it can't be read from the store. Make no decisions about the job until it is adopted,
    because its processes might be at work. ``stored`` is the job's last deployment. The caller holds the jobs' lock.

    A coordinator that never expels processes adopts no jobs. For such a coordinator, nothing is raised.
    """
    adopts = surroundings.grace is not None and stored.program is not None and stored.state.active
    if adopts and stored.job not in surroundings.jobs:
        raise NotLeadingError(
            f"this coordinator doesn't serve job {stored.job!r} now",
            "ask again; if the coordinator can't read the job from the store, its log says why",
        )


def loaded(
    surroundings: Surroundings,
    stored: DeploymentRecord,
    model: JobModel,
    state: DeploymentState,
    lanes: dict[str, Lane],
    settings: Mapping[str, Any] | None = None,
    former: RunningJob | None = None,
) -> RunningJob:
    """The running job that represents a stored deployment.

    Args:
        settings: the job's settings, if the deployment has no program that contains them.
        former: the running job that has represented the job in this coordinator so far; None if there is none.
    """
    given = (settings or {}) if stored.program is None else stored.program.settings
    revision, changed_at = surroundings.first(), stored.changed_at
    since = surroundings.clock() - max(0.0, surroundings.now() - changed_at)
    begun = surroundings.clock()
    if former is not None and former.state.active and former.deployment == stored.id:
        begun = former.seats.begun  # a launcher that has given up doesn't try again
    running_job = RunningJob(
        job=stored.job,
        deployment=stored.id,
        model=model,
        state=state,
        terms=DeploymentTerms(RunSettings.of(given), stored.until_caught_up, stored.promises),
        known=lanes,
        error=stored.error,
        seats=Seats(
            expels=surroundings.grace is not None,
            revision=revision,
            begun=begun,
            has_launcher=surroundings.has_launcher,
            launching=None if former is None else former.seats.launching,
        ),
        progress=Progress(changed_at, unchanged_since=since, changing_since=since, drain=stored.drain),
    )
    offers.renew(running_job)
    return running_job


def adopted(
    surroundings: Surroundings, store: Store, stored: DeploymentRecord, former: RunningJob | None
) -> RunningJob:
    """The running job that represents a stored deployment, in the state in which a coordinator left the job. The leases
    of the job's processes begin anew. ``former`` is the running job that has represented the job in this coordinator so
    far; None if there is none.
    """
    job, lease_ends = stored.job, surroundings.clock() + surroundings.lease
    model = store.model(job, stored.id, stored.generation)
    running_job = loaded(surroundings, stored, model, stored.state, store.lanes(job), former=former)
    running_job.seats.sure_from = lease_ends
    running_job.progress.troubles = {} if former is None else former.progress.troubles
    running_job.progress.unfenced = {} if former is None else former.progress.unfenced
    for record in store.containers(job):
        process = Process(record=record, lease_ends=lease_ends)
        process.offered = {
            lane.id for lane in running_job.lanes if lane.seat == record.seat and lane.deployment == record.deployment
        }
        running_job.seats.processes[record.id] = process
    offers.renew(running_job)  # every process has an offer, even if the job can't be advanced
    return running_job
