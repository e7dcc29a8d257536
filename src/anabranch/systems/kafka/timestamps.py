"""The timestamps of records, in the form that Kafka's client accepts."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

__all__ = ["milliseconds"]

_FIRST_MS = 1
"""The earliest possible timestamp. Kafka has none before 1970, and the client replaces 0 with the time of writing."""


def milliseconds(times: pa.Array) -> npt.NDArray[Any]:
    """The timestamps of records in milliseconds since 1970. Timestamps before ``_FIRST_MS`` are raised to
    ``_FIRST_MS``, because the client accepts no earlier timestamps."""
    found: npt.NDArray[Any] = np.maximum(times.cast(pa.int64()).to_numpy() // 1000, _FIRST_MS)
    return found
