"""Cuts dead letters that exceed the size limit for records of their stream."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from anabranch.systems.records import RECORD_SCHEMA

__all__ = ["CUT", "PREFIX", "fitting", "sizes_of"]

PREFIX = "anabranch."
"""The prefix of the names of anabranch's headers: error, operator, stream, partition, offset, job, cut."""

CUT = f"{PREFIX}cut"

_HEADER_BYTES = 10
_HEADERS = RECORD_SCHEMA.get_field_index("headers")


def fitting(letters: Iterable[pa.RecordBatch], limit: float) -> Iterator[pa.RecordBatch]:
    """Yield the batches of dead letters in order, after cutting each dead letter that is larger than ``limit`` bytes.

    The value of a large dead letter is cut, and an additional header says how long the value was. If the dead letter
    would be too large even without its value, all headers but anabranch's are removed, and the key is cut to
    ``limit / 4`` bytes.
    """
    for batch in letters:
        sizes = np.zeros(0) if math.isinf(limit) else sizes_of(batch)
        if sizes.max(initial=0) <= limit:
            yield batch
            continue
        parts = batch.select(["key", "value", "headers"])  # without the timestamp, which Python may not support
        rows = [
            row if size <= limit else _cut(row, int(limit))
            for row, size in zip(parts.to_pylist(), sizes.tolist(), strict=True)
        ]
        for name in parts.schema.names:
            at = batch.schema.get_field_index(name)
            batch = batch.set_column(at, name, pa.array([row[name] for row in rows], RECORD_SCHEMA.field(at).type))  # noqa: PLW2901
        yield batch


def sizes_of(letters: pa.RecordBatch) -> npt.NDArray[np.int64]:
    """The size of each record in bytes, including the maximum number of bytes that Kafka may add for each header."""
    found = np.zeros(letters.num_rows, np.int64)
    for name in ("key", "value"):
        found += pc.fill_null(pc.binary_length(letters.column(name)), 0).to_numpy(zero_copy_only=False)
    for number, headers in enumerate(letters.column(_HEADERS).to_pylist()):
        found[number] += sum(_size(header) for header in headers or ())
    return found


def _size(header: Mapping[str, Any]) -> int:
    return len(header["key"].encode()) + len(header["value"] or b"") + _HEADER_BYTES


def _cut(row: dict[str, Any], limit: int) -> dict[str, Any]:
    value, key, headers = row["value"] or b"", row["key"] or b"", list(row["headers"] or ())
    told = {
        "key": CUT,
        "value": f"the value had {len(value)} bytes; the whole record is where it was".encode(),
    }
    ours = [header for header in headers if header["key"].startswith(PREFIX)]
    left = limit - len(key) - sum(map(_size, [*headers, told]))
    if left < 0:  # without its value, the record is still too large
        headers, key = ours, key[: limit // 4]
        left = max(0, limit - len(key) - sum(map(_size, [*headers, told])))
    kept_key = key if row["key"] is not None else None
    kept = value[:left] if row["value"] is not None else None
    return {**row, "key": kept_key, "value": kept, "headers": [*headers, told]}
