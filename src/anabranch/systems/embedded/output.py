"""A lane's output to the embedded log: workers write segments, then the driver adds entries."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa

from anabranch.event_time.control import Control
from anabranch.model.lane import Lane
from anabranch.systems.embedded.log import Log
from anabranch.systems.embedded.manifest import Tail
from anabranch.systems.embedded.segments import SegmentRef, SegmentWriter
from anabranch.systems.embedded.writer import LaneWriter
from anabranch.systems.output import Numbers, Target, Written

__all__ = ["EmbeddedOutput", "EmbeddedPublisher", "published"]

_read_ref = msgspec.msgpack.Decoder(SegmentRef).decode


@dataclass(frozen=True)
class EmbeddedOutput:
    """Writes durable segments under ``root``. The publisher then adds the entries that name them."""

    root: str

    def writer(self, task: int, batch: int) -> _Segments:
        return _Segments(self.root, task)

    def limit(self, stream: str) -> float:
        return math.inf


@dataclass
class _Segments:
    """Writes the segments of one Spark task: one for each stream and partition for which the task has rows."""

    root: str
    task: int
    _open: dict[tuple[str, int], SegmentWriter] = field(default_factory=dict)

    def write(self, target: Target, slot: int, partitions: Numbers, records: pa.RecordBatch) -> None:
        if not records.num_rows:
            return
        if target.partitions == 1 or partitions.min() == partitions.max():
            self._writer(target, int(partitions[0])).write(records)
            return
        order = np.argsort(partitions, kind="stable")
        ordered = records.take(pa.array(order))
        edges = np.searchsorted(partitions[order], np.arange(target.partitions + 1))
        for partition in range(target.partitions):
            start, end = int(edges[partition]), int(edges[partition + 1])
            if end > start:
                self._writer(target, partition).write(ordered.slice(start, end - start))

    def close(self) -> list[Written]:
        written = []
        for (stream, partition), writer in self._open.items():
            ref = writer.close()
            encoded = msgspec.msgpack.encode(ref)
            written.append(Written(stream=stream, partition=partition, slot=self.task, rows=ref.rows, ref=encoded))
        return written

    def abort(self) -> None:
        for writer in self._open.values():
            writer.abort()

    def _writer(self, target: Target, partition: int) -> SegmentWriter:
        place = (target.stream, partition)
        if place not in self._open:
            self._open[place] = SegmentWriter(self.root, target.stream, partition, self.task)
        return self._open[place]


class EmbeddedPublisher:
    """Adds a batch's segments to the manifests: one entry for each partition."""

    slotted = False
    plannable = False
    batch_seconds = math.inf

    def __init__(self, log: Log, tails: Callable[[str], Mapping[int, Tail]], lane: Lane, epoch: int) -> None:
        """``tails`` returns the tails of all partitions of a stream."""
        self.output = EmbeddedOutput(str(log.root))
        self._tails = tails
        self._lane = lane.id
        self._writer = LaneWriter(log, lane.job, lane.id, epoch)

    def take(self, new: bool) -> None:
        """Does nothing, because publishing detects every fence."""

    def publish(self, batch: int, written: Sequence[Written], controls: Mapping[Target, Control]) -> None:
        refs: dict[tuple[str, int], list[SegmentRef]] = {}
        for each in written:
            ref = _read_ref(each.ref)
            refs.setdefault((each.stream, each.partition), []).append(ref)
        told: dict[tuple[str, int], dict[str, Any]] = {
            (target.stream, p): control.to_builtins()
            for target, control in controls.items()
            for p in range(target.partitions)
        }
        for place in sorted({*refs, *told}):
            stream, partition = place
            self._writer.publish(stream, partition, batch, refs.get(place, []), told.get(place))

    def settle(self) -> None:
        """Does nothing, because there is nothing to wait for."""

    def put_aside(self, streams: Sequence[str]) -> int:
        marks = [tail.writers.get(self._lane) for stream in streams for tail in self._tails(stream).values()]
        return sum(mark.rows for mark in marks if mark is not None)


def published(log: Log, lane: str, streams: Sequence[str]) -> int:
    """The last batch that the lane with the id ``lane`` has published to any of ``streams``; -1 if none."""
    marks = [tail.writers.get(lane) for stream in streams for tail in log.ends(stream).values()]
    return max((mark.batch for mark in marks if mark is not None), default=-1)
