"""Plans the next generation of a job whose input streams have gained partitions, or whose patterns match new
streams."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

import msgspec

from anabranch.errors import ConflictError
from anabranch.grouping import expansion, groupers
from anabranch.grouping import keys as grouping_keys
from anabranch.grouping.request import Input, Request
from anabranch.model.graph import Graph
from anabranch.model.job_model import JobModel, StageModel
from anabranch.model.lane import Lane
from anabranch.planning import patterns, stages
from anabranch.planning.assignment import assignor
from anabranch.planning.assignment.assignor import Placing
from anabranch.planning.transition import follow, rescale
from anabranch.planning.transition.change import Change

__all__ = ["check_together", "expanded", "other", "partitions", "seen"]


def partitions(graph: Graph, model: JobModel) -> dict[str, int]:
    """The partition count of each stream that the job reads and doesn't write, by ``system/stream``. If a stream grew,
    and a new version of the job was deployed before the job noticed, different stages can have different counts for
    this stream. The result then has the smallest of them.
    """
    own = stages.intermediate_streams(graph)
    counts: dict[str, int] = {}
    for stage in model.stages:
        for name, count in expansion.partitions(stage).items():
            counts[name] = min(count, counts.get(name, count))
    return {name: count for name, count in sorted(counts.items()) if name.split("/")[1] not in own}


def other(graph: Graph, model: JobModel, counts: Mapping[str, int]) -> dict[str, int]:
    """The entries of ``counts`` that differ from the job's partition counts, followed by the entries of new streams
    that match the job's patterns. A count of 0 stands for a stream that is gone.
    """
    grown = {name: counts[name] for name, has in partitions(graph, model).items() if counts.get(name, has) != has}
    return {**grown, **{name: counts[name] for name in patterns.coming(graph, model, counts)}}


def seen(graph: Graph, model: JobModel, counts: Mapping[str, int]) -> dict[str, int]:
    """The entries of ``counts`` for streams that the job reads, and for new streams that match its patterns."""
    its = {*partitions(graph, model), *patterns.coming(graph, model, counts)}
    return {name: count for name, count in counts.items() if name in its}


def expanded(
    graph: Graph,
    model: JobModel,
    lanes: Mapping[str, Lane],
    counts: Mapping[str, int],
    new_id: Callable[[], str],
    placing: Placing | None = None,
) -> Change:
    """Plan the next generation. In the next generation, streams have the partition counts in ``counts``, and the job
    also reads the new streams that match a pattern.

    The arguments not listed here are those of :func:`anabranch.planning.transition.rescale.rescaled`.

    Args:
        counts: the partition counts of existing streams, by ``system/stream``; 0 for a stream that is gone. Entries for
            intermediate streams are ignored. A stream of the job that is missing here keeps its count.

    Raises:
        ConflictError: the expansion isn't possible, for one of these reasons:

            - A stream is gone, has fewer partitions than before, or has a partition count to which the job's state
              can't adapt.
            - Because of a new stream, records of one key would be in different tasks.
            - A new stream matches two patterns.
            - A stage with a broadcast input would get new tasks.
            - The grouper doesn't allow the change; see
              :func:`anabranch.planning.transition.rescale.check_grouper`.
    """
    factor, containers = model.factor, len(model.containers)
    rescale.check_grouper(model, containers)
    wanted = other(graph, model, counts)
    gone = next((name for name, count in wanted.items() if not count), None)
    if gone is not None:
        raise ConflictError(
            f"stream {gone} is gone, and job {model.job!r} reads it",
            "restore it (its lanes continue as long as they can); or stop the job, and run a version without it",
        )
    after = []
    new = patterns.coming(graph, model, counts)
    for before in model.stages:
        stage = patterns.widened(before, new)
        mine = {name: count for name, count in wanted.items() if name in stage.inputs}
        inputs = rescale.inputs_of(stage, mine)
        check_together(stage, len(before.inputs), inputs)
        after.append(expansion.expanded(stage, inputs, factor, factor, containers) if mine else stage)
    for before, stage in zip(model.stages, after, strict=True):
        ssp = next((ssp for task in before.tasks for ssp in task.broadcast), None)
        if ssp is not None and _renumbered(before, stage):
            raise ConflictError(
                f"stage {stage.stage} of job {model.job!r} would have other tasks, but it reads the broadcast "
                f"{ssp.system}/{ssp.stream}, and it isn't defined from which offset new tasks would read it",
                "the job continues unchanged; run it under another name",
            )
    change = follow.following(model, after, lanes, factor, new_id, placing or assignor.plain(containers))
    return msgspec.structs.replace(change, model=msgspec.structs.replace(change.model, expands=tuple(wanted)))


def _renumbered(before: StageModel, after: StageModel) -> bool:
    """Whether a stage gets different tasks, or a task gets a different number."""
    return {task.index: task.name for task in before.tasks} != {task.index: task.name for task in after.tasks}


def check_together(stage: StageModel, had: int, inputs: tuple[Input, ...]) -> None:
    """Raise ConflictError if new streams would put the same key in different tasks of a stateful stage. The first
    ``had`` inputs are the older ones. The new streams come after these older inputs.
    """
    if not stage.stateful or len(inputs) == had or stage.grouper == "cogroup":
        return
    first = expansion.base_partitions(stage)
    at_first = [replace(each, partitions=first.get(str(each), each.partitions)) for each in inputs]
    keyed = [each for each in at_first if not each.broadcast]
    tasks = groupers.named(stage.grouper)(Request(stage=stage.stage, inputs=tuple(at_first)))
    apart = grouping_keys.apart(tasks, keyed)
    if apart is not None:
        raise ConflictError(
            f"stream {apart.right} is new and has {apart.right.partitions} partitions, but {apart.left} had "
            f"{apart.left.partitions} when state was first written: with grouper {stage.grouper!r}, records of "
            f"one key would be in different tasks of stage {stage.stage}",
            "the job continues without it; create it again with that count, or run the job under another name with "
            '[job] grouper = "cogroup"',
        )
