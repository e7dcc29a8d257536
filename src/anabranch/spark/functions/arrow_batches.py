"""Combines Arrow batches, and packs them for other processes."""

from __future__ import annotations

import pyarrow as pa

from anabranch.spark.functions.results import ResultError

__all__ = ["combined", "packed", "unpacked"]


def combined(rows: pa.Table) -> pa.RecordBatch:
    """All rows of a table as one batch. Raises ResultError if a batch can't hold them, because a column has more than
    2 GB of texts or bytes.
    """
    batches = rows.combine_chunks().to_batches()
    if len(batches) > 1:
        raise ResultError(f"{rows.num_rows} results have more than 2 GB in one column: return fewer rows at a time")
    return batches[0] if batches else pa.RecordBatch.from_pylist([], schema=rows.schema)


def packed(rows: pa.RecordBatch) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema) as writer:
        writer.write_batch(rows)
    return sink.getvalue().to_pybytes()  # type: ignore[no-any-return]


def unpacked(packed: bytes) -> pa.RecordBatch:
    return pa.ipc.open_stream(packed).read_next_batch()
