"""What a function returns counts as it was when it was returned."""

from __future__ import annotations

import asyncio
import dataclasses
from collections import OrderedDict
from collections.abc import AsyncIterator, Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from anabranch.spark.functions.calling import Evaluator, Outcome, UserFunction
from anabranch.spark.functions.result_columns import Column
from anabranch.spark.functions.results import ResultError, Results
from tests.unit.spark.functions.test_results import REFUSED, TABLE, one

SCHEMA = pa.schema({"n": pa.int64(), "xs": pa.list_(pa.int64()), "b": pa.binary()})
ROWS = pa.RecordBatch.from_pylist([{"n": n, "xs": [n], "b": b"%d" % n} for n in (1, 2)], SCHEMA)
Row = dict[str, Any]


def outcome(kind: str, function: Any) -> Outcome:
    return asyncio.run(Evaluator(UserFunction(kind, function, SCHEMA, ""))(ROWS, lambda _: None))


@pytest.mark.parametrize(
    ("kind", "function", "wanted"),
    [
        ("map", dict, [0, 1, 2]),
        ("flat_map", lambda row: [row], [0, 1, 2]),
        ("filter", lambda row: True, [0, 1, 2]),
        ("map_arrow", lambda rows: rows, [0, 2]),
        ("map_arrow", lambda rows: [rows][rows.num_rows - 1], [0, 0, 1, 2]),  # fails for both rows, not for each
    ],
)
def test_the_end_of_its_last_call_is_told(kind: str, function: Any, wanted: list[int]) -> None:
    told: list[int] = []
    found = asyncio.run(Evaluator(UserFunction(kind, function, SCHEMA, ""))(ROWS, told.append))
    assert (told, found.rejected) == (wanted, ())


def test_no_end_is_told_after_a_row_that_fails_the_lane() -> None:
    """The rows after it don't count as done."""
    told: list[int] = []
    found = asyncio.run(Evaluator(UserFunction("map", lambda row: 1 / 0, SCHEMA, ""))(ROWS, told.append, fails=True))
    assert (told, len(found.rejected)) == ([0], 1)


