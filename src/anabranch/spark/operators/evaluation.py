"""Computes the output rows of a group from its operators. An output row has the columns output, key, value, headers,
timestamp and origin, and further columns if its sink needs them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from anabranch.model.graph import Node
from anabranch.operators import rule
from anabranch.operators.rules import is_boundary
from anabranch.planning.groups import Group
from anabranch.spark.internals import query_plan
from anabranch.spark.operators import expressions
from anabranch.spark.operators.frames_of_operators import Context, apply, shown, stage_key
from anabranch.spark.operators.labels import label
from anabranch.spark.values import Writer, codec, meta_column
from anabranch.spark.values.plain import JsonWriter
from anabranch.spark.values.task_header import TaskNames

TASK_HEADER = "anabranch.task"
DRAINED = "drained"


@dataclass(frozen=True)
class Sink:
    """A stream output of a group.

    Attributes:
        number: the number of the output. The output's rows have this number in the column ``output``.
        node: the operator that writes the output.
        writer: encodes the rows as values.
        traced: whether output rows have the source and partition of their record, in addition to its offset.
        slots: the slot numbers, by source and partition. {} if rows come from state, where the number of a row's state
            partition is its slot number. None if output rows have no slot.
        named: determines the name of a row's task, which is added to the row's headers. None if no name is added.
        windowed: whether each output row has the end of its window. From this, a drain determines which windows it cuts
            short.
        time: the event-time column if rows without event time are refused; otherwise empty. Refused rows are encoded
            with a null key, so that :class:`anabranch.spark.query.sink.Refusal` can find them.
    """

    number: int
    node: Node
    writer: Writer
    traced: bool = False
    slots: Mapping[tuple[int, int], int] | None = None
    named: TaskNames | None = None
    windowed: bool = False
    time: str = ""


def trunk(group: Group, frames: Mapping[int, DataFrame], context: Context) -> tuple[Node, DataFrame] | None:
    """Apply a group's operators, from its sources up to (but not including) the first branch, sink or ``join_table``.

    Returns the last of these operators through which all paths from the sources lead, and the DataFrame after this
    operator. If there is only one source, the operator can be the source itself. Returns None if there are several
    sources, and there is no operator through which all paths lead.

    Args:
        frames: the DataFrame of each source, by node.
    """
    done = dict(frames)
    last: Node | None = group.sources[0] if len(group.sources) == 1 else None
    for node in trunk_nodes(group):
        done[node.id] = apply(node, [done[i] for i in node.inputs], context)
        last = node if _covers(group, node) else last
    return None if last is None else (last, done[last.id])


def trunk_nodes(group: Group) -> list[Node]:
    """The operators on the path that :func:`trunk` follows, in order."""
    reached = {source.id for source in group.sources}
    found: list[Node] = []
    for node in group.nodes:
        if node in group.sources or rule(node).sink or any(i not in reached for i in node.inputs):
            continue
        if node.kind == "join_table":  # computed in each batch, with the table's current content
            continue
        if any(len(_ways(group, i)) > 1 for i in node.inputs):
            continue
        reached.add(node.id)
        found.append(node)
    return found


def streaming_nodes(group: Group) -> list[Node]:
    """The operators that can be part of the query itself, in order: the operators of the :func:`trunk` and, if all
    branches after it can be computed in one pass, the operators of these branches. All other operators are computed
    separately for each batch.
    """
    found = trunk_nodes(group)
    last = group.sources[0] if len(group.sources) == 1 else None
    last = next((node for node in reversed(found) if _covers(group, node)), last)
    if last is None or not fans_out(group, last):
        return found
    return found + [
        node for node in group.nodes if node not in found and _follows(group, last, node) and not rule(node).sink
    ]


def before_state(group: Group, frames: Mapping[int, DataFrame], context: Context) -> list[DataFrame]:
    """The rows that reach each input of the group's stateful operator."""
    stateful = group.stateful
    assert stateful is not None
    done = dict(frames)
    for node in group.nodes:
        if node.id < stateful.id and node.id not in done and all(i in done for i in node.inputs):
            done[node.id] = apply(node, [done[i] for i in node.inputs], context)
    return [done[i] for i in stateful.inputs]


def _ways(group: Group, node_id: int) -> list[Node]:
    return [n for n in group.nodes if node_id in n.inputs and n not in group.sources]


def _covers(group: Group, node: Node) -> bool:
    """Whether all paths from the group's sources go through ``node``."""
    reached = {node.id}
    for earlier in reversed(group.nodes):
        if earlier.id < node.id:
            ways = _ways(group, earlier.id)
            if ways and all(way.id in reached for way in ways):
                reached.add(earlier.id)
    return all(source.id in reached for source in group.sources)


def fans_out(group: Group, start: Node) -> bool:
    """Whether everything after ``start`` can be computed in one pass. True if all branches consist of SQL operators, no
    branches come together again, and none ends in ``foreach_batch``.
    """
    ways = _ways(group, start.id)
    if any(not rule(n).sql or n.kind == "foreach_batch" or len(n.inputs) > 1 for n in ways):
        return False
    return all(rule(n).sink or fans_out(group, n) for n in ways)


