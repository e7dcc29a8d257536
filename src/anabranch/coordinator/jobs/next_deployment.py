"""Makes a job's next deployment, which continues from the current lanes, and looks up the job's versions. Stores
nothing.
"""

from __future__ import annotations

import secrets
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace

import msgspec

from anabranch.coordinator.jobs import pauses, plans
from anabranch.coordinator.jobs.running_job import RunningJob
from anabranch.coordinator.jobs.transitions import Generation
from anabranch.coordinator.sizing import autosizing
from anabranch.coordinator.store import DeploymentRecord, Store, stored_jobs
from anabranch.errors import ConflictError
from anabranch.model.job_model import JobModel
from anabranch.model.lane import Lane, LaneState, open_lanes
from anabranch.planning import compatibility
from anabranch.planning import plan as planning
from anabranch.planning.compatibility import Comparison, Reason, Version
from anabranch.planning.fingerprints import alike
from anabranch.planning.transition import deploy, follow, opening
from anabranch.planning.transition.deploy import NextVersion
from anabranch.protocol.deployment import DeployResult, Program, StartRequest
from anabranch.views.changes import ChangeKind

__all__ = [
    "CurrentDeployment",
    "FormerDeployment",
    "NextDeployment",
    "again",
    "deployed",
    "former_version",
    "undone",
    "version_of",
]


@dataclass(frozen=True)
class FormerDeployment:
    """A deployment that hasn't actually been replaced yet: no lane of any later deployment has begun.

    Attributes:
        generation: the deployment's last generation.
        left: the deployment's lanes, open or closed, whose work isn't continued by other lanes, or is continued only in
            part.
    """

    stored: DeploymentRecord
    generation: Generation
    left: tuple[Lane, ...]


@dataclass(frozen=True)
class CurrentDeployment:
    """The deployment that another one should follow.

    Attributes:
        running_job: the running job; None if the job isn't running.
        former: the former deployments that haven't actually been replaced yet, latest first; empty if the job is
            running.
    """

    stored: DeploymentRecord
    generation: Generation
    lanes: tuple[Lane, ...]
    running_job: RunningJob | None
    former: tuple[FormerDeployment, ...] = ()


@dataclass(frozen=True)
class NextDeployment:
    """The next deployment of a job.

    Attributes:
        ending: the lanes that end, as they should be stored.
        who: who requested the deployment.
        what: what happens, for the event.
        why: why it happens, for the event.
    """

    start: StartRequest
    result: DeployResult
    ending: tuple[Lane, ...]
    kind: ChangeKind
    who: str
    what: str
    why: str


def deployed(
    present: CurrentDeployment, start: StartRequest, again: int, drop_state: Collection[str], request: str
) -> NextDeployment:
    """The next deployment of a job, in which another version continues from the present deployment.

    Args:
        present: the deployment to replace.
        start: the other version, as a request to start it.
        again: the first deployment of the version, if the job returns to an earlier version; 0 for a new version.
        drop_state: the operators whose state may be dropped.
        request: the request's id; empty if it has none.

    Raises:
        ConflictError: the version can't continue from the current state (the message names the reasons), or the job
            runs in one process with its coordinator and isn't stopped.
        StateError: the parts of the new deployment don't fit together, which is a bug.
        UsageError: an operator in ``drop_state`` keeps no state now, or would also keep state in the new version.
    """
    stored, following = present.stored, start.program or start.own_program
    in_process = stored.program is None or start.program is None
    if stored.any_program is None or following is None or (in_process and present.running_job is not None):
        raise ConflictError(
            f"job {stored.job!r} runs in one process with its coordinator, with the code that it was run with",
            "stop it; or start jobs on a coordinator (anabranch start JOB.py), where they can be deployed",
        )
    graph, model = present.generation.graph, present.generation.model
    former, left = [*follow.heads(present.lanes)], None
    back = next((each for each in present.former if alike(each.stored.fingerprint, start.fingerprint)), None)
    if back is not None and back.stored.any_program is not None:
        stored, graph = back.stored, back.generation.graph
        former += back.left
        left = back.generation.model
    program = stored.any_program
    assert program is not None
    found = compatibility.compared(
        Version(graph, program.schemas, stored.fingerprint),
        Version(start.graph, following.schemas, start.fingerprint),
        factor=present.generation.factor,
        containers=present.generation.containers,
        drop_state=drop_state,
    )
    notes = (*found.notes, *_left_alone(model.job, start.model.factor, following))
    found = replace(found, reasons=(*found.reasons, *_unclosed(present.stored, former)), notes=notes)
    if start.program is None:
        plans.check_follows(stored, graph, start, found.reasons)
    else:
        compatibility.check(found, model.job)
    number = present.stored.id + 1
    what = f"deployment {number}" + (f", which returns to version {again}" if again else "")
    why = "; ".join(found.notes) or "its inputs, outputs and state stay the same"
    kind: ChangeKind = "rollback" if again else "deploy"
    return _next_deployment(present, start, former, (), found, again, request, kind, "user", what, why, left)


def _unclosed(stored: DeploymentRecord, lanes: Iterable[Lane]) -> list[Reason]:
    """If lanes must close but their code isn't stored, no other version can follow, and the result is a list with this
    reason. Otherwise, the list is empty."""
    program = stored.any_program
    if program is None or not program.lacks or not open_lanes(lanes):
        return []
    return [Reason(f"the code of the former version, which must close its lanes, isn't stored: {program.lacks}")]


