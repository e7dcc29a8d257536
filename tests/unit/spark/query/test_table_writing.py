"""Spark tasks that write into a table: each writer comes to an end, whatever rows its task has. The columns of a table
to which several operators write.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.types import ArrayType, DataType, IntegerType, StringType, StructField, StructType

from anabranch import Job
from anabranch.errors import GraphError
from anabranch.spark.query import tables
from anabranch.tables.contract import Owner

SCHEMA = pa.schema([("n", pa.int64())])
Batches = Iterator[pa.RecordBatch]


class Written(list[str]):
    """What a table's only writer was asked to do."""

    def writer(self, owner: Owner, schema: pa.Schema) -> Written:
        return self

    def write(self, rows: pa.RecordBatch) -> None:
        self.append(f"write {rows.num_rows}")

    def close(self) -> list[bytes]:
        self.append("close")
        return [b"part"]

    def abort(self) -> None:
        self.append("abort")


@dataclass
class Task:
    """A DataFrame whose rows are those of one Spark task. If it ``fails``, it does so after its last row."""

    sizes: list[int]
    fails: bool = False
    columns: list[str] = field(default_factory=lambda: ["n"])

    def mapInArrow(self, function: Callable[[Batches], Batches], schema: object) -> Task:
        self.made = function(self.batches())
        return self

    def batches(self) -> Batches:
        for size in self.sizes:
            yield pa.RecordBatch.from_pydict({"n": range(size)}, schema=SCHEMA)
        if self.fails:
            raise OSError("the task fails")

    def collect(self) -> list[dict[str, Any]]:
        return [row for batch in self.made for row in batch.to_pylist()]


def written(task: Task, table: Written) -> int:
    found = tables.write(task, table, "out", Owner("j", "lane", 1), SCHEMA)  # type: ignore[arg-type]
    return sum(each.rows for each in found)


def test_a_writer_with_rows_is_closed() -> None:
    table = Written()
    assert written(Task([2, 0, 3]), table) == 5
    assert table == ["write 2", "write 3", "close"]


@pytest.mark.parametrize("sizes", [[], [0, 0]])
def test_a_writer_without_rows_is_given_up_and_keeps_nothing_open(sizes: list[int]) -> None:
    table = Written()
    assert written(Task(sizes), table) == 0
    assert table == ["abort"]


@pytest.mark.parametrize("sizes", [[], [1]])
def test_a_writer_whose_task_fails_is_given_up(sizes: list[int]) -> None:
    table = Written()
    with pytest.raises(OSError, match="the task fails"):
        written(Task(sizes, fails=True), table)
    assert table[-1] == "abort"
    assert table.count("abort") == 1


def schema_of(*written: dict[str, DataType]) -> pa.Schema:
    """The schema of a table for operators that write these columns."""
    job = Job("j")
    orders = job.read("in", schema="n int")
    for _ in written:
        orders.where("n > 0").write("picked")
    writes = [node for node in job.graph.nodes if node.kind == "write"]
    columns = [StructType([StructField(name, kind) for name, kind in kinds.items()]) for kinds in written]
    return tables.schema_of(writes, {node.inputs[0]: each for node, each in zip(writes, columns, strict=True)})


NUMBER, TEXT = IntegerType(), StringType()


def test_operators_can_write_their_columns_in_any_order() -> None:
    schema = schema_of({"id": NUMBER, "kind": TEXT}, {"kind": TEXT, "id": NUMBER})
    assert schema == pa.schema([("id", pa.int32()), ("kind", pa.string())])


@pytest.mark.parametrize("nulls", [(False, False), (False, True), (True, False), (True, True)])
def test_values_inside_a_column_may_be_null_if_one_operator_writes_nulls_there(nulls: tuple[bool, bool]) -> None:
    schema = schema_of(*({"tags": ArrayType(TEXT, containsNull=each)} for each in nulls))
    assert schema.field("tags").type.value_field.nullable is any(nulls)


@pytest.mark.parametrize(
    ("other", "told"),
    [
        ({"id": NUMBER}, "'kind' is string in the first, and missing in the second"),
        ({"id": NUMBER, "kind": TEXT, "more": TEXT}, "'more' is missing in the first, and string in the second"),
        ({"id": TEXT, "kind": TEXT}, "'id' is int in the first, and string in the second"),
    ],
)
def test_operators_that_write_different_columns_to_a_table_are_named(other: dict[str, DataType], told: str) -> None:
    with pytest.raises(GraphError) as caught:
        schema_of({"id": NUMBER, "kind": TEXT}, other)
    message = str(caught.value)
    assert message.startswith("write 'picked' (")
    assert " and write 'picked-2' (" in message
    assert f" write different columns to one table, outputs.picked: {told}\n" in message
