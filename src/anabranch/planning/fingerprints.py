"""The names of facts about streams in a job's fingerprint; each is followed by the stream's name."""

from __future__ import annotations

__all__ = ["DELIVERY", "FORMAT", "OUTPUT", "PARTITIONS", "PATTERN", "TABLE"]

PARTITIONS = "partitions of "
OUTPUT = "output stream "
TABLE = "table "
PATTERN = "pattern of "
DELIVERY = "delivery of "
FORMAT = "format of "
