"""Combines and divides Arrow data, and packs it for other processes. An Arrow batch can hold up to 2 GB of strings
or bytes in a column; a table can hold more, in several batches.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import pyarrow as pa

__all__ = ["LARGEST", "combined", "cut", "packed", "unpacked"]

LARGEST = 2**30
"""The maximum size, in bytes, of a batch that is passed to Spark."""


def combined(rows: pa.Table) -> list[pa.RecordBatch]:
    """The rows of a table in as few batches as Arrow allows; one empty batch if there are no rows."""
    with contextlib.suppress(pa.ArrowInvalid):  # more than 2 GB of texts or bytes inside arrays, maps or structs
        rows = rows.combine_chunks()
    return rows.to_batches() or [pa.RecordBatch.from_pylist([], schema=rows.schema)]


def cut(rows: pa.Table, most: int = LARGEST) -> Iterator[pa.RecordBatch]:
    """The rows of a table in batches of at most ``most`` bytes. A larger row gets a batch to itself."""
    for batch in rows.to_batches():
        half = batch.num_rows // 2
        if batch.nbytes <= most or not half:
            yield batch
        else:
            yield from cut(pa.Table.from_batches([batch.slice(0, half), batch.slice(half)]), most)


def packed(rows: pa.RecordBatch | pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema) as writer:
        writer.write(rows)
    return sink.getvalue().to_pybytes()  # type: ignore[no-any-return]


def unpacked(packed: bytes) -> pa.Table:
    return pa.ipc.open_stream(packed).read_all()
