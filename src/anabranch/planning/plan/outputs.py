"""Plans outputs: the streams, tables and ``foreach_batch`` functions that get rows, the streams that get dead letters,
and what each output promises."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from anabranch.errors import ConfigError, GraphError
from anabranch.model.graph import Graph, Node
from anabranch.operators import rule
from anabranch.operators.rules import is_boundary, on_late
from anabranch.planning import stages
from anabranch.planning.plan.planned import Output
from anabranch.planning.plan.promises import AT_LEAST_ONCE, EXACTLY_ONCE
from anabranch.planning.plan.surroundings import Surroundings
from anabranch.planning.stages import Stage

__all__ = ["check_all", "check_written", "dead_letters", "is_stream", "output"]


def is_stream(node: Node) -> bool:
    """Whether a sink writes to a stream or a table, and isn't a ``foreach_batch``."""
    return node.kind == "write" or is_boundary(node)


def output(
    graph: Graph,
    stage: Stage,
    sink: Node,
    systems: Mapping[str, str],
    around: Surroundings,
    counts: Mapping[str, int],
) -> Output:
    """The output that a sink writes. ``counts`` are the partition counts of the streams that the job's stages read.

    Raises:
        ConfigError: settings ask for an at-least-once promise for an intermediate stream. In micro-batches, only
            exactly-once writers reject rows without a key.
    """
    if not is_stream(sink):
        return Output(operator=sink.name, stage=stage.id, promise=AT_LEAST_ONCE)
    stream = stages.stream_of(graph, sink)
    if is_boundary(sink) and stream in around.at_least_once and around.real_time is None:
        raise ConfigError(
            f'[streams.{stream}] delivery is "at-least-once", but {sink.kind} {sink.name!r} ({sink.where}) writes this '
            "intermediate stream exactly once",
            f"remove delivery from [streams.{stream}]",
        )
    most = max(counts[stages.stream_of(graph, s)] for s in stage.sources)
    return Output(
        operator=sink.name,
        stage=stage.id,
        promise=around.delivered(stream),
        system=systems[stream],
        stream=stream,
        partitions=counts.get(stream, around.partitions.get(stream, most)),
        intermediate=is_boundary(sink),
    )


def dead_letters(
    graph: Graph, stage: Stage, systems: Mapping[str, str], around: Surroundings, counts: Mapping[str, int]
) -> dict[str, Output]:
    """The dead-letter stream of each source that needs one, by the source's name. A ``read`` always needs a dead-letter
    stream, because its records may be unreadable. The records of an intermediate stream are readable, so an
    intermediate stream needs a dead-letter stream only if an operator of the stage can reject a readable record.
    """
    found: dict[str, Output] = {}
    for source in stage.sources:
        if source.kind == "read" or any(map(_may_reject, stage.nodes)):
            read = stages.stream_of(graph, source)
            stream = stages.dead_letters_of(read)
            found[source.name] = Output(
                operator=source.name,
                stage=stage.id,
                promise=EXACTLY_ONCE,
                system=systems[stream],
                stream=stream,
                partitions=around.partitions.get(stream, counts[read]),
                dead_letters=True,
            )
    return found


def _may_reject(node: Node) -> bool:
    """Whether an operator can reject a readable record. It can if it has a function, which may raise an error, if it
    repartitions by a key, which may be null, or if its late rows become dead letters."""
    return rule(node).function or node.kind == "partition_by" or on_late(node) == "dead-letter"


def check_written(graph: Graph, cut: Iterable[Stage]) -> None:
    """Raise GraphError if a ``read`` names a stream that the job writes. (Dead-letter streams aren't checked.)"""
    written = {stages.stream_of(graph, s): s for stage in cut for s in stage.sinks if is_stream(s)}
    for node in graph.nodes:
        if node.kind == "read" and node.args["stream"] in written:
            sink = written[node.args["stream"]]
            raise GraphError(
                f"the job reads stream {node.args['stream']!r} ({node.where}) and writes it too ({sink.where})",
                "write to another stream: a job that feeds itself never ends",
            )


def check_all(outputs: Iterable[Output], around: Surroundings) -> None:
    """Raise ConfigError if an output promises exactly-once output, but each of several containers would process every
    record, as with the grouper ``all``. Dead-letter streams aren't checked.
    """
    exact = next((o for o in outputs if o.promise == EXACTLY_ONCE and not o.dead_letters), None)
    if around.grouper_name == "all" and around.containers > 1 and exact is not None:
        raise ConfigError(
            f'grouper "all" on {around.containers} containers reads each record {around.containers} times, but output '
            f"{exact.operator!r} promises exactly once",
            "use one container, or another grouper",
        )
