"""Records read once more as a batch: chosen ranges of offsets, in order."""

from __future__ import annotations

import json
from typing import Any

import pytest
from pyspark.sql import DataFrame

from anabranch.spark.query.records import again
from tests.integration.harness import AT, Site


def ranged(site: Site, ranges: dict[int, list[tuple[int, int]]]) -> DataFrame:
    return again(site.spark, site.lane_folders.systems.named("embedded"), "in", ranges)


def filled(site: Site) -> None:
    site.log.create("in", 2)
    for first in (0, 10):
        site.put("in", 0, [{"n": first + n} for n in range(10)], [b"k"] * 10)
    site.put("in", 1, [{"n": 100 + n} for n in range(5)])


@pytest.mark.parametrize(
    ("ranges", "expected"),
    [
        ({0: [(0, 20)], 1: [(0, 5)]}, [(0, n, n) for n in range(20)] + [(1, n, 100 + n) for n in range(5)]),
        ({0: [(2, 4), (8, 12), (19, 20)]}, [(0, n, n) for n in (2, 3, 8, 9, 10, 11, 19)]),
        ({1: [(3, 3), (4, 5)], 0: []}, [(1, 4, 104)]),
        ({}, []),
    ],
    ids=["all", "over segments", "empty ones", "none"],
)
def test_ranges_are_read_in_order(site: Site, ranges: dict[int, Any], expected: list[Any]) -> None:
    filled(site)
    rows = ranged(site, ranges).collect()
    assert [(r["partition"], r["offset"], json.loads(r["value"])["n"]) for r in rows] == expected


def test_the_columns_are_those_of_the_streaming_reader(site: Site) -> None:
    filled(site)
    rows = ranged(site, {0: [(0, 1)]})
    assert rows.columns == ["key", "value", "headers", "timestamp", "partition", "offset"]
    (row,) = rows.collect()
    assert (bytes(row["key"]), row["headers"]) == (b"k", None)
    assert rows.selectExpr("unix_seconds(timestamp) as at").collect()[0]["at"] == AT.timestamp()


def test_a_range_beyond_the_end_is_refused(site: Site) -> None:
    filled(site)
    with pytest.raises(Exception, match="in, partition 1 doesn't hold the offsets 5 to 5: it ends at 5"):
        ranged(site, {1: [(0, 6)]}).collect()
