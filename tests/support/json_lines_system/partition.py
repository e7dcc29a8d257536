"""One partition: a file to which entries are appended, a line each. One makes records visible, or fences a lane."""

from __future__ import annotations

import base64
import fcntl
import json
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa

from anabranch.errors import FencedError
from anabranch.systems.records import RECORD_SCHEMA

__all__ = ["Entry", "Mark", "append", "checked", "entries", "mark", "packed", "unpacked"]


@dataclass(frozen=True)
class Entry:
    """What one batch of a lane adds; with no records, a fence. ``at``: the offset of the first record."""

    job: str
    lane: str
    epoch: int
    batch: int
    at: int
    records: Sequence[dict[str, Any]] = ()
    control: dict[str, Any] | None = None

    @property
    def end(self) -> int:
        return self.at + len(self.records)


@dataclass(frozen=True)
class Mark:
    """What a partition knows of a lane: its highest epoch, its last batch (-1: none), and how many records it wrote."""

    epoch: int
    batch: int
    records: int


def entries(file: Path) -> list[Entry]:
    """All of them. A last line without its end is that of a process which died: it never was one."""
    whole = file.read_bytes().rpartition(b"\n")[0]
    return [Entry(**json.loads(line)) for line in whole.split(b"\n") if line]


def mark(known: Sequence[Entry], lane: str) -> Mark | None:
    """What a partition knows of a lane; None: nothing."""
    mine = [entry for entry in known if entry.lane == lane]
    if not mine:
        return None
    return Mark(
        max(each.epoch for each in mine), max(each.batch for each in mine), sum(len(each.records) for each in mine)
    )


def append(file: Path, decide: Callable[[list[Entry]], Entry | None]) -> bool:
    """Add the entry that ``decide`` makes of those that are there, durably, while nobody else adds one. None: nothing.

    That look and write are one step is all that exactly once takes: nobody can fence the lane between them.
    """
    with _locked(file):
        known = entries(file)
        entry = decide(known)
        if entry is None:
            return False
        with file.open("r+b") as opened:
            whole = opened.read().rpartition(b"\n")
            opened.truncate(len(whole[0]) + len(whole[1]))  # without what a process that died has begun to write
            opened.seek(0, os.SEEK_END)
            opened.write(json.dumps(asdict(entry)).encode() + b"\n")
            opened.flush()
            os.fsync(opened.fileno())
    return True


def checked(known: Sequence[Entry], lane: str, epoch: int, where: str) -> Mark:
    """A lane's mark, which a process with ``epoch`` may follow up. Raises FencedError if it may not."""
    found = mark(known, lane) or Mark(epoch, -1, 0)
    if found.epoch > epoch:
        raise FencedError(
            f"lane {lane} at epoch {epoch} must not write to {where}: epoch {found.epoch} has taken over",
            "nothing was written; this process must stop, the lane continues elsewhere",
        )
    return found


def packed(batch: pa.RecordBatch) -> list[dict[str, Any]]:
    """Records in the columns of ``RECORD_SCHEMA`` as JSON has them: bytes in base64, times in microseconds."""
    return [
        {
            "key": _text(row["key"]),
            "value": _text(row["value"]),
            "headers": [[each["key"], _text(each["value"])] for each in row["headers"] or ()] or None,
            "timestamp": _microseconds(row["timestamp"]),
        }
        for row in batch.to_pylist()
    ]


def unpacked(records: Sequence[dict[str, Any]]) -> pa.RecordBatch:
    """The inverse of :func:`packed`."""
    rows = [
        {
            "key": _bytes(record["key"]),
            "value": _bytes(record["value"]),
            "headers": record["headers"] and [{"key": key, "value": _bytes(text)} for key, text in record["headers"]],
            "timestamp": record["timestamp"],
        }
        for record in records
    ]
    return pa.RecordBatch.from_pylist(rows, RECORD_SCHEMA)


@contextmanager
def _locked(file: Path) -> Iterator[None]:
    with file.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _microseconds(at: datetime) -> int:
    return int((at - datetime(1970, 1, 1, tzinfo=UTC)).total_seconds() * 1_000_000)


def _text(value: bytes | None) -> str | None:
    return None if value is None else base64.b64encode(value).decode()


def _bytes(text: str | None) -> bytes | None:
    return None if text is None else base64.b64decode(text)
