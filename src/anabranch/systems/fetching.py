"""Reads individual records by their offsets, for example those that could not be processed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa

from anabranch.errors import LogError
from anabranch.systems.contract import Records, System

__all__ = ["NEAR", "fetch"]

NEAR = 1000
"""If two requested offsets differ by at most this number, the records between these offsets are read, too."""


def fetch(system: System, stream: str, partition: int, offsets: Sequence[int]) -> Iterator[Records]:
    """The records at ``offsets``, in batches. ``offsets`` must be in ascending order. Raises LogError if any of these
    records is missing."""
    wanted = np.asarray(offsets, dtype=np.int64)
    if not len(wanted):
        return
    near = np.split(wanted, np.flatnonzero(np.diff(wanted) > NEAR) + 1)
    missing = wanted
    for at, batch in system.read(stream, partition, [(int(part[0]), int(part[-1]) + 1) for part in near]):
        rows = np.flatnonzero(np.isin(at, wanted, assume_unique=True))
        missing = np.setdiff1d(missing, at, assume_unique=True)
        if len(rows):
            yield at[rows], batch.take(pa.array(rows))
    if len(missing):
        raise LogError(
            f"{len(missing)} of {len(wanted)} records of {stream}/{partition} aren't there, the first at offset "
            f"{missing[0]}",
            "they have been deleted, or were never records: transactions take up offsets, too",
        )
