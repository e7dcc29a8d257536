"""What every system gives: what the planner, lanes and the command line need of it, without Spark."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

__all__ = ["Appender", "Offsets", "Range", "Records", "System"]

Offsets = npt.NDArray[np.int64]

Records = tuple[Offsets, pa.RecordBatch]
"""The offsets of some records of one partition, rising, and the records in the columns of ``RECORD_SCHEMA``."""

Range = tuple[int, int]
"""The first offset, and the one after the last."""


class Appender(Protocol):
    """Adds records to one stream from outside of any job. For one thread."""

    def append(self, batch: pa.RecordBatch) -> int:
        """Add a batch in the columns of ``RECORD_SCHEMA``, each record to the partition that murmur2 of its key
        says; null keys go anywhere. It is durable when this returns. Gives the number of records."""
        ...

    def close(self) -> None: ...


class System(Protocol):
    """A place of named, partitioned, ordered logs. Answers are fresh: others may create streams, too.

    All methods that take a stream raise NotFoundError if there is none of that name. An object may be shared by
    threads and can be pickled: it travels to Python workers.
    """

    @property
    def name(self) -> str:
        """As in SSPs: ``embedded`` or ``kafka``."""
        ...

    def streams(self) -> list[str]:
        """The names of all streams, sorted."""
        ...

    def counts(self) -> dict[str, int]:
        """The partition counts of all streams, by name."""
        ...

    def partitions(self, stream: str) -> int:
        """How many partitions a stream has."""
        ...

    def id(self, stream: str) -> str:
        """What tells a stream from another one of the same name, made after it was deleted."""
        ...

    def create(self, stream: str, partitions: int, internal: bool = False) -> None:
        """Make a stream; one that is there with that count is left as it is. ``internal``: between two stages.

        Raises:
            ConflictError: it is there with another count.
        """
        ...

    def expand(self, stream: str, partitions: int) -> None:
        """Raise a stream's partition count to a multiple of the present one. It can't be lowered again."""
        ...

    def starts(self, stream: str) -> dict[int, int]:
        """Partition → offset of the oldest record that is kept."""
        ...

    def ends(self, stream: str, partitions: Iterable[int] | None = None) -> dict[int, int]:
        """Partition → the offset that the next record will get: one past the last that a reader may see.

        Offsets may have gaps (Kafka's transactions take some): never count records by subtraction.
        """
        ...

    def high_watermarks(self, stream: str) -> dict[int, int]:
        """Partition → the end with what readers can't see yet, and maybe never will: that of open transactions."""
        ...

    def offset_at(self, stream: str, unix_ms: int) -> dict[int, int]:
        """Partition → the first offset whose record has this timestamp or a later one; the end if none has."""
        ...

    def read(self, stream: str, partition: int, ranges: Sequence[Range]) -> Iterator[Records]:
        """All records of these ranges, which rise and don't overlap, in order.

        Raises:
            LogError: some of the range isn't kept any more.
        """
        ...

    def appender(self, stream: str) -> Appender:
        """Adds records to a stream."""
        ...

    def controls(self, stream: str, partition: int, cursor: int, position: int) -> tuple[list[dict[str, Any]], int]:
        """The control records of an intermediate stream that a reader at ``position`` of a partition must heed.

        They are those after ``cursor`` before whose place all records were read; with the new cursor (-1: none).
        """
        ...
