"""Plans the change to another factor, or to another number of containers."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from anabranch.errors import ConflictError
from anabranch.grouping import expansion
from anabranch.grouping.request import Input
from anabranch.model.graph import Graph
from anabranch.model.job_model import JobModel, StageModel
from anabranch.model.lane import Lane
from anabranch.planning import stages
from anabranch.planning.assignment import assignor
from anabranch.planning.assignment.assignor import Placing
from anabranch.planning.plan.tasks import check_shuffled
from anabranch.planning.transition.change import Change
from anabranch.planning.transition.follow import following

__all__ = ["check_grouper", "inputs_of", "rescaled"]


def rescaled(
    graph: Graph,
    model: JobModel,
    lanes: Mapping[str, Lane],
    factor: int,
    containers: int,
    new_id: Callable[[], str],
    placing: Placing | None = None,
) -> Change:
    """The next generation with another factor or number of containers.

    Args:
        model: the current generation.
        lanes: all lanes of the deployment, by id.
        new_id: returns 8 random hex digits per call.
        placing: assigns tasks to exactly ``containers`` seats. By default, racks are ignored.

    Raises:
        ConfigError: the factor or the number of containers isn't allowed.
        GraphError: the graph doesn't allow this factor or number of containers.
        ConflictError: the job's tasks can't be changed in this way while the job runs.
    """
    check_grouper(model, containers)
    for stage in stages.cut(graph):
        check_shuffled(stage, factor, containers)
    after = [expansion.expanded(each, inputs_of(each), model.factor, factor, containers) for each in model.stages]
    return following(model, after, lanes, factor, new_id, placing or assignor.plain(containers))


def check_grouper(model: JobModel, containers: int) -> None:
    """Raise ConflictError if a job's tasks can't be regrouped for ``containers`` containers while the job runs. A job's
    tasks can't be regrouped if the job has no stages, or if it has a custom grouper. With the grouper ``all``, the
    number of containers can't change.
    """
    if not model.stages:
        raise ConflictError(f"job {model.job!r} has no stages, so its tasks can't be changed", "start another plan")
    name = model.stages[0].grouper
    if ":" in name:
        raise ConflictError(
            f"job {model.job!r} has the custom grouper {name}, which can't be called while the job runs",
            "use a built-in grouper: partition, ssp or cogroup",
        )
    if name == "all" and containers != len(model.containers):
        raise ConflictError(
            f'job {model.job!r} has the grouper "all": each container would read all records',
            "use another grouper: partition, ssp or cogroup",
        )


def inputs_of(stage: StageModel, counts: Mapping[str, int] | None = None) -> tuple[Input, ...]:
    """The inputs of a stage. ``counts`` has the partition counts, by ``system/stream``, of streams that are new in the
    stage or whose count has changed.
    """
    known = {**expansion.partitions(stage), **(counts or {})}
    broadcast = {f"{ssp.system}/{ssp.stream}" for task in stage.tasks for ssp in task.broadcast}
    found = []
    for name in stage.inputs:
        system, stream = name.split("/")
        found.append(Input(system=system, stream=stream, partitions=known[name], broadcast=name in broadcast))
    return tuple(found)
