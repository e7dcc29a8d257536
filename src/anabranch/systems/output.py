"""How a lane's rows get into a system: what Spark's workers do with them, and what the driver does for each batch."""

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
    """A stream to which a lane writes. ``partitions``: the count that the lane uses for its whole life."""

    stream: str
    partitions: int


class Written(msgspec.Struct, frozen=True, kw_only=True):
    """The part of a batch that a worker has made durable. ``ref``: what the driver publishes ('': it is already
    published).

    ``total``: how many records the slot has ever written (if the system counts them by slot).
    """

    stream: str
    partition: int
    slot: int
    rows: int
    ref: bytes = b""
    total: int = 0


read_written = msgspec.msgpack.Decoder(Written).decode
"""The inverse of ``msgspec.msgpack.encode``. It is made only once: see :data:`anabranch.model.document.first_use`."""


class Writer(Protocol):
    """Accepts one Spark task's part of a batch. It isn't used after :meth:`close` or :meth:`abort`."""

    def write(self, target: Target, slot: int, partitions: Numbers, records: pa.RecordBatch) -> None:
        """Write records in the columns of ``RECORD_SCHEMA``, with the partition of each."""
        ...

    def close(self) -> list[Written]:
        """Make the records durable."""
        ...

    def abort(self) -> None: ...


class Output(Protocol):
    """The description of an output that is sent to workers."""

    def writer(self, task: int, batch: int) -> Writer:
        """A writer for one Spark task's part of a batch."""
        ...

    def limit(self, stream: str) -> float:
        """The size limit of a record of a stream, in bytes, with a margin for what is sent along with it."""
        ...


class Publisher(Protocol):
    """A lane's output into one system, exactly once, in the driver."""

    @property
    def output(self) -> Output:
        """The output with which workers write."""
        ...

    @property
    def slotted(self) -> bool:
        """Whether a slot's rows must all be in one Spark task, with the slot's number."""
        ...

    @property
    def plannable(self) -> bool:
        """Whether Spark can plan the write of a batch in advance, with everything that :attr:`output` needs."""
        ...

    @property
    def batch_seconds(self) -> float:
        """How long a batch may take, from its first row to its end. Used only if the publisher is ``slotted``;
        otherwise there is no limit.
        """
        ...

    def take(self, new: bool) -> None:
        """Take the lane's slots before its first batch. After that, no older incarnation can write any more.

        ``new``: whether no batch of the lane was ever planned.

        Raises:
            FencedError: a newer incarnation owns the slots.
            StateError: the lane is new but the slots aren't, or the other way round.
        """
        ...

    def publish(self, batch: int, written: Sequence[Written], controls: Mapping[Target, Control]) -> None:
        """Make visible what workers have written of a batch. A replay changes nothing.

        ``controls``: the control records for the readers of intermediate streams, in all of their partitions.
        """
        ...

    def settle(self) -> None:
        """Wait a moment until readers can see what was published. (Some systems complete this later.)"""
        ...

    def put_aside(self, streams: Sequence[str]) -> int:
        """How many records this lane has ever written to these streams."""
        ...
