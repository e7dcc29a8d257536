"""Prefixes of the fingerprint's entries for streams and tables, whose names follow the prefix."""

from __future__ import annotations

__all__ = ["DELIVERY", "FORMAT", "OUTPUT", "PARTITIONS", "PATTERN", "TABLE"]

PARTITIONS = "partitions of "
OUTPUT = "output stream "
TABLE = "table "
PATTERN = "pattern of "
DELIVERY = "delivery of "
FORMAT = "format of "
