"""Makes deployments from plans, and checks whether a plan is valid and can continue from the stored deployment."""

from __future__ import annotations

import secrets
from collections import Counter
from collections.abc import Collection, Mapping, Sequence

import msgspec

from anabranch.coordinator.store import DeploymentRecord
from anabranch.errors import ConflictError, StateError
from anabranch.model.graph import Graph
from anabranch.model.job_model import JobModel
from anabranch.model.lane import Lane, LaneState
from anabranch.model.naming import check_name
from anabranch.planning import compatibility, differences
from anabranch.planning.compatibility import DRAIN, Reason, Version
from anabranch.planning.transition import after_drain as follow_drain
from anabranch.protocol.deployment import StartRequest

__all__ = ["after_drain", "again", "check_follows", "check_same", "check_state", "check_whole", "numbered"]


def numbered(start: StartRequest, deployment: int) -> StartRequest:
    """A deployment made from the plan ``start``. The deployment has the number ``deployment`` and the generation 1, and
    its lanes are in the state PLANNED.

    Raises:
        StateError: the plan's parts don't fit together, which is a bug in the planner.
        UsageError: a seat's name isn't allowed.
    """
    check_whole(start, ())
    return msgspec.structs.replace(
        start,
        model=msgspec.structs.replace(start.model, run_id=deployment, generation=1),
        lanes=tuple(
            msgspec.structs.replace(lane, deployment=deployment, state=LaneState.PLANNED) for lane in start.lanes
        ),
    )


def check_whole(start: StartRequest, known: Collection[str]) -> None:
    """Raises StateError if the parts of a plan don't fit together, and UsageError if a seat's name isn't allowed.
    ``known`` contains the ids of existing lanes."""
    job, seats = start.graph.job, {container.seat for container in start.model.containers}
    ids = Counter(lane.id for lane in start.lanes)
    for seat in seats:
        check_name("seat", seat)
    faults = [
        *(f"lane {lane.id} is of job {lane.job!r}" for lane in start.lanes if lane.job != job),
        *(f"lane {lane.id} has no seat {lane.seat!r} in the model" for lane in start.lanes if lane.seat not in seats),
        *(
            f"lane {lane.id} comes after {before}, which nobody knows"
            for lane in start.lanes
            for before in (*lane.predecessors, *lane.upstream)
            if before not in ids and before not in known
        ),
        *(f"two lanes are {one}" for one, count in ids.items() if count > 1),
        *([f"its model is of job {start.model.job!r}"] if start.model.job != job else []),
    ]
    if faults:
        raise StateError(f"the plan of job {job!r} can't be started: {faults[0]}", "this is a bug in anabranch")


def after_drain(
    start: StartRequest, deployment: int, known: Mapping[str, Lane], former: JobModel | None = None
) -> StartRequest:
    """Like :func:`numbered`, but the deployment begins where the drain of the previous deployment ended. If
    ``start.reset_state`` is true, the deployment begins like the first deployment of a job.

    Args:
        known: all lanes that the job has ever had, by id.
        former: the model of the previous deployment, if ``start`` was planned anew; None if ``start`` is from
            :func:`again`.

    Raises:
        ConflictError: as for :func:`anabranch.planning.transition.after_drain.begun`.
        StateError: as for :func:`numbered` and :func:`anabranch.planning.transition.after_drain.begun`.
        UsageError: as for :func:`numbered`.
    """
    new = numbered(start, deployment)
    model, planned = new.model, new.lanes
    if former is not None and not start.reset_state:
        model, planned = follow_drain.continuing(model, planned, start.graph, former, known, _new_id)
    lanes = follow_drain.begun(planned, start.graph, known, _new_id, start.reset_state)
    return msgspec.structs.replace(
        new, model=model, lanes=tuple(msgspec.structs.replace(lane, deployment=deployment) for lane in lanes)
    )


