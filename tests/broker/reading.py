"""What tests look at of records that a system has read."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import pyarrow as pa

from anabranch.systems.records import RECORD_SCHEMA


def values(found: Iterable[tuple[Any, pa.RecordBatch]]) -> list[tuple[int, bytes]]:
    """Offset and value of each record, in the types that the contract says."""
    got: list[tuple[int, bytes]] = []
    for offsets, records in found:
        assert offsets.dtype == np.int64
        assert records.schema.equals(RECORD_SCHEMA)
        got += zip(offsets.tolist(), records.column("value").to_pylist(), strict=True)
    return got
