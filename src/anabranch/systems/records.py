"""Records as Arrow columns, in the form that every system returns and accepts."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa

__all__ = ["RECORD_SCHEMA", "iso_text", "nearest_datetime", "to_dicts"]

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_FIRST, _LAST = datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC)

RECORD_SCHEMA = pa.schema(
    [
        pa.field("key", pa.binary()),
        pa.field("value", pa.binary()),
        pa.field("headers", pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))),
        pa.field("timestamp", pa.timestamp("us", "UTC"), nullable=False),
    ]
)
"""``timestamp`` is the time that the producer gave the record or, in a Kafka topic with ``LogAppendTime``, the time at
which the broker stored the record. A partition's records are read in the order of their offsets."""


def to_dicts(batch: pa.RecordBatch) -> list[dict[str, Any]]:
    """Records as dicts. ``timestamp`` becomes the number of microseconds since 1970. (A datetime can hold only the
    years 1 to 9999, but producers can write any number.)
    """
    at = batch.schema.get_field_index("timestamp")
    found: list[dict[str, Any]] = batch.set_column(at, "timestamp", batch.column(at).cast(pa.int64())).to_pylist()
    return found


def iso_text(micros: int) -> str:
    """A timestamp in ISO format. Outside the years 1 to 9999, the number of microseconds since 1970 as text."""
    try:
        return (_EPOCH + timedelta(microseconds=micros)).isoformat(timespec="microseconds")
    except OverflowError:
        return str(micros)


def nearest_datetime(micros: int) -> datetime:
    """A timestamp as a datetime. Outside the years 1 to 9999, the first or the last time that a datetime can hold."""
    try:
        return _EPOCH + timedelta(microseconds=micros)
    except OverflowError:
        return _FIRST if micros < 0 else _LAST
