"""Finds the streams of inputs that are bound to patterns, including matching streams that appear while the job runs."""

from __future__ import annotations

from collections.abc import Collection, Mapping

import msgspec

from anabranch.config.headings import heading
from anabranch.errors import ConflictError, GraphError, NotFoundError
from anabranch.model.graph import Graph, Node
from anabranch.model.job_model import JobModel, Matched, StageModel
from anabranch.planning import stages

__all__ = ["as_known", "check", "coming", "found", "of_model", "own", "widened"]


def own(graph: Graph) -> frozenset[str]:
    """The streams that a job writes or creates for itself. The job never reads them through a pattern."""
    between = stages.intermediate_streams(graph)
    written = {stages.stream_of(graph, node) for node in graph.nodes if node.kind == "write"}
    read = {stages.stream_of(graph, node) for node in graph.nodes if node.kind == "read"}
    aside = map(stages.dead_letters_of, read | between)
    return frozenset({*written, *between, *aside, f"{graph.job}-markers", f"{graph.job}-controls"})


def found(
    graph: Graph,
    patterns: Mapping[str, str],
    systems: Mapping[str, str],
    there: Mapping[str, Collection[str]],
    known: JobModel | None = None,
    new: bool = True,
) -> dict[str, Matched]:
    """For each input that is bound to a pattern, the input's streams. The keys are the job's names for the inputs. A
    pattern never includes streams that the job reads by their names, or streams that the job writes or creates.

    Args:
        patterns: maps the job's names for inputs to the patterns to which the settings bind these inputs.
        systems: maps the same names to the systems of these inputs.
        there: the existing streams of each system.
        known: the job's current model. The model's streams come first in the result, in the model's order.
        new: whether inputs that already have streams also get new streams.

    Raises:
        NotFoundError: a pattern matches no stream's name. Or a stream that the job has read through a pattern is gone,
            or no longer matches.
    """
    named = _named(graph, patterns.keys())
    before = {} if known is None else of_model(known)
    result = {}
    for node in graph.nodes:
        name = str(node.args.get("stream", ""))
        if node.kind != "read" or name not in patterns or name in result:
            continue
        empty = Matched(system=systems[name], pattern=patterns[name], streams=())
        matching = [s for s in sorted(there[systems[name]]) if empty.matches(f"{systems[name]}/{s}")]
        matching = [stream for stream in matching if stream not in named | own(graph)]
        has = before[name].streams if name in before else ()
        lost = next((stream for stream in has if stream not in matching), None)
        if lost is not None:
            raise NotFoundError(
                f"{_label(node)} has read stream {lost!r} so far, and {systems[name]} has no stream of that name that "
                f"matches {patterns[name]!r}",
                f"restore it, or let {heading('streams', name)} pattern match it; or run the job under another name",
            )
        its = (*has, *(stream for stream in matching if stream not in has and (new or not has)))
        if not its:
            raise NotFoundError(
                f"{_label(node)}: no stream in {systems[name]} has a name that matches {patterns[name]!r} completely",
                f"see anabranch stream list; create one, or correct {heading('streams', name)} pattern",
            )
        result[name] = msgspec.structs.replace(empty, streams=its)
    return result


def of_model(model: JobModel) -> dict[str, Matched]:
    """The streams of each input that is bound to a pattern, for the inputs of all stages. The keys are the job's names
    for the inputs.
    """
    return {name: matched for stage in model.stages for name, matched in stage.patterns.items()}


def coming(graph: Graph, model: JobModel, counts: Mapping[str, int]) -> list[str]:
    """The existing streams, as ``system/stream``, that match one of the job's patterns, but aren't inputs of the job
    yet. Streams that the job writes or creates are left out. ``counts`` is the partition count of each stream; 0 for a
    stream that doesn't exist.
    """
    bound = of_model(model)
    patterns = bound.values()
    if not patterns:
        return []
    has, left_out = {name for stage in model.stages for name in stage.inputs}, own(graph) | _named(graph, bound)
    return [
        name
        for name, count in sorted(counts.items())
        if count and name not in has and name.split("/")[1] not in left_out and any(p.matches(name) for p in patterns)
    ]


def _named(graph: Graph, bound: Collection[str]) -> set[str]:
    """The streams that the job reads by their names. No pattern includes these. ``bound`` are the job's names for
    inputs that are bound to patterns."""
    return {str(node.args["stream"]) for node in graph.nodes if node.kind == "read"} - set(bound)


def widened(stage: StageModel, new: Collection[str]) -> StageModel:
    """The stage with additional inputs: those of the ``new`` streams, given as ``system/stream``, that match the
    stage's patterns. The additional inputs come after the stage's other inputs.

    Raises:
        ConflictError: a stream matches the patterns of two inputs.
    """
    patterns = dict(stage.patterns)
    its = []
    for name in new:
        takers = [each for each, matched in patterns.items() if matched.matches(name)]
        if len(takers) > 1:
            raise ConflictError(
                f"stream {name} matches the patterns of {' and '.join(takers)}, inputs of stage {stage.stage}",
                "the job continues without the stream; to read it, let only one pattern match it, then drain and "
                "start the job",
            )
        for each in takers:
            matched = patterns[each]
            patterns[each] = msgspec.structs.replace(matched, streams=(*matched.streams, name.split("/")[1]))
            its.append(name)
    return msgspec.structs.replace(stage, inputs=(*stage.inputs, *its), patterns=patterns) if its else stage


def as_known(stage: StageModel, known: Mapping[str, Matched], left_out: Collection[str]) -> StageModel:
    """A copy of the stage. Each input that is bound to a pattern gets the streams that ``known`` contains for it, in
    the same order. An input that isn't in ``known`` keeps its streams. New streams come after the stage's other
    inputs. The tasks stay as they are.

    Args:
        known: for inputs that are bound to patterns, the streams of each input. The keys are the job's names for the
            inputs.
        left_out: streams that no pattern includes.
    """
    patterns = dict(stage.patterns)
    for name in patterns.keys() & known.keys():
        streams = tuple(stream for stream in known[name].streams if stream not in left_out)
        patterns[name] = msgspec.structs.replace(patterns[name], streams=streams)
    had, has = (
        dict.fromkeys(f"{each.system}/{stream}" for each in bound.values() for stream in each.streams)
        for bound in (stage.patterns, patterns)
    )
    kept = tuple(name for name in stage.inputs if name in has or name not in had)
    return msgspec.structs.replace(
        stage,
        inputs=(*kept, *(name for name in has if name not in kept)),
        patterns=patterns,
        base={text: ssp for text, ssp in stage.base.items() if f"{ssp.system}/{ssp.stream}" not in had.keys() - has},
    )


def check(graph: Graph, patterns: Mapping[str, str]) -> None:
    """Raise GraphError if a broadcast, a stream joined as a table, or an output is bound to a pattern, because a
    pattern can stand for several streams.
    """
    for node in graph.nodes:
        stream = node.args.get("of", node.args).get("stream")
        if stream not in patterns or (node.kind == "read" and not node.args.get("broadcast")):
            continue
        what = "is a broadcast" if node.kind == "read" else "is a table" if "of" in node.args else "is an output"
        raise GraphError(
            f"{_label(node)}: {stream!r} {what}, and is bound to the pattern {patterns[stream]!r}",
            f"bind it to one stream: take {heading('streams', stream)} pattern out",
        )


def _label(node: Node) -> str:
    return f"{node.kind} {node.name!r} ({node.where})"
