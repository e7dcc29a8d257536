"""The system: a folder for each stream, with a file of lines for each partition."""

from __future__ import annotations

import json
import os
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Self

import numpy as np
import pyarrow as pa

from anabranch.config import OtherSystemSettings, Settings
from anabranch.errors import ConfigError, ConflictError, NotFoundError, UsageError
from anabranch.model.hashing import partitions_for
from anabranch.model.lane import Lane
from anabranch.systems.contract import Folder, Range, Records, System
from tests.support.json_lines_system import output, partition
from tests.support.json_lines_system.partition import Entry

__all__ = ["JsonLinesSystem"]


class JsonLinesSystem(System):
    """Settings: ``root``, the folder. It keeps everything, and offsets have no gaps."""

    def __init__(self, name: str, root: Path) -> None:
        self.name = name
        self._root = root

    @classmethod
    def opened(cls, name: str, settings: Settings, job: str) -> Self:
        section = settings.systems.sections[name]
        assert isinstance(section, OtherSystemSettings)
        odd = section.options.keys() - {"root"}
        if odd or "root" not in section.options:
            wrong = f"knows no {min(odd)!r}" if odd else "has no root"
            raise ConfigError(f"[systems.{name}] {wrong}", f'write root = "…" in [systems.{name}], and no more')
        return cls(name, Path(section.options["root"]))

    def __reduce__(self) -> tuple[Any, ...]:
        return JsonLinesSystem, (self.name, self._root)

    def __str__(self) -> str:
        return str(self._root)

    # Streams and their offsets

    def streams(self) -> list[str]:
        return sorted(file.parent.name for file in self._root.glob("*/stream.json"))

    def counts(self) -> dict[str, int]:
        return {stream: self.partitions(stream) for stream in self.streams()}

    def partitions(self, stream: str) -> int:
        return int(self._described(stream)["partitions"])

    def id(self, stream: str) -> str:
        return str(self._described(stream)["id"])

    def create(self, stream: str, partitions: int, internal: bool = False) -> None:
        if not (self._root / stream / "stream.json").exists():
            self._describe(stream, uuid.uuid4().hex, partitions)
        elif self.partitions(stream) != partitions:
            raise ConflictError(
                f"{stream} already exists, with {self.partitions(stream)} partitions instead of {partitions}",
                "choose another name",
            )

    def expand(self, stream: str, partitions: int) -> None:
        known = self.partitions(stream)
        if partitions < known or partitions % known:
            raise UsageError(
                f"{stream} has {known} partitions, of which {partitions} is no multiple", f"give it {known * 2}, …"
            )
        self._describe(stream, self.id(stream), partitions)

    def starts(self, stream: str) -> dict[int, int]:
        return dict.fromkeys(range(self.partitions(stream)), 0)

    def ends(self, stream: str, partitions: Iterable[int] | None = None) -> dict[int, int]:
        numbers = range(self.partitions(stream)) if partitions is None else partitions
        found = {number: self._entries(stream, number) for number in numbers}
        return {number: entries[-1].end if entries else 0 for number, entries in found.items()}

    def high_watermarks(self, stream: str) -> dict[int, int]:
        return self.ends(stream)  # what isn't published is nowhere in the file

    def offset_at(self, stream: str, unix_us: int) -> dict[int, int]:
        found = {}
        for number, end in self.ends(stream).items():
            times = [record["timestamp"] for entry in self._entries(stream, number) for record in entry.records]
            found[number] = next((at for at, time in enumerate(times) if time >= unix_us), end)
        return found

    def read(self, stream: str, partition_: int, ranges: Sequence[Range]) -> Iterator[Records]:
        records = [record for entry in self._entries(stream, partition_) for record in entry.records]
        for start, end in ranges:
            if end > start:
                yield np.arange(start, end), partition.unpacked(records[start:end])

    def appender(self, stream: str) -> _Appender:
        return _Appender(self._files(stream))

    def controls(self, stream: str, partition_: int, cursor: int, position: int) -> tuple[list[dict[str, Any]], int]:
        """The cursor is the number of the last entry that was heeded."""
        found = []
        for number, entry in enumerate(self._entries(stream, partition_)):
            if entry.end > position:
                break
            if number > cursor:
                cursor = number
                found += [entry.control] if entry.control is not None else []
        return found, cursor

    # A lane's output

    def publisher(self, lane: Lane, epoch: int) -> output.JsonLinesPublisher:
        return output.JsonLinesPublisher(self._root, lane, epoch, {s: self._files(s) for s in self._outputs(lane)})

    def fence(self, lane: Lane, epoch: int, new: bool | None) -> None:
        for file in self._written(lane):
            output.fence(file, lane, epoch)

    def published(self, lane: Lane) -> int:
        marks = [partition.mark(partition.entries(file), lane.id) for file in self._written(lane)]
        return max((mark.batch for mark in marks if mark is not None), default=-1)

    def writers(self, job: str, streams: Sequence[str]) -> dict[str, str]:
        there = [stream for stream in streams if stream in self.streams()]
        files = [(stream, file) for stream in there for file in self._files(stream)]
        entries = [(stream, entry) for stream, file in files for entry in partition.entries(file)]
        return {entry.lane: f"stream {stream!r}" for stream, entry in entries if entry.job == job}

    def _outputs(self, lane: Lane) -> list[str]:
        return [stream for stream in sorted(lane.outputs) if lane.system(stream) == self.name]

    def _written(self, lane: Lane) -> list[Path]:
        return [file for stream in self._outputs(lane) for file in self._files(stream)]

    # What else a job and its user need

    def folders(self) -> Sequence[Folder]:
        cure = f"let [systems.{self.name}] root be in a folder that all machines share"
        return (Folder(f"{self.name} root", self._root, cure),)

    def checks(self) -> Mapping[str, Callable[[], str]]:
        return {self.name: lambda: f"{self._root}, {len(self.streams())} stream(s)"}

    # Files

    def _described(self, stream: str) -> dict[str, Any]:
        try:
            found: dict[str, Any] = json.loads((self._root / stream / "stream.json").read_text())
        except FileNotFoundError:
            raise NotFoundError(
                f"there is no stream {stream} under {self._root}", "see all with `anabranch stream list`"
            ) from None
        return found

    def _describe(self, stream: str, id_: str, partitions: int) -> None:
        """The files first: who knows of a partition finds it."""
        folder = self._root / stream
        folder.mkdir(parents=True, exist_ok=True)
        for number in range(partitions):
            (folder / f"{number}.jsonl").touch()
        temporary = folder / f"stream-{uuid.uuid4().hex}.tmp"
        temporary.write_text(json.dumps({"id": id_, "partitions": partitions}))
        os.replace(temporary, folder / "stream.json")

    def _files(self, stream: str) -> list[Path]:
        return [self._root / stream / f"{number}.jsonl" for number in range(self.partitions(stream))]

    def _entries(self, stream: str, number: int) -> list[Entry]:
        count = self.partitions(stream)
        if not 0 <= number < count:
            raise NotFoundError(f"{stream} has no partition {number}", f"its partitions are 0 to {count - 1}")
        return partition.entries(self._root / stream / f"{number}.jsonl")


@dataclass
class _Appender:
    """Adds records from outside of any job: each appender is a lane of a job that no job is called."""

    files: Sequence[Path]
    lane: str = field(default_factory=lambda: f"put-{uuid.uuid4().hex}")
    batch: int = 0

    def append(self, batch: pa.RecordBatch) -> int:
        count = len(self.files)
        where = partitions_for(batch.column("key"), count)
        where[where < 0] = self.batch % count
        for number in np.unique(where).tolist():
            records = partition.packed(batch.filter(pa.array(where == number)))
            partition.append(self.files[number], partial(self._entry, records))
        self.batch += 1
        return int(batch.num_rows)

    def _entry(self, records: list[dict[str, Any]], known: list[Entry]) -> Entry:
        return Entry("put", self.lane, 1, self.batch, known[-1].end if known else 0, records)

    def close(self) -> None:
        """Nothing is held."""
