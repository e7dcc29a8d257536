"""Writes a batch's rows into a table: Python workers write the rows, and the driver commits them."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import msgspec
import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import BinaryType, StructField, StructType

from anabranch import crash_points
from anabranch.errors import GraphError
from anabranch.event_time.control import Control
from anabranch.model.graph import Node
from anabranch.model.lane import Lane
from anabranch.spark.functions import arrow
from anabranch.spark.operators.labels import label
from anabranch.spark.query import aborting
from anabranch.spark.query.records import task_number
from anabranch.spark.values import codec
from anabranch.systems.output import Output, Target, Written, read_written
from anabranch.tables import committed
from anabranch.tables.contract import Owner, Table

__all__ = ["TablePublisher", "schema_of", "write"]

_WRITTEN = pa.schema([("written", pa.binary())])
_WRITTEN_TYPE = StructType([StructField("written", BinaryType())])


def schema_of(writes: Sequence[Node], columns: Mapping[int, StructType]) -> pa.Schema:
    """The Arrow schema that a table needs for the rows of some operators: times are in UTC, and all columns may be
    null. The columns are in the order of the first operator's rows.

    Args:
        writes: the operators of a group that write to the table. The rows that they write in a batch are committed
            together.
        columns: the columns after each operator, by node.

    Raises:
        GraphError: a column has a type for which Arrow has no equivalent, or the operators write different columns.
    """
    try:
        schema = to_arrow_schema(_common(writes, columns), timezone="UTC")
    except PySparkException as error:
        raise GraphError(
            f"{label(writes[0])} writes columns that a table can't have: {str(error).splitlines()[0]}",
            "cast them, or leave them out",
        ) from None
    return pa.schema([pa.field(field.name, field.type, nullable=True) for field in schema])


def _common(writes: Sequence[Node], columns: Mapping[int, StructType]) -> StructType:
    """The columns that all of the operators write. If their types differ only in whether values inside the columns may
    be null, these values may be null.
    """
    first, *others = writes
    mine = columns[first.inputs[0]]
    for other in others:
        both = [
            {field.name: field.dataType.simpleString() for field in columns[node.inputs[0]]} for node in (first, other)
        ]
        for name in dict.fromkeys(name for kinds in both for name in kinds):
            one, another = (kinds.get(name, "missing") for kinds in both)
            if one != another:
                raise GraphError(
                    f"{label(first)} and {label(other)} write different columns to one table, outputs."
                    f"{first.args['stream']}: {name!r} is {one} in the first, and {another} in the second",
                    "let both write the same columns with the same types, in any order",
                )
    alike = all(columns[other.inputs[0]][field.name].dataType == field.dataType for other in others for field in mine)
    return mine if alike else codec.nullable(mine)


def write(rows: DataFrame, table: Table, output: str, owner: Owner, schema: pa.Schema) -> list[Written]:
    """Write the rows of a batch durably, and return what was written. Readers don't see the rows until
    :meth:`TablePublisher.publish` commits them.
    """
    told = arrow.mapped(rows, _writing(table, output, owner, schema), _WRITTEN_TYPE).collect()
    return [read_written(bytes(row["written"])) for row in told]


def _writing(
    table: Table, output: str, owner: Owner, schema: pa.Schema
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        writer, count = table.writer(owner, schema), 0
        with aborting.on_error(writer):
            for batch in batches:
                if batch.num_rows:
                    columns = [batch.column(n).cast(field.type) for n, field in enumerate(schema)]
                    writer.write(pa.RecordBatch.from_arrays(columns, schema=schema))
                    count += batch.num_rows
            parts = writer.close() if count else []
        if not count:
            aborting.quietly(writer)
        task = task_number()
        # Only the first part reports the number of rows. Otherwise, rows would be counted several times.
        told = [
            Written(stream=output, partition=n, slot=task, rows=0 if n else count, ref=ref)
            for n, ref in enumerate(parts)
        ]
        encoded = pa.array([msgspec.msgpack.encode(each) for each in told], pa.binary())
        yield pa.RecordBatch.from_arrays([encoded], schema=_WRITTEN)

    return run


@dataclass(frozen=True)
class TablePublisher:
    """Publishes the rows that a lane writes to tables of one kind. ``tables`` maps each output to its table."""

    lane: Lane
    epoch: int
    tables: Mapping[str, Table]
    slotted = False
    plannable = False
    batch_seconds = math.inf

    @property
    def output(self) -> Output:
        raise AssertionError("rows of tables are columns: see write()")

    @property
    def owner(self) -> Owner:
        """The lane and its epoch, by which the tables identify a writer."""
        return Owner(self.lane.job, self.lane.id, self.epoch)

    def take(self, new: bool) -> None:
        for name, table in self.tables.items():
            table.fence(self.owner, new)
            if new:
                committed.forget(self.lane.job, self.lane.id, name)
            else:
                self._note(name, table.last(self.lane.job, self.lane.id))
            table.leave(self.owner)

    def publish(self, batch: int, written: Sequence[Written], controls: Mapping[Target, Control]) -> None:
        ordered = sorted(written, key=lambda each: (each.slot, each.partition))
        for name, table in self.tables.items():
            parts = [each.ref for each in ordered if each.stream == name]
            if parts:
                crash_points.reach(crash_points.STAGED, self.lane.id, batch)
                before = committed.before(self.lane.job, self.lane.id, name, batch)
                table.commit(replace(self.owner, committed=before), batch, parts)
                self._note(name, batch)

    def settle(self) -> None:
        """Remove this lane's temporary data from the tables. This method doesn't wait for readers, because they see a
        table's commit immediately.
        """
        for table in self.tables.values():
            table.leave(self.owner)

    def put_aside(self, streams: Sequence[str]) -> int:
        return 0

    def _note(self, output: str, batch: int) -> None:
        committed.note(self.lane.job, self.lane.id, output, batch)
