"""Determines the tasks of a stage whose factor, partition counts or set of streams has changed (compare Samza's
proposal SEP-5).

State stays where it is. Suppose that a stream had n partitions when its state was first written, and now has a multiple
of n. A key that is now in partition p was then in partition p mod n, provided that producers assign keys by hash modulo
the partition count.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from anabranch.errors import ConflictError
from anabranch.grouping import cogroup, groupers, ssp, virtual
from anabranch.grouping.request import Input, Request
from anabranch.model.job_model import StageModel
from anabranch.model.names import TaskKind, TaskName
from anabranch.model.ssp import SSP
from anabranch.model.task import Task

__all__ = ["base_partitions", "expanded", "partitions"]


def partitions(stage: StageModel) -> dict[str, int]:
    """The partition count of each of a stage's streams, according to the stage's tasks. The keys have the form
    ``system/stream``.
    """
    last: dict[tuple[str, str], int] = {}
    for task in stage.tasks:
        for each in (*task.ssps, *task.broadcast):
            name = each.system, each.stream
            if last.get(name, -1) < each.partition:
                last[name] = each.partition
    return {f"{system}/{stream}": partition + 1 for (system, stream), partition in last.items()}


def base_partitions(stage: StageModel) -> dict[str, int]:
    """The partition count that each stream had when state was first written. The keys have the form ``system/stream``.
    Streams that the stage no longer reads are included.
    """
    found: dict[str, int] = {}
    for base in stage.base.values():
        name = f"{base.system}/{base.stream}"
        found[name] = max(base.partition + 1, found.get(name, 0))
    return found


def expanded(stage: StageModel, inputs: Sequence[Input], before: int, factor: int, containers: int) -> StageModel:
    """The stage as it is after a change to its inputs, its factor or the number of containers.

    In a stateful stage, each partition goes to the task that has the state of the partition's keys, according to
    ``stage.base``. A stateless stage is grouped like a new stage, with one exception: with ``cogroup``, the stage keeps
    its number of tasks at factor 1 if that is possible. So if the inputs stay the same, the tasks at factor 1 stay the
    same, too. This isn't true of the grouper ``all``, which makes one task for each container.

    Args:
        inputs: the stage's inputs after the change, with their partition counts.
        before: the stage's current factor.
        factor: the factor after the change.
        containers: the number of containers after the change.

    Raises:
        ConflictError: a stream has fewer partitions than before. Or, with the grouper ``ssp``, the order of the inputs
            has changed. Or, in a stateful stage, a stream's partition count isn't a multiple of its count when state
            was first written. Or, in a stateful stage with ``cogroup``, a stream's partition count isn't a multiple of
            the number of tasks at factor 1.
    """
    known = partitions(stage)
    for each in inputs:
        if each.partitions < known.get(str(each), 0):
            raise ConflictError(
                f"stream {each} has {each.partitions} partitions, and had {known[str(each)]}: a stream can only grow",
                "the job continues unchanged; restore the stream, or run the job under another name",
            )
    request = Request(stage=stage.stage, inputs=tuple(inputs), factor=factor, containers=containers)
    named = tuple(map(str, request.inputs))
    if stage.grouper == "ssp":
        ssp.check_order(stage.stage, stage.inputs, named)
    if not stage.stateful:
        return _with(stage, named, _regrouped(stage, request, before), {})
    base = dict(stage.base)
    groups = _groups(stage, before)
    for each in request.grouped:
        _extend(stage, base, each)
        if stage.grouper == "cogroup" and each.partitions % groups:
            raise ConflictError(
                f"stream {each} has {each.partitions} partitions, and stage {stage.stage} has {groups} groups of keys, "
                "which stay as they are: they must divide its partitions",
                f"give the stream a multiple of {groups} partitions; until then the job continues unchanged",
            )
    if stage.grouper == "all":
        return _with(stage, named, groupers.named("all")(request), base)
    members: dict[TaskName, list[SSP]] = {}
    for first in dict.fromkeys(base.values()):  # also of removed streams: tasks keep the numbers that they had
        members[_task(stage.grouper, first, groups)] = []
    for each in request.grouped:
        for whole in each.ssps:
            members[_task(stage.grouper, base[str(whole)], groups)].append(whole)
    ordered = members if stage.grouper == "ssp" else sorted(members, key=lambda name: name.number)
    return _with(stage, named, virtual.cut(request, ((name, members[name]) for name in ordered)), base)


def _with(stage: StageModel, inputs: tuple[str, ...], tasks: tuple[Task, ...], base: Mapping[str, SSP]) -> StageModel:
    return StageModel(
        stage=stage.stage,
        key=stage.key,
        stateful=stage.stateful,
        grouper=stage.grouper,
        inputs=inputs,
        tasks=tasks,
        base=dict(base),
        patterns=stage.patterns,
        extra=stage.extra,
    )


def _extend(stage: StageModel, base: dict[str, SSP], stream: Input) -> None:
    """Add each partition of a stream to ``base``. A partition is mapped to the partition under which the state of its
    keys was first written. A partition of a new stream is mapped to itself. Raises ConflictError if the stream's
    partition count isn't a multiple of the count that it had when state was first written.
    """
    first = base_partitions(stage).get(str(stream))
    if first is None:
        base.update({str(whole): whole for whole in stream.ssps})
        return
    if stream.partitions % first:
        raise ConflictError(
            f"stream {stream} has {stream.partitions} partitions, and the state of stage {stage.stage} was first "
            f"written with {first}: a key stays with its state only in a multiple of them",
            f"expand the stream to {(stream.partitions // first + 1) * first}; until then the job continues unchanged",
        )
    base.update({str(whole): stream.ssp(whole.partition % first) for whole in stream.ssps})


def _groups(stage: StageModel, factor: int) -> int:
    return len(stage.tasks) // factor


def _task(grouper: str, base: SSP, groups: int) -> TaskName:
    """The task (at factor 1) that has the state of a partition."""
    if grouper == "ssp":
        return TaskName(kind=TaskKind.SSP, number=base.partition, system=base.system, stream=base.stream)
    if grouper == "cogroup":
        return TaskName(kind=TaskKind.GROUP, number=base.partition % groups)
    return TaskName(kind=TaskKind.PARTITION, number=base.partition)


def _regrouped(stage: StageModel, request: Request, before: int) -> tuple[Task, ...]:
    """The tasks of a stateless stage, formed as for a new stage. There is one exception: with ``cogroup``, the number
    of tasks (at factor 1) stays the same if it divides all partition counts.
    """
    groups = _groups(stage, before)
    if stage.grouper != "cogroup" or any(each.partitions % groups for each in request.grouped):
        return groupers.named(stage.grouper)(request)
    return cogroup.into(request, groups)
