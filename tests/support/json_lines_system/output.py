"""A lane's output: workers stage lines where no reader looks, the driver appends them to their partitions."""

from __future__ import annotations

import json
import math
import os
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from anabranch.errors import StateError
from anabranch.event_time.control import Control
from anabranch.model.lane import Lane
from anabranch.systems.output import Numbers, Target, Written
from tests.support.json_lines_system import partition
from tests.support.json_lines_system.partition import Entry

__all__ = ["JsonLinesPublisher", "fence"]


@dataclass(frozen=True)
class _Output:
    """Travels to workers."""

    root: Path

    def writer(self, task: int, batch: int) -> _Staging:
        return _Staging(self.root, task)

    def limit(self, stream: str) -> float:
        return math.inf


@dataclass
class _Staging:
    """What one Spark task writes of a batch. It may run twice: each run has files of its own."""

    root: Path
    task: int
    _records: dict[tuple[str, int], list[dict[str, Any]]] = field(default_factory=dict)

    def write(self, target: Target, slot: int, partitions: Numbers, records: pa.RecordBatch) -> None:
        for number in np.unique(partitions).tolist():
            mine = records.filter(pa.array(partitions == number))
            self._records.setdefault((target.stream, number), []).extend(partition.packed(mine))

    def close(self) -> list[Written]:
        written = []
        for (stream, number), records in self._records.items():
            file = self.root / stream / f"staged-{uuid.uuid4().hex}.json"
            with file.open("w") as opened:
                json.dump(records, opened)
                opened.flush()
                os.fsync(opened.fileno())
            ref = file.name.encode()
            written.append(Written(stream=stream, partition=number, slot=self.task, rows=len(records), ref=ref))
        return written

    def abort(self) -> None:
        self._records.clear()


class JsonLinesPublisher:
    """Publishes each partition's part of a batch as one entry, which says of which lane, epoch and batch it is."""

    slotted = False
    plannable = False
    batch_seconds = math.inf

    def __init__(self, root: Path, lane: Lane, epoch: int, streams: Mapping[str, Sequence[Path]]) -> None:
        """``streams``: the files of the streams that the lane writes here."""
        self.output = _Output(root)
        self._lane = lane
        self._epoch = epoch
        self._streams = streams

    def take(self, new: bool) -> None:
        """Fence all former incarnations. A lane that should be new and has a batch here: the store was set back."""
        for stream, files in self._streams.items():
            for file in files:
                found = partition.mark(partition.entries(file), self._lane.id)
                if new and found is not None and found.batch >= 0:
                    raise StateError(
                        f"lane {self._lane.id} is new, but {stream} holds batch {found.batch} of it",
                        "the store is an older copy: restore the newest one",
                    )
                fence(file, self._lane, self._epoch)

    def publish(self, batch: int, written: Sequence[Written], controls: Mapping[Target, Control]) -> None:
        """A partition that has the batch already is passed over: a process may have died between two of them."""
        refs: dict[tuple[str, int], list[Written]] = {}
        for each in sorted(written, key=lambda each: each.slot):
            refs.setdefault((each.stream, each.partition), []).append(each)
        told = {(t.stream, p): control.to_builtins() for t, control in controls.items() for p in range(t.partitions)}
        for stream, number in sorted({*refs, *told}):
            mine = refs.get((stream, number), [])
            staged = [self.output.root / stream / each.ref.decode() for each in mine]
            self._publish(stream, number, batch, staged, told.get((stream, number)))
            for file in staged:
                file.unlink(missing_ok=True)

    def _publish(
        self, stream: str, number: int, batch: int, staged: Sequence[Path], control: dict[str, Any] | None
    ) -> None:
        def decide(known: list[Entry]) -> Entry | None:
            held = partition.checked(known, self._lane.id, self._epoch, f"{stream}/{number}")
            if held.batch >= batch:
                return None
            records = [record for file in staged for record in json.loads(file.read_text())]
            end = known[-1].end if known else 0
            return Entry(self._lane.job, self._lane.id, self._epoch, batch, end, records, control)

        partition.append(self._streams[stream][number], decide)

    def settle(self) -> None:
        """Nothing to wait for."""

    def put_aside(self, streams: Sequence[str]) -> int:
        files = [file for stream in streams for file in self._streams[stream]]
        marks = [partition.mark(partition.entries(file), self._lane.id) for file in files]
        return sum(mark.records for mark in marks if mark is not None)


def fence(file: Path, lane: Lane, epoch: int) -> None:
    """Let nobody below an epoch publish for a lane to a partition any more."""

    def decide(known: list[Entry]) -> Entry | None:
        held = partition.checked(known, lane.id, epoch, str(file))
        if held.epoch == epoch and partition.mark(known, lane.id) is not None:
            return None
        return Entry(lane.job, lane.id, epoch, held.batch, known[-1].end if known else 0)

    partition.append(file, decide)