def fan_out(group: Group, start: Node, frame: DataFrame, sinks: Mapping[int, Sink]) -> DataFrame | None:
    """The output rows of all branches after ``start``, computed in one pass over ``frame``: each row becomes an array
    of output rows, which is then exploded. Call this only if :func:`fans_out` returns true.

    Returns None if one pass isn't possible:

    - An operator turns a row into several rows (``explode``). Several rows can't be a column of one row.
    - An expression has a star, such as ``s.*`` or ``struct(*)``. The star could stand for several columns, and could
      include the auxiliary columns that exist only in this pass.

    Args:
        frame: the rows after ``start``.
        sinks: the outputs at the ends of the branches, by node.
    """
    if [s.id for s in _ways(group, start.id)] == [n.id for n in group.nodes if n.id in sinks] and len(sinks) == 1:
        (sink,) = sinks.values()
        return encode(frame, sink)
    branches: dict[int, list[str]] = {start.id: [name for name in frame.columns if name != meta_column.NAME]}
    wide = frame.select(
        F.struct(*[frame[codec.quoted(name)] for name in branches[start.id]]).alias(_row(start.id)),
        F.lit(True).alias(_alive(start.id)),
        frame[meta_column.NAME],
    )
    ended: list[Column] = []
    for node in group.nodes:
        if not _follows(group, start, node):
            continue
        if any(expressions.has_star(each) for each in _expressions(node)):
            return None
        source = node.inputs[0]
        unpacked = wide.select("*", f"{_row(source)}.*")
        if node.id in sinks:
            row = _encoded_row(unpacked, branches[source], sinks[node.id])
            column = F.when(F.col(_alive(source)), row).alias(_row(node.id))
            wide = unpacked.select(*wide.columns, column)
            ended.append(F.col(_row(node.id)))
            continue
        if node.kind == "where":
            holds = F.when(F.col(_alive(source)), F.expr(node.args["condition"]))
            alive = F.col(_alive(source)) & F.coalesce(holds, F.lit(False))
            wide = unpacked.select(
                *wide.columns, F.col(_row(source)).alias(_row(node.id)), alive.alias(_alive(node.id))
            )
            branches[node.id] = branches[source]
            continue
        columns = _columns(node, branches[source])
        added = unpacked.select(*columns)
        if query_plan.count(added, query_plan.GENERATOR) > query_plan.count(unpacked, query_plan.GENERATOR):
            return None
        names = added.columns
        guarded = [F.when(F.col(_alive(source)), c).alias(n) for n, c in zip(names, columns, strict=True)]
        # The results are first made as columns rather than fields of a struct, because an expression may use the result
        # of an earlier expression.
        places = [f"_anabranch_column{number}" for number in range(len(names))]
        made = unpacked.select(*wide.columns, *guarded).toDF(*wide.columns, *places)
        row = F.struct(*[F.col(place).alias(name) for place, name in zip(places, names, strict=True)])
        alive = F.col(_alive(source))
        wide = made.select(*wide.columns, row.alias(_row(node.id)), alive.alias(_alive(node.id)))
        branches[node.id] = names
    exploded = wide.select(F.explode(F.array_compact(F.array(*ended))).alias("out"))
    return exploded.select("out.*")


def _follows(group: Group, start: Node, node: Node) -> bool:
    current = node
    while current.id > start.id and current.inputs and current not in group.sources:
        if start.id in current.inputs:
            return True
        current = next(n for n in group.nodes if n.id == current.inputs[0])
    return False


def _row(node_id: int) -> str:
    return f"_anabranch_row{node_id}"


def _alive(node_id: int) -> str:
    return f"_anabranch_alive{node_id}"


def _expressions(node: Node) -> list[str]:
    """The SQL expressions of an operator, without a ``*`` that makes a ``select`` keep all columns."""
    match node.kind:
        case "where":
            return [node.args["condition"]]
        case "select":
            return [each for each in node.args["expressions"] if each.strip() != "*"]
        case "with_columns":
            return [*node.args["columns"].values()]
        case "write" if "key" in node.args:
            return [node.args["key"]]
    return []


def _columns(node: Node, names: list[str]) -> list[Column]:
    """The columns that ``select`` or ``with_columns`` makes from rows with the columns ``names``."""
    if node.kind == "with_columns":
        added = {name.lower(): (name, expression) for name, expression in node.args["columns"].items()}
        old = {name.lower(): name for name in names}
        kept = [added.get(name.lower(), (name, codec.quoted(name))) for name in names]
        new = [column for lower, column in added.items() if lower not in old]
        return [F.expr(expression).alias(name) for name, expression in (*kept, *new)]
    columns: list[Column] = []
    for expression in node.args["expressions"]:
        columns += [F.col(codec.quoted(name)) for name in names] if expression.strip() == "*" else [F.expr(expression)]
    return columns