@pytest.mark.parametrize(("kind", "wanted"), [("map", [1, 3, 4]), ("flat_map", [1, 1, 3, 3, 4, 4])])
def test_results_that_no_batch_can_hold_are_in_several(
    kind: str, wanted: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Arrow divides a column with more than 2 GB. Here, a column with more than two values."""
    build = Column.built

    def divided(column: Column, values: list[Any]) -> Any:
        parts = [build(column, values[:2]), build(column, values[2:])]
        return pa.chunked_array(parts) if len(values) > 2 else build(column, values)

    def function(row: Row) -> Any:
        made = {"n": row["n"], "b": b"x" if row["n"] != 2 else "wrong"}
        return made if kind == "map" else [made, made]

    monkeypatch.setattr(Column, "built", divided)
    rows = pa.RecordBatch.from_pylist([{"n": n} for n in (1, 2, 3, 4)], SCHEMA)
    found = asyncio.run(Evaluator(UserFunction(kind, function, SCHEMA, ""))(rows, lambda _: None))
    assert (found.rows.column("n").to_pylist(), [each.place for each in found.rejected]) == (wanted, [1])
    assert found.places.tolist() == [n - 1 for n in wanted]
    assert len(found.rows.to_batches()) > 1


@dataclasses.dataclass
class Spot:
    n: int
    xs: list[int]


class Inner(dict[str, Any]):
    """A row of a type that can't be copied."""

    def __deepcopy__(self, memo: object) -> Inner:
        raise TypeError("can't be copied")

    __copy__ = __deepcopy__


def changed(row: Any, n: int) -> Any:
    row.update(n=n) if isinstance(row, dict) else setattr(row, "n", n)
    return row


SHARED = {
    "dict": dict[str, Any](n=0),
    "mapping": OrderedDict[str, Any](n=0),
    "dataclass": Spot(0, []),
    "uncopied": Inner(n=0),
}


@pytest.mark.parametrize("name", SHARED)
def test_each_row_of_a_generator_that_reuses_one_is_the_row_as_it_was_given(name: str) -> None:
    row = SHARED[name]

    def generated(message: Row) -> Iterator[Any]:
        for n in range(3):
            yield changed(row, 10 * message["n"] + n)

    async def later(message: Row) -> AsyncIterator[Any]:
        for each in generated(message):
            yield each

    for function in (generated, later):
        made = outcome("flat_map", function)
        assert made.rows.column("n").to_pylist() == [10, 11, 12, 20, 21, 22]
        assert made.places.tolist() == [0, 0, 0, 1, 1, 1]


@pytest.mark.parametrize("name", SHARED)
def test_the_row_of_a_map_that_reuses_it_is_the_row_as_it_was_returned(name: str) -> None:
    row = SHARED[name]

    async def later(message: Row) -> Any:
        return changed(row, message["n"])

    for function in (lambda message: changed(row, message["n"]), later):
        assert outcome("map", function).rows.column("n").to_pylist() == [1, 2]


def test_a_list_that_a_flat_map_reuses_has_the_rows_of_each_message() -> None:
    rows: list[Row] = []

    def function(message: Row) -> list[Row]:
        rows[:] = [message, message]
        return rows

    assert outcome("flat_map", function).rows.column("n").to_pylist() == [1, 1, 2, 2]


@pytest.mark.parametrize(
    ("name", "shared", "wanted"),
    [
        ("xs", [0], [[1], [2]]),
        ("xs", np.array([0]), [[1], [2]]),
        ("xs", np.array([0], object), [[1], [2]]),
        ("b", bytearray(1), [b"\1", b"\2"]),
        ("b", memoryview(bytearray(1)), [b"\1", b"\2"]),
    ],
)
def test_a_value_that_a_function_reuses_is_the_value_as_it_was_returned(name: str, shared: Any, wanted: Any) -> None:
    def function(message: Row) -> Row:
        shared[0] = message["n"]
        return {name: shared}

    assert outcome("map", function).rows.column(name).to_pylist() == wanted


def test_values_inside_others_are_copied_too() -> None:
    inner, point = [0], {"x": [0]}
    schema = pa.schema({"deep": pa.list_(pa.list_(pa.int64())), "point": pa.struct({"x": pa.list_(pa.int64())})})
    results = Results(schema)
    owned = results.owned({"deep": (inner,), "point": point})
    inner[0] = point["x"][0] = 1
    assert results.row(owned) == {"deep": [[0]], "point": {"x": [0]}}


@pytest.mark.parametrize("at", range(len(TABLE)))
def test_a_copy_becomes_what_the_row_would_have_become(at: int) -> None:
    type_, value, wanted = TABLE[at]
    results = Results(pa.schema([("c", type_)]))
    for row in ({"c": value}, OrderedDict(c=value)):
        try:
            made, errors = results.table([results.owned(row)])
        except ResultError as error:
            errors = {0: str(error)}
        if wanted is REFUSED:
            assert errors == {0: one(type_, value)[1]}
        else:
            assert (made.to_pylist(maps_as_pydicts="strict"), errors) == ([{"c": wanted}], {})


def test_a_row_that_is_refused_ends_its_generator_and_rejects_its_message() -> None:
    ended: list[int] = []

    async def later(message: Row) -> AsyncIterator[Any]:
        try:
            yield {"n": message["n"]}
            yield Spot(1.5 if message["n"] == 1 else 3, [])  # type: ignore[arg-type]
        finally:
            await asyncio.sleep(0)
            ended.append(message["n"])

    made = outcome("flat_map", later)
    assert made.rows.column("n").to_pylist() == [2, 3]
    assert [(each.place, each.error, each.raised) for each in made.rejected] == [
        (0, "its column 'n' is bigint, but got 1.5 (float): give an int; int(…) and round(…) make one", False)
    ]
    assert ended == [1, 2]
