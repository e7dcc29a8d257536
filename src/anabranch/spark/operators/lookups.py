"""Reads the tables of ``join_table``, and joins rows with them. Each table is read completely, so it must be small. If
a table has a ``refresh`` interval, the first batch after each interval reads the table again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from pyspark.errors import PySparkException, PythonException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import IntegralType, StructType

from anabranch import logs
from anabranch.errors import GraphError, OperatorError, StateError
from anabranch.formats import JSON, Format
from anabranch.model.graph import Node
from anabranch.spark.functions import driver_calls, error_text
from anabranch.spark.operators import table_files
from anabranch.spark.operators.labels import label
from anabranch.spark.query.records import again
from anabranch.spark.values import codec, decoding, meta_column
from anabranch.systems.source import SCHEMA
from anabranch.systems.systems import Systems

log = logs.get_logger()

__all__ = ["Lookups", "everything", "joined", "load", "nothing"]

_AS_IT_WAS = "see that it is there, with the columns that it had; the lane continues from this batch"
_AS_PLANNED = "let the table have the columns that it had when the job was planned, of the same types"
_FIX = "fix the function that reads the table; the lane continues from this batch at the next run"

_FOUND = "_anabranch_found"
"""A column that is true in rows for which the table has a row, and null in other rows."""


@dataclass
class Lookups:
    """The tables that a lane joins with streams.

    Attributes:
        schemas: the columns after each operator, by node.
        home: the job's folder, in whose files errors name lines; '' if they name none.
    """

    load: Callable[[Node, SparkSession], DataFrame]
    schemas: Mapping[int, StructType]
    now_seconds: Callable[[], float]
    home: str = ""
    _held: dict[int, tuple[float, DataFrame]] = field(default_factory=dict)

    def now(self, node: Node, spark: SparkSession) -> DataFrame:
        """The table of a ``join_table``. It is read at most once in each interval ``refresh`` or, without ``refresh``,
        only once. Columns that were added after the job was planned are left out.

        Raises:
            OperatorError: the table can't be read. Another attempt may succeed.
            StateError: a column is missing, or its type has changed since the job was planned.
            PySparkException: the table can't be read, and the text of Spark's error contains an anabranch error that
                says why.
            GraphError: as for :func:`load`.
        """
        refresh, before = node.args.get("refresh"), self._held.get(node.id)
        if before is not None and (refresh is None or self.now_seconds() < before[0] + refresh / 1000):
            return before[1]
        at = self.now_seconds()
        try:
            found = self._as_planned(node, self.load(node, spark))
            # The rows are copied rather than cached. If the table were cached, the next read of the table would get the
            # cached rows from Spark.
            rows = found.toArrow()
            table = spark.createDataFrame(rows, found.schema)
        except PySparkException as error:
            if "anabranch.errors." in str(error):
                raise
            why = error_text.reason(error) + (error_text.traced(error, self.home) if self.home else "")
            of_function = isinstance(error, PythonException) and "of" not in node.args
            cure = _FIX if of_function else _AS_IT_WAS
            raise OperatorError(f"{label(node)} can't read its table: {why}", cure) from error
        table_files.check_keys(node, rows)
        self._held[node.id] = (at, table)
        return table

    def _as_planned(self, node: Node, table: DataFrame) -> DataFrame:
        keys, stream = list(node.args["on"].values()), self.schemas[node.inputs[0]].names
        lost = next((name for name in keys if name not in table.schema.names), None)
        if lost is not None:
            raise StateError(f"{label(node)}: the table's column {lost!r}, a column of `on`, is gone", _AS_PLANNED)
        there = {_named(node, each.name): each for each in table.schema if each.name not in keys}
        wanted = [each for each in self.schemas[node.id] if each.name not in stream]
        for each in wanted:
            if each.name not in there or there[each.name].dataType != each.dataType:
                was, now = each.dataType.simpleString(), "gone"
                if each.name in there:
                    now = there[each.name].dataType.simpleString()
                raise StateError(
                    f"{label(node)}: the table's column for {each.name!r} was {was}, and is {now}", _AS_PLANNED
                )
        return table.select(*map(codec.quoted, (*keys, *(there[each.name].name for each in wanted))))


def load(
    node: Node,
    spark: SparkSession,
    functions: Mapping[int, Callable[..., Any]],
    records: Callable[[str, SparkSession], tuple[str, DataFrame]],
    formats: Mapping[str, Format],
    fails: bool = True,
) -> DataFrame:
    """Read the table of a ``join_table``, and return it as a DataFrame.

    Args:
        records: given a stream's name and the session, returns the stream's full name and its records.
        fails: whether using the table fails if the latest record of a key is unreadable. If false, unreadable records
            are skipped. Applies only to a table that is a stream.

    Raises:
        GraphError: the function didn't return a table, or the declaration of a stream or of files as a table is wrong.
    """
    if "of" in node.args:
        return _last(node, *records(node.args["of"]["stream"], spark), formats, fails)
    if node.id not in functions:
        return table_files.read(node, spark)
    table = driver_calls.called(functions[node.id], spark)
    if not isinstance(table, DataFrame) or table.isStreaming:
        what = "a stream" if isinstance(table, DataFrame) else type(table).__name__
        raise GraphError(f"{label(node)} was given {what} as its table", "return a DataFrame that isn't a stream")
    return table


def _last(node: Node, stream: str, raw: DataFrame, formats: Mapping[str, Format], fails: bool) -> DataFrame:
    """The table for a stream, with a row for the latest record of each key. The latest record is the one with the
    greatest timestamp or, if timestamps are equal, the greatest offset.

    Records with a null key don't count. A key whose latest record has a null value is left out. If ``fails`` is false,
    unreadable records are skipped, and the latest readable record of a key counts. If ``fails`` is true, using the
    result fails when the latest record of a key is unreadable.

    Args:
        stream: the stream's full name, for error messages.
        raw: the stream's records.
    """
    declared = Node(id=node.id, kind="read", name=node.name, args=node.args["of"], where=node.where)
    taken = decoding.of_graph(declared, formats.get(node.args["of"]["stream"], JSON), keyed=False)
    if not fails:
        _warn(node, stream, taken.faulty(raw.where("key is not null and value is not null"), 0, F.current_date()))
        raw = taken.readable(raw)
    newest = F.max_by(F.struct(*raw.columns), F.struct("timestamp", "offset"))
    last = raw.where("key is not null").groupBy("key").agg(newest.alias("last")).select("last.*")
    opened = taken.opened(last.where("value is not null"), explains=True)
    rows = taken.rows(opened, F.lit(0), stream, fail=True)
    taken.check(rows)
    return rows.drop(meta_column.NAME)


def _warn(node: Node, stream: str, wrong: DataFrame) -> None:
    """Log how many records of a table are skipped, and why the first of them is unreadable."""
    first = F.min(F.struct("partition", "offset", "reason"))
    ((several, one),) = wrong.agg(F.count("*"), first).collect()
    if several:
        at, why = f"{stream}/{one['partition']} at offset {one['offset']}", one["reason"]
        log.warning("records of a table can't be read", operator=label(node), records=several, first=at, why=why)


def nothing(stream: str, spark: SparkSession) -> tuple[str, DataFrame]:
    """The stream's name, and a DataFrame without records. Takes the place of :func:`everything` when a table's columns
    are determined.
    """
    return stream, spark.createDataFrame([], SCHEMA)


def everything(systems: Systems, stream: str, spark: SparkSession) -> tuple[str, DataFrame]:
    """A stream's full name, and all records that it has now. Raises NotFoundError if the stream doesn't exist."""
    system = systems.of(stream)
    starts = system.starts(stream)
    ends = system.ends(stream, starts)  # the stream may just have got more partitions
    ranges = {p: [(starts[p], end)] for p, end in ends.items() if end > starts[p]}
    return f"{system.name}/{stream}", again(spark, system, stream, ranges)


def joined(node: Node, frame: DataFrame, table: DataFrame) -> DataFrame:
    """The rows with the columns of the table added, except for the table's key. A row that matches several rows of the
    table is repeated. A row that matches none is left out or, in a left join, gets nulls.

    The whole table is sent to each executor, so rows stay in their Spark tasks, and keep their order.

    Spark doesn't compute a batch at all if it knows in advance that no row can result, because the table is empty or
    none of its rows satisfies a condition on its columns. The batch's unreadable records would then go unnoticed, and
    the batch's state wouldn't be committed. So each column of the table is made to depend on the number of the Spark
    task, which Spark can't know in advance.

    Raises:
        GraphError: a column of ``on`` is missing; or both sides have another column of the same name, even with the
            ``prefix``; or the keys have different types that aren't both integers.
    """
    on: dict[str, str] = node.args["on"]
    for side, columns, names in (("stream", on, frame.columns), ("table", on.values(), table.columns)):
        missing = next((name for name in columns if name not in names), None)
        if missing is not None:
            raise GraphError(
                f"{label(node)}: the {side} has no column {missing!r}, but {', '.join(_visible(names))}",
                'say what is joined: on="column", or on={"column of the stream": "column of the table"}',
            )
    mine = _visible(frame.columns)
    its = {name: _named(node, name) for name in table.columns if name not in on.values()}
    known = {name.lower() for name in mine}
    taken = next((name for name in its.values() if name.lower() in known), None)
    if taken is not None:
        raise GraphError(
            f"{label(node)} has the column {taken!r} on both sides",
            'give those of the table a prefix: join_table(..., prefix="table_")',
        )
    keys = {name: f"_anabranch_key{number}" for number, name in enumerate(on.values())}
    small = table.select(
        *[F.col(codec.quoted(name)).alias(key) for name, key in keys.items()],
        *[F.col(codec.quoted(name)).alias(result) for name, result in its.items()],
        F.lit(True).alias(_FOUND),
    )
    _check_types(node, frame, small, {name: keys[its_name] for name, its_name in on.items()})
    condition = [frame[codec.quoted(name)] == small[keys[its_name]] for name, its_name in on.items()]
    pairs = frame.join(F.broadcast(small), condition, "left")
    rows = pairs.select(
        *[F.col(codec.quoted(name)) for name in mine],
        *[F.when(F.spark_partition_id() >= 0, F.col(codec.quoted(n))).alias(n) for n in (*its.values(), _FOUND)],
        meta_column.NAME,
    )
    return (rows if node.args["how"] == "left" else rows.where(_FOUND)).drop(_FOUND)


def _check_types(node: Node, frame: DataFrame, table: DataFrame, keys: Mapping[str, str]) -> None:
    """Raises GraphError if keys have different types on the two sides, unless both are integers. Spark would cast one
    side to the type of the other, and a value that can't be cast would fail a batch.

    Args:
        keys: for each key column of the frame, the table's column that it is compared with.
    """
    for name, key in keys.items():
        mine, its = frame.select(codec.quoted(name)).schema[0].dataType, table.schema[key].dataType
        alike = mine.simpleString() == its.simpleString()
        if not alike and not (isinstance(mine, IntegralType) and isinstance(its, IntegralType)):
            raise GraphError(
                f"{label(node)}: the column {name!r} of the stream is {mine.simpleString()}, but the column of "
                f"the table that it is compared with is {its.simpleString()}",
                f'give them one type before: with_columns({name}="cast({name} as {its.simpleString()})"), or in the '
                "table",
            )


def _named(node: Node, name: str) -> str:
    return str(node.args.get("prefix", "")) + name


def _visible(names: Iterable[str]) -> list[str]:
    return [name for name in names if name != meta_column.NAME]
