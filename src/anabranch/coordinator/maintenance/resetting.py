"""Resets a job that isn't running, without changing the records in its inputs and outputs. These are the steps, each
of which can be repeated after a crash:

1. give the job's next epoch to the open lanes for which a process might still be writing,
2. fence these lanes under that epoch, so that former processes that are still alive can't write any more,
3. in one transaction, remove the lanes' positions and the references to their state from the store: now the job is
   reset,
4. remove the job from the readers of all streams, so that retention can delete records that the job hadn't read yet,
5. delete the folders of the job's lanes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import msgspec

from anabranch import config as configuration
from anabranch.config import Settings
from anabranch.coordinator.jobs import fencing, job_events
from anabranch.coordinator.store import Event, Store, stored_jobs
from anabranch.errors import AnabranchError, ConflictError, NotFoundError
from anabranch.model.deployment_state import DeploymentState
from anabranch.model.graph import Graph
from anabranch.model.lane import Lane
from anabranch.model.ssp import SSP
from anabranch.planning.transition import reset as planned
from anabranch.systems.systems import Systems

__all__ = ["Losses", "forget", "losses"]

Fencing = Callable[[Lane, Mapping[str, Any]], None]

_WHO = "user"
_WHY = "the user resets the job"


@dataclass(frozen=True)
class Losses:
    """What a job loses when it is reset.

    Args:
        is_reset: whether the job has already been reset. If so, the fields below are empty, but the job may still have
            to be removed from the readers of its streams, and its folders may still have to be deleted.
        inputs: the streams in which the job loses its positions.
        stateful: the operators that lose their state.
        between: the intermediate streams, whose present records won't be read any more.
        outputs: the streams and tables that the job writes, which stay as they are.
    """

    job: str
    is_reset: bool = False
    inputs: tuple[str, ...] = ()
    stateful: tuple[str, ...] = ()
    between: tuple[str, ...] = ()
    outputs: tuple[str, ...] = ()


def losses(store: Store, job: str) -> Losses:
    """What a job would lose if it were reset.

    Raises:
        NotFoundError: there is no such job.
        ConflictError: the job runs in containers and hasn't been stopped.
    """
    its = stored_jobs.deployment(store, job)
    if its.state is DeploymentState.RESET:
        return Losses(job, is_reset=True)
    if its.state.active and its.program is not None:  # without a program, the job's lock shows that its process is gone
        raise ConflictError(
            f"job {job!r} is {its.state}: only a job at rest can be reset", f"stop it first: anabranch stop {job}"
        )
    known = list(store.lanes(job).values())
    between = planned.between_stages(known, _graphs(store, job, its.id))
    lanes = [lane for lane in known if lane.deployment == its.id]
    read = {ssp.stream for lane in lanes for ssp in (*lane.ssps, *lane.broadcast)}
    return Losses(
        job,
        inputs=tuple(sorted(read - between.keys())),
        stateful=tuple(sorted({lane.group for lane in lanes if lane.stateful})),
        between=tuple(sorted(between)),
        outputs=tuple(sorted({stream for lane in lanes for stream in lane.outputs} - between.keys())),
    )


def forget(store: Store, settings: Settings, job: str, at: float, fence: Fencing, remove: Callable[[], None]) -> None:
    """Reset a job that no process serves. The caller must ensure that no process starts the job meanwhile.

    Raises the errors of :func:`losses`, ``fence`` and ``remove``, and the errors of the store. Also raises an error if
    a system doesn't answer. After an error, the function can be called again.

    Args:
        settings: the settings of the job's last deployment.
        at: the current time, in seconds since 1970.
        fence: fences a lane under its epoch, given the settings of the lane's deployment.
        remove: deletes the folders of the job's lanes.
    """
    systems = Systems(settings, job)
    if not losses(store, job).is_reset:
        its, known = stored_jobs.deployment(store, job), store.lanes(job)
        open_ones = [lane for lane in known.values() if planned.may_write(lane)]
        if open_ones:
            what = f"{len(open_ones)} lanes are fenced"
            event = Event(kind="fence", job=job, at=at, who=_WHO, what=what, why=_WHY)
            present = settings.model_dump(mode="json", exclude_unset=True)
            for lane in store.reseat(open_ones, event):
                is_last = lane.deployment == its.id
                given = present if is_last else fencing.settings_of(store, job, lane.deployment, present)
                fence(_with_present_outputs(lane, Systems(configuration.of_job(job, given), job)), given)
                known[lane.id] = lane
                why = f"at epoch {lane.epoch}"
                store.note([job_events.of_lane(lane, at, "is fenced", why, kind="fence", who=_WHO, mark="fenced")])
        between = planned.between_stages(known.values(), _graphs(store, job, its.id))
        changed = planned.forgotten(known.values(), _ends(systems, between))
        store.reset(job, its.id, changed, job_events.moved(job, at, its.state, DeploymentState.RESET, _WHY, who=_WHO))
    _forget_reader(systems, job)
    remove()


def _forget_reader(systems: Systems, job: str) -> None:
    """Remove the job from the readers of all streams. If the removal fails for one stream, go on with the other
    streams, and raise the first error at the end.
    """
    errors: list[AnabranchError] = []
    for system in systems.all:
        readers = system.readers()
        for stream in system.streams() if readers is not None else ():
            assert readers is not None
            try:
                readers.forget(stream, job)
            except AnabranchError as error:
                errors.append(error)
    if errors:
        raise errors[0]


def _graphs(store: Store, job: str, last: int) -> list[Graph]:
    return [store.graph(job, number) for number in store.deployment_numbers(job, last)]


def _ends(systems: Systems, streams: Mapping[str, str]) -> dict[SSP, int]:
    found: dict[SSP, int] = {}
    for stream, system in streams.items():
        with suppress(NotFoundError):
            ends = systems.named(system).ends(stream)
            found |= {SSP(system=system, stream=stream, partition=number): end for number, end in ends.items()}
    return found


def _with_present_outputs(lane: Lane, systems: Systems) -> Lane:
    """The lane, with only those output streams that still exist. No process can write to a stream that no longer
    exists.
    """
    streams = [(lane.system(stream), stream) for stream in lane.outputs if not systems.is_table(stream)]
    absent = {stream for _, stream in systems.absent(streams)}
    outputs = {stream: count for stream, count in lane.outputs.items() if stream not in absent}
    return msgspec.structs.replace(lane, outputs=outputs)
