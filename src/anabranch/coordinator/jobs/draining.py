"""Determines whether a job can drain, how a drain progresses, and what each lane is told to do in a drain. Pure
functions.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping

import msgspec

from anabranch.errors import ConflictError, UsageError
from anabranch.model.deployment_state import DeploymentState
from anabranch.model.lane import Lane, LaneState
from anabranch.model.ssp import SSP, in_order
from anabranch.protocol.drain import DrainNotification, DrainOrder, DrainProgress
from anabranch.protocol.lane_report import LanePhase, LaneReport

__all__ = ["check", "check_cancellable", "following", "of_lane", "sources", "stages"]

_MAY_DRAIN = frozenset({DeploymentState.STARTING, DeploymentState.RUNNING, DeploymentState.DRAINING})


def check(job: str, state: DeploymentState, deployment: int, lanes: Iterable[Lane], said: DrainNotification) -> str:
    """Why a drain notification is ignored; empty if it isn't.

    Raises:
        UsageError: the notification's uuid isn't valid.
        ConflictError: the job can't drain now.
    """
    try:
        uuid.UUID(said.uuid)
    except ValueError:
        raise UsageError(
            f"the notification has the uuid {said.uuid[:80]!r}, which isn't valid",
            "give a UUID, a new one for each request",
        ) from None
    if said.run_id != deployment:
        return f"it is for deployment {said.run_id}, and the job's is {deployment}"
    if state not in _MAY_DRAIN:
        raise ConflictError(
            f"job {job!r} is {state.value}: only one that is running can be drained",
            f"wait for it, or start it; see anabranch status {job}",
        )
    failed = next((lane for lane in lanes if lane.state is LaneState.FAILED), None)
    if failed is not None:
        raise ConflictError(
            f"lane {failed.id} of job {job!r} has failed: what it has read can't be finished",
            f"see anabranch status {job}; stop it, fix the cause and start it again",
        )
    return ""


def check_cancellable(job: str, drain: DrainProgress) -> None:
    """Raises ConflictError if the drain has already ended event time (``drain.last``). Such a drain can't be cancelled,
    because incomplete windows may already have been emitted."""
    if drain.last:
        raise ConflictError(
            f"job {job!r} drains to the end: incomplete windows have been emitted",
            f"wait for it, and start it again then; see anabranch status {job}",
        )


def sources(lanes: Iterable[Lane]) -> list[SSP]:
    """The partitions that lanes read and that the job doesn't write itself."""
    known = list(lanes)
    own = {stream for lane in known for stream in lane.outputs}
    found = {ssp for lane in known for ssp in lane.partitions if ssp.stream not in own}
    return sorted(found, key=in_order)


def stages(lanes: Iterable[Lane]) -> dict[str, tuple[str, ...]]:
    """The lanes that aren't closed, by stage, in the order in which they were planned."""
    found: dict[str, list[str]] = {}
    for lane in lanes:
        if lane.state is not LaneState.CLOSED:
            found.setdefault(lane.stage, []).append(lane.id)
    return {stage: tuple(its) for stage, its in found.items()}


def following(drain: DrainProgress, lanes: Iterable[Lane], reports: Mapping[str, LaneReport]) -> DrainProgress | None:
    """The progress of a drain after its next step; None if no step is due, or if the start offsets of any lane are
    unknown.

    The first step sets ``until``. This step is due when all open lanes that read source partitions (see
    :func:`sources`) have halted. A lane has halted when it has reported that it has read everything that it must read
    so far. For each source partition, ``until`` is the highest position or start offset of any of these lanes. In the
    mode "latest", ``until`` is at least the end offset that the partition had when the drain was accepted.

    The second step sets ``last``, which means that event time ends. This step is due when all lanes that read source
    partitions have read up to the offsets in ``until``, and have halted again.

    Args:
        lanes: the lanes of the deployment, and the open lanes of former deployments.
        reports: the latest reports, by lane id.
    """
    known = list(lanes)
    mine = {str(ssp) for ssp in sources(known)}
    reading = [
        lane
        for lane in known
        if lane.state is not LaneState.CLOSED and any(str(ssp) in mine for ssp in lane.partitions)
    ]
    told = [reports.get(lane.id) for lane in reading]
    halted = [each for each in told if each is not None and _has_halted(each, drain)]
    places = [{ssp: at for ssp, at in each.progress.positions.items() if ssp in mine} for each in halted]
    if drain.last or len(places) < len(reading) or any(not lane.start_is_known for lane in known):
        return None
    furthest: dict[str, int] = {}
    for each in [*places, *map(_taken, reading)]:
        for ssp, at in each.items():
            if ssp in mine:
                furthest[ssp] = max(at, furthest.get(ssp, at))
    if drain.until is None:
        return msgspec.structs.replace(
            drain, until={ssp: max(at, drain.ends.get(ssp, at)) for ssp, at in furthest.items()}
        )
    if all(at >= drain.until[ssp] for each in places for ssp, at in each.items()):
        return msgspec.structs.replace(drain, last=True)
    return None


def of_lane(drain: DrainProgress | None, state: DeploymentState) -> DrainOrder | None:
    """The order that each lane of a draining job gets; None if the job isn't in the state DRAINING."""
    if drain is None or state is not DeploymentState.DRAINING:
        return None
    return DrainOrder(uuid=drain.notification.uuid, until=drain.until, last=drain.last)


def _has_halted(report: LaneReport, drain: DrainProgress) -> bool:
    return report.phase == LanePhase.RUNNING and report.drain.halted == drain.notification.uuid


def _taken(lane: Lane) -> dict[str, int]:
    found: dict[str, int] = {}
    for each in lane.starting:
        whole = str(each.ssp.whole)
        found[whole] = max(each.offset, *each.parts.values(), found.get(whole, 0))
    return found
