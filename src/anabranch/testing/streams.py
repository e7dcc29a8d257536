"""The streams of a test, on an embedded log in a folder of its own."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from anabranch.systems.embedded import LaneWriter, Log, SegmentWriter, read_slice
from anabranch.systems.embedded.append import PUT_JOB
from anabranch.systems.records import RECORD_SCHEMA
from anabranch.testing.messages import Encoded

__all__ = ["EmbeddedStreams"]


class EmbeddedStreams:
    """Makes, fills and reads streams under ``root``."""

    def __init__(self, root: Path) -> None:
        self._log = Log(root)
        self._writer = LaneWriter(self._log, PUT_JOB, "put-test", epoch=1)
        self._batch = 0

    def names(self) -> list[str]:
        return self._log.streams()

    def create(self, stream: str, partitions: int) -> None:
        self._log.create(stream, partitions)

    def put(self, stream: str, messages: Sequence[Encoded]) -> None:
        """Add messages; those of one partition stay in order."""
        for number in sorted({message.partition for message in messages}):
            mine = [message for message in messages if message.partition == number]
            segment = SegmentWriter(self._log.root, stream, number, slot=0)
            segment.write(_batch(mine))
            self._writer.publish(stream, number, self._batch, [segment.close()])
        self._batch += 1

    def records(self, stream: str) -> Iterator[tuple[int, int, dict[str, Any]]]:
        """(partition, offset, record in the log's columns), partition after partition, in order."""
        for number, tail in self._log.ends(stream).items():
            offset = 0
            for piece in self._log.slices(stream, number, 0, tail.end):
                for batch in read_slice(piece):
                    for record in batch.to_pylist():
                        yield number, offset, record
                        offset += 1


def _batch(messages: Sequence[Encoded]) -> pa.RecordBatch:
    rows = [
        {
            "key": message.key,
            "value": message.value,
            "headers": [{"key": name, "value": value} for name, value in message.headers] or None,
            "timestamp": message.timestamp,
        }
        for message in messages
    ]
    return pa.RecordBatch.from_pylist(rows, schema=RECORD_SCHEMA)
