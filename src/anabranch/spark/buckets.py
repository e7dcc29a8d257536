"""The buckets of a partition's rows in a Python worker: one thread each, at the same time."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from anabranch.model.hashing import bucket
from anabranch.spark import hidden

__all__ = ["MOST_THREADS", "Work", "Worked", "threads"]

MOST_THREADS = 64
"""Of one Spark task. Buckets beyond take turns."""

Places = npt.NDArray[np.int64]
Worked = tuple[pa.RecordBatch, Places]
"""Rows that came of some rows, and the place of the one that each came of."""

Work = Callable[[pa.RecordBatch], Worked]


@contextmanager
def threads(factor: int) -> Iterator[Callable[[Work, pa.RecordBatch], pa.RecordBatch]]:
    """Gives what does some work on rows, on each bucket by itself; what comes of it is in the order of the rows."""
    if factor == 1:
        yield lambda work, rows: work(rows)[0]
        return
    pool = ThreadPoolExecutor(min(factor, MOST_THREADS), "anabranch-bucket")

    def each_bucket(work: Work, rows: pa.RecordBatch) -> pa.RecordBatch:
        of_row = _buckets(rows, factor)
        places = [np.flatnonzero(of_row == number) for number in np.unique(of_row)]
        if len(places) == 1:
            return work(rows)[0]
        done = list(pool.map(work, [rows.take(pa.array(mine)) for mine in places]))
        came_of = np.concatenate([mine[indexes] for mine, (_, indexes) in zip(places, done, strict=True)])
        whole = pa.Table.from_batches([batch for batch, _ in done]).combine_chunks()
        ordered = whole.take(pa.array(np.argsort(came_of, kind="stable")))
        found = ordered.to_batches()
        return found[0] if found else done[0][0]

    try:
        yield each_bucket
    finally:
        pool.shutdown(cancel_futures=True)


def _buckets(rows: pa.RecordBatch, factor: int) -> Places:
    """The bucket of each row, by the key that its hidden column has."""
    keys, offsets = (pc.struct_field(rows.column(hidden.NAME), name).to_pylist() for name in ("key", "offset"))
    return np.array([bucket(key, offset, factor) for key, offset in zip(keys, offsets, strict=True)], np.int64)