def check_state(stored: DeploymentRecord, graph: Graph, start: StartRequest, known: Mapping[str, Lane]) -> None:
    """Raises ConflictError if an operator of the plan in ``start`` would keep state that doesn't fit. ``stored`` is the
    drained deployment, ``graph`` is its graph, and ``known`` contains all lanes that the job has ever had, by id.
    """
    old, new = stored.any_program, start.program or start.own_program
    known_types = ({}, {}) if old is None or new is None else (old.schemas, new.schemas)  # otherwise, not compared
    before = Version(graph, known_types[0], stored.fingerprint)
    after = Version(start.graph, known_types[1], start.fingerprint)
    kept = follow_drain.lanes_with_state(start.lanes, start.graph, known)
    if reasons := compatibility.unkept(before, after, [*kept]):
        raise ConflictError(
            f"job {stored.job!r} can't keep the state that its drain left: " + "; ".join(reasons),
            "undo this change; or write another name= there, so that the operator begins without state; or begin "
            "without any state: --reset-state",
        )


def again(stored: DeploymentRecord, graph: Graph, model: JobModel, known: Mapping[str, Lane]) -> StartRequest:
    """A request to start the version of a drained deployment again, as a new deployment."""
    return StartRequest(
        graph=graph,
        model=msgspec.structs.replace(
            model, request="", undoes=0, rewound=(), expands=(), replaces=0, again=model.again or stored.id
        ),
        lanes=follow_drain.again(known, _new_id),
        fingerprint=stored.fingerprint,
        formats=stored.formats,
        promises=stored.promises,
        until_caught_up=stored.until_caught_up,
        program=stored.program,
        own_program=stored.own_program,
    )


def _new_id() -> str:
    return secrets.token_hex(4)


def check_same(stored: DeploymentRecord, graph: Graph, start: StartRequest) -> None:
    """Raises ConflictError if the plan in ``start`` differs from the stored deployment, whose graph is ``graph``. Only
    the same version can continue from the deployment's positions and state. The message names the differences and what
    can be done.
    """
    if found := differences.described(graph, start.graph, stored.fingerprint, start.fingerprint):
        raise _differs(stored, found, ())


def check_follows(stored: DeploymentRecord, graph: Graph, start: StartRequest, reasons: Sequence[Reason]) -> None:
    """Raises ConflictError if there are ``reasons`` why the plan in ``start`` can't continue from the stored deployment
    as another version. The message names the differences, these reasons, and what can be done."""
    if reasons:
        found = differences.described(graph, start.graph, stored.fingerprint, start.fingerprint)
        raise _differs(stored, found, reasons)


def _differs(stored: DeploymentRecord, found: Sequence[str], reasons: Sequence[Reason]) -> ConflictError:
    job = stored.job
    ways, kept = ["undo the change: nothing is lost"], "positions and state stay, or it says what can't be kept"
    cures = [reason.cure for reason in reasons if reason.cure != DRAIN]
    if reasons:
        ways += [f"{cure}: positions and all other state stay" for cure in dict.fromkeys(cures)]
    elif stored.program is not None:
        ways.append(f"anabranch deploy JOB.py: {kept}")
    else:
        ways.append(
            "anabranch run JOB.py with the file as it was, which then stores its code; stop it, and run this one: "
            f"{kept}"
        )
    drained = (
        "positions stay, and so does the state of running aggregates and processors if it still fits; open windows "
        "come out early"
    )
    ways += [
        f"start it with the file as it was, anabranch drain {job}, and start the new version: {drained}",
        f"anabranch reset {job}: positions, state and open windows are lost, and what is read again is written again",
    ]
    why = "".join(f"\n    {reason.what}" for reason in reasons)
    return ConflictError(
        f"job {job!r} differs from the one that was started here:" + "".join(f"\n    {each}" for each in found),
        "it can't continue from that job's positions and state"
        + (f", because:{why}\n  " if why else ". ")
        + "Your options, and what each of them loses:"
        + "".join(f"\n    {each}" for each in ways),
    )
