"""What a job's fingerprint calls the facts about its streams: each name goes on with that of the stream."""

from __future__ import annotations

__all__ = ["DELIVERY", "FORMAT", "OUTPUT", "PARTITIONS", "PATTERN", "TABLE"]

PARTITIONS = "partitions of "
OUTPUT = "output stream "
TABLE = "table "
PATTERN = "pattern of "
DELIVERY = "delivery of "
FORMAT = "format of "
