"""The next generation of a job whose streams have more partitions than before."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import msgspec

from anabranch.assignment import seating
from anabranch.assignment.seating import Placing
from anabranch.errors import ConflictError
from anabranch.grouping import expansion
from anabranch.model.graph import Graph
from anabranch.model.job_model import JobModel
from anabranch.model.lane import Lane
from anabranch.operators.rules import is_boundary
from anabranch.planning import changes, stages
from anabranch.planning.changes import Change

__all__ = ["expanded", "other", "partitions"]


def partitions(graph: Graph, model: JobModel) -> dict[str, int]:
    """How many partitions of each stream the job reads, by ``system/stream``: of those that others write."""
    own = {stages.stream_of(graph, node) for node in graph.nodes if is_boundary(node)}
    counts = {name: count for stage in model.stages for name, count in expansion.partitions(stage).items()}
    return {name: count for name, count in sorted(counts.items()) if name.split("/")[1] not in own}


def other(graph: Graph, model: JobModel, counts: Mapping[str, int]) -> dict[str, int]:
    """Those of ``counts`` that the job doesn't have so. 0: the stream is gone."""
    return {name: counts[name] for name, has in partitions(graph, model).items() if counts.get(name, has) != has}


def expanded(
    graph: Graph,
    model: JobModel,
    lanes: Mapping[str, Lane],
    counts: Mapping[str, int],
    new_id: Callable[[], str],
    placing: Placing | None = None,
) -> Change:
    """The next generation, with these partition counts of the streams that others write.

    Without any that is another one, no lane is closed. Arguments as for :func:`anabranch.planning.changes.rescaled`.

    Raises:
        ConflictError: a stream is gone, has fewer partitions than before, or a number that its state can't go along
            with; or the job's grouper is its own.
    """
    factor, containers = model.factor, len(model.containers)
    changes.check_grouper(model, containers)
    wanted = other(graph, model, counts)
    gone = next((name for name, count in wanted.items() if not count), None)
    if gone is not None:
        raise ConflictError(
            f"stream {gone} is gone, and job {model.job!r} reads it",
            "restore it: its lanes go on as long as they can; or stop the job, and run one without it",
        )
    after = []
    for stage in model.stages:
        mine = {name: count for name, count in wanted.items() if name in stage.inputs}
        inputs = changes.inputs_of(stage, mine)
        after.append(expansion.expanded(stage, inputs, factor, factor, containers) if mine else stage)
    for before, stage in zip(model.stages, after, strict=True):
        ssp = next((ssp for task in before.tasks for ssp in task.broadcast), None)
        if ssp is not None and len(stage.tasks) > len(before.tasks):
            raise ConflictError(
                f"stage {stage.stage} of job {model.job!r} would have new tasks, and the broadcast input "
                f"{ssp.system}/{ssp.stream}: from where on those are to have its records isn't settled yet",
                "the job goes on as it is; run it under another name",
            )
    change = changes.following(model, after, lanes, factor, new_id, placing or seating.plain(containers))
    return msgspec.structs.replace(change, model=msgspec.structs.replace(change.model, expands=tuple(wanted)))