def encode(frame: DataFrame, sink: Sink) -> DataFrame:
    """The output rows of one sink."""
    names = [name for name in frame.columns if name != meta_column.NAME]
    return frame.select(_encoded_row(frame, names, sink).alias("out")).select("out.*")


def _encoded_row(frame: DataFrame, names: list[str], sink: Sink) -> Column:
    visible = frame.select(*[codec.quoted(name) for name in names], meta_column.NAME)
    return F.struct(
        F.lit(sink.number).alias("output"),
        _key(visible, sink).alias("key"),
        sink.writer.encode(visible, names, label(sink.node)).alias("value"),
        _headers(sink.named).alias("headers"),
        meta_column.field("timestamp").alias("timestamp"),
        meta_column.field("offset").alias("origin"),
        *(
            [meta_column.field("source").alias("source"), meta_column.field("partition").alias("partition")]
            if sink.traced
            else []
        ),
        *([_slot(sink.slots).alias("slot")] if sink.slots is not None else []),
        *([_end(visible, names, sink).alias(meta_column.END)] if sink.windowed else []),
    )


def _end(frame: DataFrame, names: list[str], sink: Sink) -> Column:
    """The end of a row's window. Null if the row has no window, or can't be marked as cut by a drain."""
    may_say = isinstance(sink.writer, JsonWriter) and DRAINED not in names
    return (
        meta_column.field(meta_column.END)
        if may_say and meta_column.is_of_window(frame)
        else F.lit(None).cast("timestamp")
    )


def told_cut(rows: DataFrame, reached: int) -> DataFrame:
    """The output rows of the last batch of a drain. If a row's window ends after ``reached`` (in Unix ms), the row is
    marked as cut by the drain.
    """
    cut = F.col(meta_column.END) > F.timestamp_millis(F.lit(reached))
    return rows.withColumn("value", F.when(cut, codec.with_true(F.col("value"), DRAINED)).otherwise(F.col("value")))


def _slot(slots: Mapping[tuple[int, int], int]) -> Column:
    if not slots:
        return meta_column.field("partition")
    if all(number == partition for (_, partition), number in slots.items()):
        return meta_column.field("partition")
    known: Column | None = None
    for (source, partition), number in slots.items():
        mine = (meta_column.field("source") == source) & (meta_column.field("partition") == partition)
        known = F.when(mine, F.lit(number)) if known is None else known.when(mine, F.lit(number))
    assert known is not None
    return known


def _headers(named: TaskNames | None) -> Column:
    """A row's headers in the packed form of :mod:`anabranch.systems.headers`. If ``named`` is given, a header with the
    name of the row's task is added.
    """
    held = meta_column.field("headers")
    if named is None:
        return held
    own = F.concat(F.lit(f'["{TASK_HEADER}","'), F.base64(named.of_row().cast("binary")), F.lit('"]]'))
    opened = F.substring(held, F.lit(1), F.length(held) - 1)
    none = held.isNull() | (held == "[]")
    return F.when(none, F.concat(F.lit("["), own)).otherwise(F.concat(opened, F.lit(","), own))


def _key(frame: DataFrame, sink: Sink) -> Column:
    if is_boundary(sink.node):
        key = stage_key(frame, sink.node.args["columns"])
        return F.when(F.col(codec.quoted(sink.time)).isNotNull(), key) if sink.time else key
    if "key" not in sink.node.args:
        return meta_column.field("key")
    expression = F.expr(shown(sink.node.args["key"], frame))
    kind = frame.select(expression).schema.fields[0].dataType
    return codec.encode_key([(expression, kind)])


@contextmanager
def inside_batch(group: Group, start: Mapping[int, DataFrame], context: Context) -> Iterator[dict[int, DataFrame]]:
    """A context manager that provides, by node, the rows that reach each sink in one batch. Inside the context, a
    DataFrame that several operators use is cached.

    ``start`` has the DataFrames from which everything else is computed, by node.
    """
    frames: dict[int, DataFrame] = {}
    kept: list[DataFrame] = []
    ended: dict[int, DataFrame] = {}
    try:
        for node in group.nodes:
            if node.id in start:
                frames[node.id] = start[node.id]
            elif any(i not in frames for i in node.inputs) or node in group.sources:
                continue
            elif rule(node).sink:
                ended[node.id] = frames[node.inputs[0]]
                continue
            else:
                frames[node.id] = apply(node, [frames[i] for i in node.inputs], context)
            if len(_ways(group, node.id)) > 1:
                frames[node.id] = frames[node.id].persist()
                kept.append(frames[node.id])
        yield ended
    finally:
        for persisted in kept:
            persisted.unpersist()


def together(frames: Mapping[int, DataFrame], sinks: Mapping[int, Sink]) -> DataFrame:
    """The output rows of several sinks, in one DataFrame."""
    encoded = [encode(frame, sinks[node_id]) for node_id, frame in frames.items()]
    result = encoded[0]
    for frame in encoded[1:]:
        result = result.union(frame)
    return result
