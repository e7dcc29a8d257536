"""Single records by their offsets: for what is looked at again, such as a record that could not be processed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa

from anabranch.systems.embedded.log import Log
from anabranch.systems.embedded.segments import read_slice

_NEAR = 1000


def fetch(log: Log, stream: str, partition: int, offsets: Sequence[int]) -> Iterator[pa.RecordBatch]:
    """The records at these offsets, which rise, in batches of ``RECORD_SCHEMA``.

    Raises:
        LogError: the log doesn't hold them all.
    """
    wanted = np.asarray(offsets, dtype=np.int64)
    for near in np.split(wanted, np.flatnonzero(np.diff(wanted) > _NEAR) + 1) if len(wanted) else ():
        for piece in log.slices(stream, partition, int(near[0]), int(near[-1]) + 1):
            at = piece.offset
            for batch in read_slice(piece):
                low, high = np.searchsorted(near, [at, at + batch.num_rows])
                if high > low:
                    yield batch.take(pa.array(near[low:high] - at))
                at += batch.num_rows
