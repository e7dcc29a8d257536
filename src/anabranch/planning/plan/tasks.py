"""Plans the tasks of each stage."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from anabranch.errors import GraphError, NotFoundError
from anabranch.grouping import keys as grouping_keys
from anabranch.grouping import validation
from anabranch.grouping.request import Input, Request
from anabranch.model.graph import Graph, Node
from anabranch.model.job_model import StageModel
from anabranch.model.task import Task
from anabranch.operators.rules import is_boundary
from anabranch.planning import stages
from anabranch.planning.plan.surroundings import Surroundings
from anabranch.planning.stages import Stage

__all__ = ["check_shuffled", "partition_counts", "stage_inputs", "stage_model", "tasks_of"]


def partition_counts(
    graph: Graph, cut: Iterable[Stage], systems: Mapping[str, str], around: Surroundings
) -> dict[str, int]:
    """Maps the name of each stream that the stages read to the stream's partition count.

    - The count of an existing stream is in ``around.partitions``.
    - For an input that is bound to a pattern, the result contains the partition count of each of the input's streams.
      It also contains the largest of these counts, under the job's name for the input.
    - An intermediate stream that doesn't exist gets the count that is declared in its ``partition_by``. If none is
      declared there, the stream gets the largest count among the inputs of the stage that writes the stream.

    Args:
        cut: the stages, each after the stages from which it reads.

    Raises:
        NotFoundError: a ``read`` names a stream that doesn't exist.
    """
    counts: dict[str, int] = {}
    for stage in cut:
        for source in stage.sources:
            stream = stages.stream_of(graph, source)
            if stream in around.patterns:
                its = {each: around.partitions[each] for each in around.read(graph, source)}
                counts |= {**its, stream: max(its.values())}
            elif stream in around.partitions:
                counts[stream] = around.partitions[stream]
            elif source.kind == "read":
                raise NotFoundError(
                    f"read {source.name!r} ({source.where}): there is no stream {stream!r} in {systems[stream]}",
                    f"create it: anabranch stream create {stream} --partitions 4; or see: anabranch stream list",
                )
        most = max(counts[stages.stream_of(graph, s)] for s in stage.sources)
        for sink in stage.sinks:
            if is_boundary(sink):
                stream = stages.stream_of(graph, sink)
                counts[stream] = around.partitions.get(stream, sink.args.get("partitions", most))
    return counts


def stage_inputs(
    graph: Graph, stage: Stage, systems: Mapping[str, str], counts: Mapping[str, int], around: Surroundings
) -> tuple[Input, ...]:
    """The inputs of a stage, with their partition counts."""
    return tuple(
        Input(
            system=systems[stream],
            stream=stream,
            partitions=counts[stream],
            broadcast=bool(source.args.get("broadcast")),
        )
        for source in stage.sources
        for stream in around.read(graph, source)
    )


def tasks_of(stage: Stage, inputs: tuple[Input, ...], around: Surroundings, warnings: list[str]) -> tuple[Task, ...]:
    """The tasks of a stage. Adds a warning to ``warnings`` if the grouper ``cogroup`` can form only one task (at factor
    1) for a stateful stage with several inputs. There is no warning if each of these inputs has a single partition.

    Raises:
        GraphError: tasks can't be formed from the stage's inputs. Or records of one key could be in different tasks of
            a stateful stage. Or a user's own grouper returned invalid tasks. Or the stage has a shuffle inside the
            query, and the factor or the number of containers is above 1.
        ConfigError: the factor isn't allowed, or the grouper rules out the factor or a broadcast input.
    """
    check_shuffled(stage, around.factor, around.containers)
    request = Request(stage=stage.id, inputs=inputs, factor=around.factor, containers=around.containers)
    tasks = around.grouper(request)
    if ":" in around.grouper_name:
        validation.check(request, tasks)
    keyed = [i for i in inputs if not i.broadcast]
    if stage.stateful and len(keyed) > 1:
        apart = _apart(request, tasks, around)
        if apart is not None:
            node = stage.stateful[0]
            raise GraphError(
                f"{node.kind} {node.name!r} ({node.where}) takes {apart.left} ({apart.left.partitions} partitions) and "
                f"{apart.right} ({apart.right.partitions}) by key, but with grouper {around.grouper_name!r}, records "
                "of one key can be in different tasks",
                f'set [job] grouper = "cogroup": this gives {apart.cogroup_tasks} tasks, with each key in one task',
            )
        if around.grouper_name == "cogroup" and grouping_keys.single_group(keyed) is not None:
            listed = ", ".join(f"{i}: {i.partitions}" for i in keyed)
            warnings.append(
                f"stage {stage.id} has only one task: its partition counts have no common divisor ({listed})"
            )
    return tasks


def _apart(request: Request, tasks: tuple[Task, ...], around: Surroundings) -> grouping_keys.SeparatedKey | None:
    at_first = tuple(replace(i, partitions=around.bases.get(i.stream, i.partitions)) for i in request.inputs)
    if at_first != request.inputs:
        tasks = around.grouper(replace(request, inputs=at_first))
    return grouping_keys.apart(tasks, [i for i in at_first if not i.broadcast])


def check_shuffled(stage: Stage, factor: int, containers: int) -> None:
    """Raise GraphError if a stage with a shuffle inside the query has a factor or a number of containers above 1."""
    shuffle = stage.shuffled
    if shuffle is not None and (factor > 1 or containers > 1):
        raise GraphError(
            f"partition_by {shuffle.name!r} ({shuffle.where}) is a shuffle inside the query: stage {stage.id} can't "
            f"have factor {factor} and {containers} container(s)",
            'use via="stream", or factor 1 and one container',
        )


def stage_model(stage: Stage, inputs: tuple[Input, ...], tasks: tuple[Task, ...], around: Surroundings) -> StageModel:
    """A stage with its tasks, as part of a job model."""
    return StageModel(
        stage=stage.id,
        key=stage.key,
        stateful=bool(stage.stateful),
        grouper=around.grouper_name,
        inputs=tuple(str(i) for i in inputs),
        tasks=tasks,
        base={str(s): s for i in inputs if not i.broadcast for s in i.ssps} if stage.stateful else {},
        patterns={n.args["stream"]: around.patterns[n.args["stream"]] for n in stage.sources if _is_many(n, around)},
    )


def _is_many(source: Node, around: Surroundings) -> bool:
    return source.kind == "read" and source.args["stream"] in around.patterns
