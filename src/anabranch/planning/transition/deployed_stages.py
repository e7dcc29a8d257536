"""Determines the tasks of each stage of a next deployment, which continues from the current one. Pure functions.

The next version may have been planned when its streams had fewer partitions, or when fewer streams matched a pattern.
For example, a rollback returns to a version that was planned long ago. The next deployment must nevertheless read
everything that the current lanes read. Otherwise, positions would be lost, and the job would later read the missing
partitions from their beginning.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import msgspec

from anabranch.errors import ConflictError
from anabranch.grouping import expansion
from anabranch.grouping.request import Input
from anabranch.model.job_model import JobModel, StageModel
from anabranch.model.lane import Lane
from anabranch.planning import patterns
from anabranch.planning.transition import expand, rescale

__all__ = ["ContinuedStage", "continued", "read_by"]


@dataclass(frozen=True)
class ContinuedStage:
    """A stage of the next deployment. ``home`` gives the tasks that each seat already has."""

    model: StageModel
    home: Mapping[str, tuple[str, ...]]


def read_by(stage: StageModel) -> set[tuple[str, bool]]:
    """The inputs of a stage, as ``system/stream``, each with whether it is broadcast."""
    return {(str(each), each.broadcast) for each in rescale.inputs_of(stage)}


def continued(
    planned: StageModel, after: JobModel, templates: Sequence[Lane], known: Sequence[JobModel], former: Sequence[Lane]
) -> ContinuedStage:
    """A stage of the next deployment, with all partitions of its streams that the job reads.

    If a known stage reads the same streams, the new stage gets the known stage's tasks. If several known stages read
    the same streams, the first choice is a stage that has the state of the new stage's operators. The second choice is
    a stage of the deployment to which the job returns. (No lane of a later deployment has begun, so no lane has read
    partitions that only later deployments had.)

    If a new stage keeps state, but none of it is from the known stage, the new stage gets the tasks that it was planned
    with, because these tasks keep the records of a key together.

    Args:
        planned: the stage as planned.
        after: the model of the next version, of which ``planned`` is a stage.
        templates: the lanes of the next version, as planned.
        known: the models of the deployments from which the next one continues, the current model first.
        former: the lanes from which the lanes of the next deployment continue.

    Raises:
        ConflictError: the tasks must be formed again, but can't be: the job has a custom grouper, or a stage with state
            doesn't allow the partition counts. See :func:`anabranch.planning.transition.expand.expanded`.
    """
    present, seats = known[0], {container.seat for container in known[0].containers}
    bound = {name: matched for model in reversed(known) for name, matched in patterns.of_model(model).items()}
    stage = patterns.as_known(planned, bound, _unmatched(after, templates))
    inputs = rescale.inputs_of(stage, _most_partitions((planned, *(each for model in known for each in model.stages))))
    reads = {(str(each), each.broadcast) for each in inputs}
    kept = {lane.group for lane in templates if lane.stage == planned.stage and lane.stateful}
    having = {(lane.deployment, lane.stage) for lane in former if lane.stateful and lane.group in kept}
    same = [model for model in reversed(known) if model.factor == present.factor]
    alike = [(model, each) for model in same for each in model.stages if read_by(each) == reads]
    alike.sort(key=lambda found: (found[0].run_id, found[1].stage) not in having)
    if not alike:
        return ContinuedStage(_regrouped(stage, planned, inputs, after, present), {})
    model, before = alike[0]
    home = {each.seat: each.tasks.get(before.stage, ()) for each in model.containers if each.seat in seats}
    if stage.stateful and (model.run_id, before.stage) not in having:
        return ContinuedStage(_regrouped(stage, planned, inputs, after, present), home)
    base = before.base if stage.stateful else {}
    return ContinuedStage(msgspec.structs.replace(stage, inputs=before.inputs, tasks=before.tasks, base=base), home)


def _unmatched(after: JobModel, templates: Iterable[Lane]) -> set[str]:
    """The streams that a version uses without a pattern: the streams that it reads by name, and the streams that it
    writes."""
    matched = {stream for each in patterns.of_model(after).values() for stream in each.streams}
    read = {name.split("/")[1] for stage in after.stages for name in stage.inputs}
    return read - matched | {stream for lane in templates for stream in lane.outputs}


def _most_partitions(stages: Iterable[StageModel]) -> dict[str, int]:
    """The largest partition count that each stream has in any of the stages, by ``system/stream``."""
    most: dict[str, int] = {}
    for stage in stages:
        for name, count in expansion.partitions(stage).items():
            most[name] = max(count, most.get(name, 0))
    return most


def _regrouped(
    stage: StageModel, planned: StageModel, inputs: tuple[Input, ...], after: JobModel, present: JobModel
) -> StageModel:
    """The stage with tasks for ``inputs``. The tasks of ``planned`` are kept if ``planned`` has these inputs, and if
    the model ``after`` has the present factor and the present number of containers. Otherwise, new tasks are formed.
    """
    containers = len(present.containers)
    same_size = (after.factor, len(after.containers)) == (present.factor, containers)
    if same_size and inputs == rescale.inputs_of(planned):
        return stage
    if ":" in stage.grouper:
        raise ConflictError(
            f"the inputs of stage {stage.stage}, the factor or the number of containers has changed since the version "
            f"was planned, and the stage's custom grouper {stage.grouper} can't be called here",
            "deploy the file of that version: anabranch deploy JOB.py",
        )
    expand.check_together(stage, len({*planned.inputs}.intersection(stage.inputs)), inputs)
    return expansion.expanded(stage, inputs, after.factor, present.factor, containers)
