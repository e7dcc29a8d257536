"""Records, a model and a way to die, for the tests of the embedded log."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa

from anabranch.systems.embedded import LaneWriter, Log, SegmentRef, SegmentWriter, read_slice
from anabranch.systems.records import RECORD_SCHEMA

AT = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
DURABLE_STEPS = ("fsync", "link", "rename", "unlink", "makedirs")


def records(values: Sequence[bytes | None], keys: Sequence[bytes | None] | None = None) -> pa.RecordBatch:
    rows = [
        {"key": key, "value": value, "headers": None, "timestamp": AT}
        for key, value in zip(keys or [None] * len(values), values, strict=True)
    ]
    return pa.RecordBatch.from_pylist(rows, schema=RECORD_SCHEMA)


def segment(log: Log, stream: str, partition: int, values: Sequence[bytes | None], slot: int = 0) -> SegmentRef:
    writer = SegmentWriter(log.root, stream, partition, slot)
    writer.write(records(values))
    return writer.close()


def put(writer: LaneWriter, log: Log, stream: str, partition: int, batch: int, *values: bytes) -> bool:
    return writer.publish(stream, partition, batch, [segment(log, stream, partition, values)])


def contents(log: Log, stream: str, partition: int, start: int = 0, end: int | None = None) -> list[bytes | None]:
    if end is None:
        end = log.ends(stream, [partition])[partition].end
    pieces = log.slices(stream, partition, start, end)
    return [value for piece in pieces for batch in read_slice(piece) for value in batch["value"].to_pylist()]


class Killed(BaseException):
    """The process is gone: from here on none of its durable steps happens."""


@contextmanager
def killed_at(step: int, monkeypatch: Any, *, after: bool) -> Iterator[list[str]]:
    """Die before, or ``after``, the durable step of this number; yields the steps that began."""
    steps: list[str] = []

    def counted(name: str, real: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            steps.append(name)
            if len(steps) - 1 == step and after:
                real(*args, **kwargs)
            if len(steps) - 1 >= step:
                raise Killed
            return real(*args, **kwargs)

        return call

    with monkeypatch.context() as patch:
        for name in DURABLE_STEPS:
            patch.setattr(os, name, counted(name, getattr(os, name)))
        yield steps
