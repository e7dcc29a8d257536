"""Compares fingerprints, and defines the prefixes with which their entries about a single stream or table are named.
The name of the stream or table follows the prefix; after ``PARTITIONS``, it has the form ``system/stream``.
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
    """The names of the entries in which fingerprints differ. Partition counts of inputs that both have don't count,
    because a running job adapts to them.
    """
    names = (name for name in {**one, **other} if one.get(name) != other.get(name))
    return sorted(name for name in names if not (name.startswith(PARTITIONS) and name in one.keys() & other))


def alike(one: Mapping[str, str], other: Mapping[str, str]) -> bool:
    """Whether versions with these fingerprints differ only in the bodies of functions."""
    return not differing(one, other)
