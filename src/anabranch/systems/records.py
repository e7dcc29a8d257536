"""Records as Arrow columns, in the form that every system returns and accepts."""

from __future__ import annotations

import pyarrow as pa

__all__ = ["RECORD_SCHEMA"]

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
