"""What a store knows about its jobs, even if no coordinator serves them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

from anabranch.coordinator.store import DeploymentRecord, Event
from anabranch.errors import (
    AnabranchError,
    ConflictError,
    NotFoundError,
    NotLeadingError,
    StoreUnavailableError,
    UsageError,
)
from anabranch.formats import Format
from anabranch.model.deployment_state import DeploymentState
from anabranch.model.job_model import JobModel
from anabranch.model.lane import Lane
from anabranch.model.naming import check_name
from anabranch.protocol.deployment import RunningDeployment
from anabranch.protocol.status import JobStatus, LaneStatus

if TYPE_CHECKING:
    from anabranch.coordinator.store import Store

__all__ = [
    "MOST_EVENTS",
    "all_read",
    "deployment",
    "events",
    "is_known",
    "jobs",
    "known_formats",
    "known_lanes",
    "model",
    "model_of",
    "requested",
    "running",
    "status",
]

T = TypeVar("T")

MOST_EVENTS = 10_000
_REQUESTS_KNOWN = 20
"""The search for a repeated request goes back through whole deployments until it has checked this many generations."""


def jobs(store: Store) -> list[JobStatus]:
    """The last known status of all jobs, sorted by name."""
    return all_read(store, lambda job: status(store, job), lambda unread: unread)


def all_read(store: Store, read: Callable[[str], T], instead: Callable[[JobStatus], T]) -> list[T]:
    """The results of ``read`` for all jobs, sorted by name. If a job can't be read, the results of the other jobs are
    returned nevertheless. For that job, ``instead`` makes the result, from a status that contains the job's state and
    the error. Errors that concern the whole store are raised.
    """
    found = []
    for job in store.jobs():
        try:
            found.append(read(job))
        except (StoreUnavailableError, NotLeadingError):
            raise
        except Exception as error:
            its = store.last_state(job)
            if its is not None:  # the job hasn't been deleted meanwhile
                found.append(instead(_unread(job, *its, error)))
    return found


def _unread(job: str, deployment: int, generation: int, state: DeploymentState, error: Exception) -> JobStatus:
    why = error.what if isinstance(error, AnabranchError) else f"{type(error).__name__}: {error}"
    return JobStatus(
        job=job,
        deployment=deployment,
        generation=generation,
        state=state,
        error=f"the job can't be read from the store: {why}",
        served=False,
    )


def status(store: Store, job: str) -> JobStatus:
    """A job's last known status. The status doesn't say which containers are alive, and ``served`` is False."""
    its = deployment(store, job)
    present = store.model(job, its.id, its.generation)
    return JobStatus(
        job=job,
        deployment=its.id,
        generation=its.generation,
        state=its.state,
        lanes=tuple(LaneStatus(lane=lane) for lane in store.open_lanes(job)),
        containers=tuple(container.status(alive=None) for container in store.containers(job)),
        error=its.error,
        served=False,
        promises=its.promises,
        seats=len(present.containers),
        factor=present.factor,
        drain=its.drain,
    )


def model(store: Store, job: str) -> JobModel:
    """The job model of the current generation of a job's last deployment."""
    return model_of(store, job, None)


def model_of(store: Store, job: str, number: int | None) -> JobModel:
    """The job model of a deployment's last generation. Without a number, the job's last deployment is used."""
    record = deployment(store, job, number)
    return store.model(job, record.id, record.generation)


def events(store: Store, job: str, limit: int) -> list[Event]:
    """The last ``limit`` events of a job, oldest first.

    Raises:
        NotFoundError: there is no such job.
        UsageError: the limit is too small or too large.
    """
    if not 1 <= limit <= MOST_EVENTS:
        raise UsageError(f"{limit} events can't be asked for", f"ask for 1 to {MOST_EVENTS}")
    deployment(store, job)
    return store.events(job, limit)


def known_formats(store: Store, job: str) -> dict[str, Format]:
    """The stored formats of a job's streams; empty if the store doesn't know the job."""
    found = store.deployment(check_name("job", job))
    return {} if found is None else found.formats


def known_lanes(store: Store, job: str, lane: str = "") -> dict[str, Lane]:
    """All lanes that a job has ever had, by id; empty if the store doesn't know the job. With ``lane``, only this lane
    and the lanes that continue from it.
    """
    found = store.lanes(check_name("job", job))
    return {name: each for name, each in found.items() if lane in ("", name) or lane in each.predecessors}


def running(store: Store, job: str, number: int | None = None) -> RunningDeployment:
    """What a container needs to run a deployment; without a number, the job's last one. If the deployment's program is
    ``in_process``, a container uses the result only to close the deployment's lanes before another deployment follows.

    Raises:
        NotFoundError: there is no such job or deployment.
        ConflictError: the store has no program for the deployment, or the program lacks something.
    """
    its = deployment(store, job, number)
    program = its.any_program
    if program is None:
        raise ConflictError(f"the code of job {job!r} is not here", "start it: anabranch start JOB.py")
    if program.lacks:
        raise ConflictError(
            f"the code of deployment {its.id} of job {job!r} isn't stored: {program.lacks}",
            "start it with the file as it was: anabranch start JOB.py; or run it: anabranch run JOB.py",
        )
    return RunningDeployment(job=job, deployment=its.id, program=program, formats=its.formats)


def due(store: Store, job: str, number: int) -> RunningDeployment:
    """What the next container of a served job needs to run the deployment ``number``; see :func:`running`. Also raises
    ConflictError if only the process that serves the job can run this deployment.
    """
    found = running(store, job, number)
    if found.program.in_process and number == deployment(store, job).id:
        raise ConflictError(
            f"job {job!r} runs in one process with its coordinator, so it needs no containers",
            "to run it in containers, stop it, and start it on a coordinator: anabranch start JOB.py",
        )
    return found


def is_known(store: Store, job: str, request: str) -> bool:
    """Whether one of a job's last generations, of any deployment, was requested with this id."""
    return requested(store, job, request) is not None


def requested(store: Store, job: str, request: str) -> int | None:
    """The number of the deployment in which a generation was requested with this id. Only the job's last generations
    are checked. The result is None if none of these generations was requested with this id.
    """
    last = store.deployment(job) if request else None
    looked = 0
    while last is not None and looked < _REQUESTS_KNOWN:
        if store.has_request(job, last.id, request):
            return last.id
        looked += last.generation
        last = store.deployment(job, last.id - 1) if last.id > 1 else None
    return None


def deployment(store: Store, job: str, number: int | None = None) -> DeploymentRecord:
    """A deployment of a job; without a number, the last one. Raises NotFoundError if the job or deployment doesn't
    exist.
    """
    found = store.deployment(check_name("job", job), number)
    if found is None:
        last = None if number is None else store.deployment(job)
        if last is not None:
            raise NotFoundError(f"job {job!r} has no deployment {number}", f"its last one is {last.id}")
        known = store.jobs()
        cure = f"jobs here: {', '.join(known)}" if known else "run one first: anabranch run JOB.py"
        raise NotFoundError(f"there is no job {job!r} in {store.url}", cure)
    return found