def _left_alone(job: str, factor: int, following: Program) -> list[str]:
    """A list with one note if the version keeps a factor that is outside the version's own limits for autoscaling.
    Otherwise, the list is empty. A note is needed because the autosizer doesn't change such a factor."""
    limits = autosizing.limits_of(following.settings)
    outside = "" if limits is None else autosizing.outside(limits, job, factor)
    return [outside] if outside else []


def undone(store: Store, running_job: RunningJob, generation: Generation, who: str, why: str) -> NextDeployment:
    """A deployment of the previous version, to undo a deployment whose lanes haven't begun yet."""
    job, replaced = running_job.job, generation.model.replaces
    present = CurrentDeployment(
        stored_jobs.deployment(store, job), generation, tuple(running_job.known.values()), running_job
    )
    before = version_of(store, job, replaced)
    void = [opening.never_begun(lane, why) for lane in running_job.spoilt()]
    over = {lane.id: lane for lane in void}
    own = [lane for lane in running_job.lanes if lane.deployment == running_job.deployment]
    former = [*follow.heads(own), *deploy.left_behind(running_job.known.values(), replaced)]
    former = [over.get(lane.id, lane) for lane in former]
    what = f"deployment {running_job.deployment + 1}, which returns to version {before}"
    start = again(store, job, replaced)
    made = _next_deployment(present, start, former, void, Comparison(), before, "", "undo", who, what, why, start.model)
    model = msgspec.structs.replace(made.start.model, undoes=generation.generation)
    return replace(made, start=msgspec.structs.replace(made.start, model=model))


def again(store: Store, job: str, deployment: int) -> StartRequest:
    """A former deployment, as a request to start it again. Raises ConflictError if its code is no longer stored."""
    stored = stored_jobs.deployment(store, job, deployment)
    program = stored.program or _for_containers(stored.own_program)
    if program is not None and _lacks_code(store, program):
        raise ConflictError(
            f"the code of deployment {deployment} of job {job!r} is no longer in the store",
            "deploy that version with its file: anabranch deploy JOB.py",
        )
    lanes = [lane for lane in store.lanes(job).values() if lane.deployment == deployment]
    return StartRequest(
        graph=store.graph(job, deployment),
        model=store.model(job, deployment, stored.generation),
        lanes=tuple(lanes),
        fingerprint=stored.fingerprint,
        formats=stored.formats,
        promises=stored.promises,
        program=program,
    )


def _for_containers(program: Program | None) -> Program | None:
    """The program with which containers can run a version that ran in one process with its coordinator; None if code or
    settings are missing."""
    return None if program is None or program.lacks else msgspec.structs.replace(program, in_process=False)


def _lacks_code(store: Store, program: Program) -> bool:
    """Whether containers should get a program's code from the store, but the store doesn't have it."""
    return program.settings.get("job", {}).get("artifact") != "image" and store.artifact(program.artifact) is None


def version_of(store: Store, job: str, deployment: int) -> int:
    """The first deployment that had the same version as ``deployment``."""
    return store.model(job, deployment, 1).again or deployment


def former_version(store: Store, job: str, deployment: int) -> int:
    """The last deployment of the version that preceded the version of ``deployment``. Raises ConflictError if there was
    no such version."""
    first = version_of(store, job, deployment)
    if first == 1:
        raise ConflictError(f"job {job!r} has no version before this one", "deploy one: anabranch deploy JOB.py")
    return first - 1


def _next_deployment(
    present: CurrentDeployment,
    start: StartRequest,
    former: Sequence[Lane],
    void: Sequence[Lane],
    found: Comparison,
    again: int,
    request: str,
    kind: ChangeKind,
    who: str,
    what: str,
    why: str,
    back: JobModel | None,
) -> NextDeployment:
    number = present.stored.id + 1
    version, current = NextVersion(number, start.model, start.lanes), present.generation.model
    change = deploy.deployed(version, current, former, lambda: secrets.token_hex(4), back)
    running_job, closing = present.running_job, [lane for lane in former if lane.id in change.closing]
    ending = [
        msgspec.structs.replace(
            lane,
            state=LaneState.CLOSED if running_job is not None and running_job.is_over(lane.id) else LaneState.CLOSING,
            error=None,
        )
        for lane in closing
    ]
    model = msgspec.structs.replace(change.model, request=request, again=again)
    program = _with_slots(start.program, change.lanes)
    started = msgspec.structs.replace(start, model=model, lanes=change.lanes, until_caught_up=False, program=program)
    plans.check_whole(started, {lane.id for lane in (*present.lanes, *former)})
    result = DeployResult(
        deployment=number,
        version_of=again or number,
        closing=tuple(closing),
        lanes=change.lanes,
        notes=found.notes,
        pause=0.0 if running_job is None else pauses.planned(running_job, closing, change.lanes),
    )
    return NextDeployment(started, result, (*ending, *void), kind, who, what, why)


def _with_slots(program: Program | None, lanes: Sequence[Lane]) -> Program | None:
    """The program of a real-time job, with enough Spark task slots for the lanes. More slots are needed if the lanes
    read more partitions than the version was planned for. A partition without a slot would never be read. If the job
    doesn't run in real time, the program is returned unchanged."""
    if program is None or not program.cores:
        return program
    slots = planning.task_slots(lanes, max((lane.state_partitions for lane in lanes), default=0))
    return msgspec.structs.replace(program, cores=max(program.cores, slots))
