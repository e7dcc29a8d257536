"""The interface for adding records to a stream from outside any job, as ``anabranch stream put`` does."""

from __future__ import annotations

from typing import Protocol

import pyarrow as pa

from anabranch.errors import LogError

__all__ = ["Appender", "PartlyWrittenError"]


class PartlyWrittenError(LogError):
    """Not all records of a batch could be written. ``published`` is the number of records that were written, and
    ``unsure`` the number of further records that may have been written."""

    def __init__(self, what: str, cure: str, published: int, unsure: int = 0) -> None:
        super().__init__(what, cure)
        self.published = published
        self.unsure = unsure


class Appender(Protocol):
    """Adds records to one stream from outside any job. Not thread-safe."""

    def append(self, batch: pa.RecordBatch) -> int:
        """Durably add the records in ``batch``, which has the columns of ``RECORD_SCHEMA``. Returns their number.

        The murmur2 hash of a key determines the partition. A record with a null key can go to any partition.

        Raises:
            PartlyWrittenError: not all records could be written. The error says how many were written, and how many
                more may have been written.
            AnabranchError: nothing was written.
        """
        ...

    def close(self) -> None: ...
