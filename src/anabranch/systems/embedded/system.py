"""The embedded log as a system, for the planner, lanes and the command line."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Self

import numpy as np
import pyarrow as pa

from anabranch.config import Settings
from anabranch.errors import AnabranchError, NotFoundError
from anabranch.model.lane import Lane
from anabranch.systems.contract import Folder, Range, Records, System
from anabranch.systems.embedded import verify, writer
from anabranch.systems.embedded.append import Appender
from anabranch.systems.embedded.archive import EmbeddedArchive
from anabranch.systems.embedded.log import Log
from anabranch.systems.embedded.log_readers import LogReaders
from anabranch.systems.embedded.manifest import Tail
from anabranch.systems.embedded.output import EmbeddedPublisher, published
from anabranch.systems.embedded.segments import read_slice
from anabranch.systems.findings import StreamFault
from anabranch.systems.folders import can_be_written
from anabranch.systems.retention import Retention

__all__ = ["EmbeddedSystem"]


class EmbeddedSystem(System):
    """The streams under ``root``."""

    name = "embedded"
    remote = False
    retains = True
    stream_settings = ("on_data_loss",)
    spark = "anabranch.systems.embedded.spark"

    def __init__(self, root: Path | str) -> None:
        self.log = Log(root)
        self._tails: dict[str, dict[int, Tail]] = {}

    def __reduce__(self) -> tuple[Any, ...]:
        return EmbeddedSystem, (self.log.root,)

    @classmethod
    def opened(cls, name: str, settings: Settings, job: str) -> Self:
        return cls(settings.systems.embedded.root)

    def __str__(self) -> str:
        return str(self.log.root)

    def dataset(self, stream: str) -> tuple[str, str]:
        return "file", str(self.log.root.absolute() / stream)

    def streams(self) -> list[str]:
        return self.log.streams()

    def counts(self) -> dict[str, int]:
        return {stream: count for stream, count in self._counted() if count is not None}

    def undescribed(self) -> Sequence[str]:
        return [stream for stream, count in self._counted() if count is None]

    def _counted(self) -> Iterator[tuple[str, int | None]]:
        """All streams with their partition counts; None instead of the count if ``stream.json`` can't be read."""
        for stream in self.streams():
            try:
                count = self.partitions(stream)
            except NotFoundError:
                continue  # deleted since it was listed
            except (AnabranchError, OSError):
                yield stream, None
            else:
                yield stream, count

    def partitions(self, stream: str) -> int:
        return self.log.describe(stream).partitions

    def id(self, stream: str) -> str:
        return self.log.describe(stream).id

    def create(self, stream: str, partitions: int, internal: bool = False) -> None:
        self.log.create(stream, partitions)

    def expand(self, stream: str, partitions: int) -> None:
        self.log.expand(stream, partitions)

    def starts(self, stream: str) -> dict[int, int]:
        return {number: begins.offset for number, begins in self.log.starts(stream).items()}

    def ends(self, stream: str, partitions: Iterable[int] | None = None) -> dict[int, int]:
        return {number: tail.end for number, tail in self.log.ends(stream, partitions).items()}

    def high_watermarks(self, stream: str) -> dict[int, int]:
        return self.ends(stream)

    def offset_at(self, stream: str, unix_us: int) -> dict[int, int]:
        """See :meth:`System.offset_at`. Records are read from the beginning, because the log has no index of times."""
        starts = self.starts(stream)
        ends = self.ends(stream, starts)
        return {number: self._first_at(stream, number, (starts[number], end), unix_us) for number, end in ends.items()}

    def _first_at(self, stream: str, partition: int, between: Range, unix_us: int) -> int:
        for offsets, batch in self.read(stream, partition, [between]):
            late = batch.column("timestamp").cast(pa.int64()).to_numpy() >= unix_us
            if late.any():
                return int(offsets[late.argmax()])
        return between[1]

    def tails(self, stream: str) -> Mapping[int, Tail]:
        """The tails of a stream's partitions. The lookup starts from the last known tails."""
        found = self.log.ends(stream, known=self._tails.get(stream))
        self._tails[stream] = found
        return found

    def read(self, stream: str, partition: int, ranges: Sequence[Range]) -> Iterator[Records]:
        for start, end in ranges:
            for piece in self.log.slices(stream, partition, start, end):
                offset = piece.offset
                for batch in read_slice(piece):
                    yield np.arange(offset, offset + batch.num_rows), batch
                    offset += batch.num_rows

    def purge(self, stream: str, before: Mapping[int, int]) -> None:
        self.log.purge(stream, before)

    def retain(self, stream: str, retention: Retention | None, *, past_readers: bool = False) -> int:
        if retention is not None:
            self.log.retain(stream, retention)
        return self.log.expire(stream, past_readers=past_readers)

    def readers(self) -> LogReaders:
        return LogReaders(self.log)

    def retention(self, stream: str) -> Retention:
        return self.log.describe(stream).retention

    def appender(self, stream: str) -> Appender:
        return Appender(self.log, stream)

    def controls(self, stream: str, partition: int, cursor: int, position: int) -> tuple[list[dict[str, Any]], int]:
        return self.log.controls(stream, partition, cursor, position)

    def publisher(self, lane: Lane, epoch: int) -> EmbeddedPublisher:
        return EmbeddedPublisher(self.log, self.tails, lane, epoch)

    def fence(self, lane: Lane, epoch: int, new: bool | None) -> None:
        for stream in self._outputs(lane):
            writer.fence(self.log, stream, lane.job, lane.id, epoch)

    def published(self, lane: Lane) -> int:
        return published(self.log, lane.id, self._outputs(lane))

    def writers(self, job: str, streams: Sequence[str]) -> dict[str, str]:
        """See :meth:`System.writers`. A lane is recorded by its marker in the tails of a stream; see
        :func:`writer.foreign_writers`."""
        known = self.streams()
        there = [stream for stream in streams if stream in known]
        found = [(lane, stream) for stream in there for lane in writer.foreign_writers(self.log, stream, job)]
        return {lane: f"stream {stream!r}" for lane, stream in sorted(found)}

    def _outputs(self, lane: Lane) -> list[str]:
        return [stream for stream in sorted(lane.outputs) if lane.system(stream) == self.name]

    def known_ends(self, stream: str) -> dict[int, int]:
        return {number: tail.end for number, tail in self.tails(stream).items()}

    def faults(self, stream: str) -> Sequence[StreamFault]:
        return verify.faults(self.log, stream)

    def archive(self) -> EmbeddedArchive:
        return EmbeddedArchive(self.log)

    def folders(self) -> Sequence[Folder]:
        cure = (
            "put streams on Kafka ([systems] default), or let all machines share the folder of [systems.embedded] root"
        )
        return (Folder("embedded root", self.log.root, cure),)

    def checks(self) -> Mapping[str, Callable[[], str]]:
        return {"embedded root": self._check}

    def _check(self) -> str:
        can_be_written(self.log.root, "embedded root")
        return f"{self.log.root}, {len(self.streams())} stream(s)"
