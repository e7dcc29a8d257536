"""The batch sizes, in records, that the lanes of a group have stored. There is one size for each factor. The stored
sizes determine how large the first batch of a lane is.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

__all__ = ["FIRST_PART", "HIGHER", "StoredSize", "first", "from_builtins", "to_builtins"]

FIRST_PART = 4
"""A first batch gets the stored size divided by this number, because records may have become slower to process since
the size was stored.
"""
HIGHER = 2.0
"""A first batch gets at most this multiple of the size that was stored for a lower factor. If a higher factor doesn't
help, for example because functions already use all cores, the batch takes twice the target.
"""


@dataclass(frozen=True)
class StoredSize:
    """A stored size. In a lane with ``partitions`` partitions, ``rows`` was the limit on the rows of a batch."""

    rows: int
    partitions: int


def first(known: Mapping[int, StoredSize], factor: int, partitions: int, *, quick: bool) -> int:
    """The number of records in a lane's first batch, at least 1; 0 if no size is stored.

    The number is computed from the size that is stored for the lane's factor or, if there is none, from the size for
    the nearest factor:

    - If the lane has a lower factor or fewer partitions than the lane that stored the size, the size is reduced in
      proportion.
    - Unless ``quick`` is True, the size is then adjusted: if it was stored for a lower factor than the lane's, it is
      multiplied by the quotient of the factors, but at most by :data:`HIGHER`; otherwise, it is divided by
      :data:`FIRST_PART`.

    Args:
        known: the stored sizes, by factor.
        factor: the lane's factor.
        partitions: the number of the lane's partitions.
        quick: whether the lane calls no functions of the job. Such a lane's records can't have become slower to process
            since the size was stored.
    """
    if not known:
        return 0
    near = min(known, key=lambda each: (abs(math.log2(each / factor)), each))
    size = known[near]
    rows = size.rows * min(1.0, factor / near) * min(1.0, partitions / max(1, size.partitions))
    if quick:
        return max(1, int(rows))
    return max(1, int(rows * min(HIGHER, factor / near) if near < factor else rows / FIRST_PART))


def to_builtins(known: Mapping[int, StoredSize]) -> dict[str, dict[str, int]]:
    """The sizes in the form in which they are stored as JSON."""
    return {str(f): {"rows": each.rows, "partitions": each.partitions} for f, each in sorted(known.items())}


def from_builtins(told: object) -> dict[int, StoredSize]:
    """The inverse of :func:`to_builtins`.

    Raises:
        ValueError: the value isn't in the form of :func:`to_builtins`.
    """
    if not isinstance(told, dict):
        raise ValueError(f"not an object: {told!r}")
    found: dict[int, StoredSize] = {}
    for factor, each in told.items():
        if not (isinstance(each, dict) and factor.isdecimal() and int(factor) > 0):
            raise ValueError(f"no size of a factor: {factor!r}: {each!r}")
        rows, partitions = each.get("rows"), each.get("partitions")
        if not (type(rows) is int and type(partitions) is int and rows > 0 and partitions > 0):
            raise ValueError(f"no size: {each!r}")
        found[int(factor)] = StoredSize(rows, partitions)
    return found
