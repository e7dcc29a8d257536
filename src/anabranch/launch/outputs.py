"""Creates the streams and tables that a new job (or a new version of a job) writes, and checks a job's outputs before
the job starts.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping

from anabranch.config import Settings
from anabranch.container.checkpoint.output_ends import gone_error
from anabranch.coordinator.store import address
from anabranch.errors import ConfigError, StateError
from anabranch.launch.preparation import Prepared
from anabranch.model.graph import Graph, Node
from anabranch.model.lane import Lane
from anabranch.planning import groups, stages
from anabranch.planning.groups import Group
from anabranch.planning.plan import Plan, kind
from anabranch.systems.systems import Systems

__all__ = ["check", "check_writers", "checked", "create", "prepare_tables", "written_by"]


def written_by(lanes: Iterable[Lane]) -> set[str]:
    """The streams and tables that these lanes write."""
    return {stream for lane in lanes for stream in lane.outputs}


def create(plan: Plan, settings: Settings) -> None:
    """Create the streams that the job writes according to ``plan``, except streams that exist already."""
    systems = Systems(settings, plan.model.job)
    for output in plan.outputs:
        if output.stream is not None and not systems.is_table(output.stream):
            systems.named(str(output.system)).create(output.stream, output.partitions, output.intermediate)


def prepare_tables(prepared: Prepared) -> None:
    """Check that the tables that a job writes accept its rows, and create missing tables. If ``prepared.known`` isn't
    None, only the tables in ``prepared.known`` are checked, and no table is created.

    Raises:
        GraphError: a table can't have the job's columns; or operators of one group write different columns to a table.
        NotFoundError: a table that the job wrote before doesn't exist, or something that isn't a table is in its place.
        ConfigError: a table's settings don't fit the job's rows; or two outputs of one group are the same table.
        ConflictError: a table doesn't accept the job's rows, for example because a column is missing or has another
            type.
    """
    from anabranch.spark.query import tables

    known = prepared.known
    systems = Systems(prepared.settings, prepared.file.graph.job)
    for group in _groups(prepared.file.graph, prepared.settings, systems):
        written = _written_tables(group, systems, known)
        for output, writes in written.items():
            systems.table(output).prepare(tables.schema_of(writes, prepared.schemas), known is None)
        _check_different(written, prepared.settings, systems)


def _groups(graph: Graph, settings: Settings, systems: Systems) -> Iterator[Group]:
    """All groups of a job."""
    where = stages.systems(graph, systems.bound(), systems.default)
    for stage in stages.cut(graph):
        written = [stages.stream_of(graph, sink) for sink in stage.sinks if sink.kind != "foreach_batch"]
        kinds = {stream: kind(where[stream], settings.is_plain(stream)) for stream in written}
        yield from groups.cut(graph, stage, kinds)


def _written_tables(group: Group, systems: Systems, known: Collection[str] | None) -> dict[str, list[Node]]:
    """The operators of a group that write to tables, by output. If ``known`` isn't None, only the outputs in ``known``
    count.
    """
    writes: dict[str, list[Node]] = {}
    for node in group.sinks:
        output = node.args.get("stream", "")
        if node.kind == "write" and systems.is_table(output) and (known is None or output in known):
            writes.setdefault(output, []).append(node)
    return writes


def _check_different(outputs: Collection[str], settings: Settings, systems: Systems) -> None:
    """Raise ConfigError if two of the outputs, which are tables to which the same lanes write, are the same table. The
    table's marker of a lane doesn't say which output a batch's rows belong to. So once the table has the rows of one
    output, the commit of the other output's rows would count as a repetition of the batch, and the rows would be lost.
    """
    outputs_by_table: dict[tuple[str, str], str] = {}
    for output in outputs if len(outputs) > 1 else ():
        table = (settings.outputs[output].to, systems.table(output).id())
        other = outputs_by_table.setdefault(table, output)
        if other != output:
            raise ConfigError(
                f"outputs.{other} and outputs.{output} are the same table, or one is a copy of the other",
                "let the operators write to one output, or bind each output to a table of its own",
            )


def checked(plan: Plan, settings: Settings, lanes: Mapping[str, Lane], drained: bool) -> set[str] | None:
    """Check the outputs of a job that is about to start. Returns the streams and tables that the job wrote before; None
    if the job is new, or was drained or reset.

    Args:
        lanes: all lanes that the job has ever had, by id.
        drained: whether the job was drained or reset.

    Raises:
        StateError: as for :func:`check_writers`. If the job continues, also as for :func:`check`.
    """
    check_writers(plan, settings, lanes)
    if drained or not lanes:
        return None
    known = written_by(lanes.values())
    check(plan, settings, known)
    return known


def check(plan: Plan, settings: Settings, known: Collection[str]) -> None:
    """For a job that continues, check that its output streams exist.

    Args:
        known: the streams and tables that the job wrote before. Other outputs, which are new, aren't checked.

    Raises:
        StateError: a stream is gone; the message names it.
    """
    systems = Systems(settings, plan.model.job)
    written = [(str(o.system), o.stream) for o in plan.outputs if o.stream is not None and o.stream in known]
    for system, stream in systems.absent(each for each in written if not systems.is_table(each[1])):
        raise gone_error(stream, plan.model.job, systems.named(system))


def check_writers(plan: Plan, settings: Settings, known: Collection[str]) -> None:
    """Check that the store knows all lanes of this job that have written records to the job's outputs. An unknown lane
    belongs to a job with the same name in another store, or in a store that was lost.

    Args:
        known: the ids of all lanes of this job that the store knows.

    Raises:
        StateError: an output contains records of a lane that isn't in ``known``.
    """
    systems = Systems(settings, plan.model.job)
    written: dict[str, list[str]] = {}
    for output in plan.outputs:
        if output.stream is not None:
            written.setdefault(str(output.system), []).append(output.stream)
    for name, streams in written.items():
        for lane, where in systems.writers(name, plan.model.job, streams).items():
            if lane in known:
                continue
            raise StateError(
                f"{where} holds records that lane {lane} of job {plan.model.job!r} wrote, but the store "
                f"{address.shown(settings.coordinator.store)} doesn't know that lane",
                "restore the store; or, to start over, remove the job's output streams or give the job another name",
            )
