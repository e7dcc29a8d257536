"""How a lane's exactly-once output gets into a system or into tables: what Spark's workers do with the rows, and what
the driver does with each batch.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from anabranch.event_time.control import Control

__all__ = ["Numbers", "Output", "Publisher", "Target", "Writer", "Written"]

Numbers = npt.NDArray[np.int32]


@dataclass(frozen=True)
class Target:
    """A stream to which a lane writes. The lane uses the same ``partitions`` count during its whole life."""

    stream: str
    partitions: int


class Written(msgspec.Struct, frozen=True, kw_only=True):
    """A part of a batch that a worker has written durably. What a part is depends on the output:

    - for a ``slotted`` publisher, everything that was written for a slot
    - for a table, one of the parts that a Spark task has written
    - otherwise, everything that a Spark task has written to a partition of a stream.

    Attributes:
        stream: the name of the stream. For a slot, the name of the first stream that was written. For a table, the
            output's name.
        partition: the number of the partition. For a slot, -1. For a table, the part's number in the Spark task.
        slot: the number of the slot. If the publisher isn't ``slotted``, the number of the Spark task.
        rows: the number of records. For a table, the first part has the Spark task's number of rows, and the other
            parts have 0.
        ref: tells the publisher what the driver must publish. Empty if the worker has published the part already.
        total: how many records the slot has ever written. If the publisher isn't ``slotted``, 0.
    """

    stream: str
    partition: int
    slot: int
    rows: int
    ref: bytes = b""
    total: int = 0


read_written = msgspec.msgpack.Decoder(Written).decode
"""Decodes a :class:`Written` from MessagePack. All code uses this same decoder; for the reason, see
:data:`anabranch.model.document.first_use`.
"""


class Writer(Protocol):
    """Writes one Spark task's part of a batch. If the Spark task fails before :meth:`close` has succeeded,
    :meth:`abort` is called. No method is called after :meth:`abort`, or after a successful :meth:`close`."""

    def write(self, target: Target, slot: int, partitions: Numbers, records: pa.RecordBatch) -> None:
        """Write records with the columns of ``RECORD_SCHEMA``. ``partitions`` contains each record's partition."""
        ...

    def close(self) -> list[Written]:
        """Make the records durable, and return what was written."""
        ...

    def abort(self) -> None: ...


class Output(Protocol):
    """The part of an output that is sent to Python workers, where it creates writers for Spark tasks."""

    def writer(self, task: int, batch: int) -> Writer:
        """A writer for a Spark task's part of a batch. ``task`` is the Spark task's number."""
        ...

    def limit(self, stream: str) -> float:
        """The size limit in bytes for a record of a stream. A margin for the overhead of sending the record has already
        been subtracted. If there is no limit, the result is infinite."""
        ...


class Publisher(Protocol):
    """The driver's part of a lane's exactly-once output to one system, or to tables of one kind."""

    @property
    def output(self) -> Output:
        """The output with which workers write."""
        ...

    @property
    def slotted(self) -> bool:
        """Whether rows must carry the number of their slot, and all rows of a slot must be in one Spark task."""
        ...

    @property
    def plannable(self) -> bool:
        """Whether Spark may plan the write of a lane's first batch, with :attr:`output`, before the lane begins."""
        ...

    @property
    def batch_seconds(self) -> float:
        """The time limit of a batch in seconds, from the batch's first row to the batch's end. If the publisher isn't
        ``slotted``, the limit is infinite."""
        ...

    def take(self, new: bool) -> None:
        """Take over the lane's outputs. After that, no process with a lower epoch can write for the lane. If fences
        already ensure this in a system, do nothing.

        This method is called before a lane's query starts, unless the outputs already belong to this process. If the
        publisher is ``slotted``, the method is called again later. It then renews the slots' markers, and aborts
        transactions that a batch has left open.

        ``new`` says whether no batch of the lane was ever planned.

        Raises:
            FencedError: a process with a higher epoch has the lane.
            StateError: the lane is new, but an output has one of the lane's batches; or the lane isn't new, but a
                marker is missing.
        """
        ...

    def publish(self, batch: int, written: Sequence[Written], controls: Mapping[Target, Control]) -> None:
        """Make visible the parts of a batch that workers have written, unless they are visible already. Also write the
        control records. If the same batch is published again, nothing changes for readers.

        ``controls`` maps intermediate streams to the control records that this publisher must write to them.
        """
        ...

    def settle(self) -> None:
        """Remove temporary data, and wait for a limited time until readers can see what was published. (In some
        systems, this happens only some time after :meth:`publish` has returned.) This method is called when a lane
        won't publish anything more."""
        ...

    def put_aside(self, streams: Sequence[str]) -> int:
        """How many records this lane has ever written to the dead-letter streams ``streams``. If the publisher is
        ``slotted``, the number includes records in the lane's other dead-letter streams."""
        ...
