"""Functions receive maps as dicts, wherever a map is in a row, unless its keys can't be keys of a dict."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from anabranch.spark.functions import calling, maps

NUMBERS = pa.map_(pa.string(), pa.int64())
BY_LIST = pa.map_(pa.list_(pa.int64()), pa.int64())


@pytest.mark.parametrize(
    ("kind", "value", "wanted"),
    [
        (NUMBERS, [("a", 1)], {"a": 1}),
        (pa.list_(NUMBERS), [[("a", 1)], None], [{"a": 1}, None]),
        (pa.map_(pa.string(), pa.map_(pa.int64(), pa.int64())), [("a", [(1, 2)])], {"a": {1: 2}}),
        (pa.struct({"m": NUMBERS, "n": pa.int64()}), {"m": [("a", 1)], "n": 1}, {"m": {"a": 1}, "n": 1}),
        (pa.map_(pa.list_(pa.int64()), NUMBERS), [([1], [("a", 1)])], [([1], {"a": 1})]),
        (pa.struct({"m": NUMBERS, "l": BY_LIST}), {"m": [("a", 1)], "l": [([1], 2)]}, {"m": {"a": 1}, "l": [([1], 2)]}),
    ],
)
def test_maps_are_dicts(kind: pa.DataType, value: Any, wanted: Any) -> None:
    made = maps.reader(kind)
    assert made is not None
    assert made(value) == wanted
    rows = pa.RecordBatch.from_arrays([pa.array([value, None], kind), pa.array([1, 2])], names=["c", "n"])
    assert calling.messages(rows) == [{"c": wanted, "n": 1}, {"c": None, "n": 2}]


@pytest.mark.parametrize("kind", [pa.list_(pa.int64()), BY_LIST, pa.struct({"l": BY_LIST})])
def test_what_has_no_map_or_one_that_no_dict_can_be_stays(kind: pa.DataType) -> None:
    assert maps.reader(kind) is None


def test_a_map_with_lists_as_keys_leaves_the_other_columns_as_they_are() -> None:
    rows = pa.RecordBatch.from_arrays([pa.array([[("a", 1)]], NUMBERS), pa.array([[([1], 2)]], BY_LIST)], ["m", "l"])
    assert calling.messages(rows) == [{"m": {"a": 1}, "l": [([1], 2)]}]
