"""Compares fingerprints. A fingerprint describes a version of a job by named entries. If an entry is about a single
stream or table, the entry's name is one of the prefixes defined here, followed by the name of the stream or table.
After the prefix ``PARTITIONS``, the stream's name has the form ``system/stream``.
"""

from __future__ import annotations

from collections.abc import Mapping

__all__ = ["DELIVERY", "FORMAT", "OUTPUT", "PARTITIONS", "PATTERN", "TABLE", "alike", "differing"]

PARTITIONS = "partitions of "
OUTPUT = "output stream "
TABLE = "table "
PATTERN = "pattern of "
DELIVERY = "delivery of "
FORMAT = "format of "


def differing(one: Mapping[str, str], other: Mapping[str, str]) -> list[str]:
    """The names of the entries in which two fingerprints differ. Partition counts of inputs that are in both
    fingerprints are left out, because a running job adapts to these counts.
    """
    names = (name for name in {**one, **other} if one.get(name) != other.get(name))
    return sorted(name for name in names if not (name.startswith(PARTITIONS) and name in one.keys() & other))


def alike(one: Mapping[str, str], other: Mapping[str, str]) -> bool:
    """Whether versions with these fingerprints differ only in the bodies of functions."""
    return not differing(one, other)
