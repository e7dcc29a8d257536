"""The context in which commands run: the jobs, and functions that ask the systems that jobs read. The commands that can
move tasks also share :func:`enter`, which enters a planned generation.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import msgspec

from anabranch import config as configuration
from anabranch.coordinator.jobs import racks
from anabranch.coordinator.jobs.registry import JobRegistry
from anabranch.coordinator.jobs.running_job import RunningJob
from anabranch.coordinator.jobs.transitions import Generation, NextGeneration
from anabranch.coordinator.streams.input_monitor import Counting, Locating
from anabranch.errors import AnabranchError
from anabranch.model import moves
from anabranch.model.job_model import Matched
from anabranch.planning import patterns
from anabranch.planning.transition import expand
from anabranch.protocol.commands import ScaleResult, TaskMoveRequest
from anabranch.systems.systems import Systems

__all__ = ["Context", "enter"]


@dataclass(frozen=True)
class Context:
    """The context of a command. For ``systems``, ``counting`` and ``locating``, see
    :class:`anabranch.coordinator.coordinator.Coordinator`. Asking systems takes time, so don't hold a job's lock
    meanwhile.
    """

    registry: JobRegistry
    systems: Systems | None
    counting: Counting
    locating: Locating

    def systems_of(self, running_job: RunningJob) -> Systems:
        return self.systems or Systems(
            configuration.of_job(running_job.job, running_job.settings.given), running_job.job
        )

    def inputs(self, present: Generation) -> tuple[list[str], list[Matched]]:
        """The streams that a job reads but doesn't write, and its patterns for streams that may be created later."""
        counted = list(expand.partitions(present.graph, present.model))
        return counted, list(patterns.of_model(present.model).values())

    def locate(self, job: str, counts: Iterable[str] = ()) -> None:
        """Look up the racks of the replicas of all streams that a job reads, and store these racks in the running
        job. Does nothing if no seat of the job has a known rack. If a system doesn't answer, and the job's settings
        don't place tasks by racks, the racks stored before are removed.

        Args:
            counts: more streams to look up, as ``system/stream``.

        Raises:
            NotFoundError: there is no such job.
            ConflictError: this coordinator doesn't serve the job.
            AnabranchError: a system doesn't answer, and the job's settings place tasks by racks.
        """
        with self.registry.locked(job) as running_job:
            streams = sorted({*counts, *(name for stage in running_job.model.stages for name in stage.inputs)})
            has_racks = any(racks.where(running_job, len(running_job.model.containers)).seats.values())
        try:
            replicas = self.locating(job, running_job.settings.given, streams) if has_racks else None
        except AnabranchError:
            if running_job.settings.assignment.strategy != "none":
                raise
            replicas = {}  # without a strategy that needs them, replicas are merely displayed
        with self.registry.locked_as_seen():
            running_job.inputs.located_at = self.registry.clock()
            if replicas is not None:
                running_job.inputs.replicas = replicas


def enter(
    registry: JobRegistry,
    running_job: RunningJob,
    present: Generation,
    planned: NextGeneration | None,
    request: TaskMoveRequest,
) -> ScaleResult:
    """Enter the planned generation, and return the result. If ``planned`` is None, or if the request is a dry run, the
    result is returned without any change."""
    if planned is None:
        return ScaleResult(generation=present.generation, factor=present.factor, containers=present.containers)
    assert isinstance(planned.result, ScaleResult)
    if not request.dry:
        registry.change(running_job, planned, request.now)
    elif request.moves:
        return msgspec.structs.replace(planned.result, moves=moves.compared(present.model, planned.model))
    return planned.result
