"""The prefixes with which fingerprint entries about a single stream or table are named. The name of the stream or table
follows the prefix; after ``PARTITIONS``, it has the form ``system/stream``.
"""

from __future__ import annotations

__all__ = ["DELIVERY", "FORMAT", "OUTPUT", "PARTITIONS", "PATTERN", "TABLE"]

PARTITIONS = "partitions of "
OUTPUT = "output stream "
TABLE = "table "
PATTERN = "pattern of "
DELIVERY = "delivery of "
FORMAT = "format of "
