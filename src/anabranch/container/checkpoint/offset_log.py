"""Entries of Spark's offset log as plain data. By editing them, anabranch plans batches, and adapts copied folders
to their lanes."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from anabranch.api.timers import INFINITY
from anabranch.errors import DamagedError, UnsupportedFormatError
from anabranch.event_time import progress
from anabranch.event_time.progress import Progress

_VERSION = "v1"
_ANY_VERSION = re.compile(r"v\d+")
_NONE = "-"
_RESTORE = "restore that file, or the folder of the lane, from a backup; see `anabranch check JOB`"

Positions = Mapping[int, int]


@dataclass(frozen=True)
class Entry:
    """The content of a file ``offsets/N``: the plan of batch N.

    An offset of a stream is an object with the stream's name in ``stream``, and the positions by partition in
    ``positions``. An offset of Spark's Kafka source, however, has the form ``{topic: {partition: position}}``. The
    offset of the event-time source has neither a stream nor positions.

    Attributes:
        metadata: Spark's own data about the batch, such as its watermark and its processing time.
        sources: the offset of each source, in the order of the query's plan; None if the source hasn't been read yet.
        streams_by_topic: the names in the job of those streams whose topics have other names. They apply only to
            offsets of Spark's Kafka source, because a stream in another system can have the same name as a topic.
    """

    metadata: dict[str, Any]
    sources: tuple[dict[str, Any] | None, ...]
    streams_by_topic: Mapping[str, str] = field(default_factory=dict, compare=False)

    def positions(self, source: int) -> dict[int, int]:
        """The positions of a source, by partition; {} if it hasn't been read yet."""
        offset = self.sources[source]
        if offset is None:
            return {}
        held = offset["positions"] if _has_stream(offset) else next(iter(offset.values()))
        return {int(p): int(o) for p, o in held.items()}

    def streams(self) -> dict[str, int]:
        """For each stream that has been read, by its name in the job, the index of its source in the query."""
        names = ((n, self._stream(each)) for n, each in enumerate(self.sources) if each is not None)
        return {name: number for number, name in names if name is not None}

    def _stream(self, offset: Mapping[str, Any]) -> str | None:
        """The name in the job of an offset's stream; None for the offset of the event-time source."""
        if _has_stream(offset):
            return str(offset["stream"])
        topic = None if "source" in offset and not isinstance(offset["source"], dict) else next(iter(offset), None)
        return None if topic is None else self.streams_by_topic.get(topic, topic)

    def progress(self) -> Progress | None:
        """The event time with which the batch was planned; None if the entry has none."""
        found = (each for each in self.sources if each is not None and _is_progress(each))
        return next((progress.from_builtins(each) for each in found), None)

    @property
    def watermark(self) -> int:
        """Spark's watermark for the batch, in Unix ms (0: none)."""
        return int(self.metadata.get("batchWatermarkMs", 0))

    @property
    def at(self) -> int:
        """When the batch was first planned, in Unix ms."""
        return int(self.metadata.get("batchTimestampMs", 0))

    def planned_in_time(self) -> Entry:
        """The same batch, as if it had been planned at the time of its watermark."""
        return replace(self, metadata={**self.metadata, "batchTimestampMs": self.watermark})

    @property
    def drains(self) -> bool:
        """Whether the batch sets the watermark to infinity."""
        return self.watermark >= INFINITY

    def with_positions(self, source: int, positions: Positions) -> Entry:
        """The same entry with new positions for one source. Raises ValueError if the source hasn't been read yet."""
        offset = self.sources[source]
        if offset is None:
            raise ValueError(f"source {source} has no offset to change")
        told = {str(p): o for p, o in sorted(positions.items())}
        changed = {**offset, "positions": told} if _has_stream(offset) else {next(iter(offset)): told}
        return replace(self, sources=(*self.sources[:source], changed, *self.sources[source + 1 :]))

    def id(self, source: int) -> str | None:
        """The id of a source's stream; None if the source hasn't been read yet, or its offsets have no id."""
        offset = self.sources[source]
        return None if offset is None or not _has_stream(offset) else offset.get("id")

    def with_id(self, source: int, id: str) -> Entry:
        """The same entry with a new id for one source's stream. (The offsets of Spark's Kafka source have no id.)"""
        offset = self.sources[source]
        if offset is None or not _has_stream(offset):
            return self
        return replace(self, sources=(*self.sources[:source], {**offset, "id": id}, *self.sources[source + 1 :]))

    def keeping(self, partitions: Mapping[str, Iterable[int]]) -> Entry:
        """The same entry with only these partitions of each stream."""
        entry = self
        for stream, number in self.streams().items():
            kept = set(partitions.get(stream, ()))
            held = entry.positions(number)
            entry = entry.with_positions(number, {p: o for p, o in held.items() if p in kept})
        return entry

    def with_source(self, number: int, offset: dict[str, Any] | None) -> Entry:
        """The same entry with one more source, at ``number``. ``offset`` is None if the source hasn't been read yet."""
        return replace(self, sources=(*self.sources[:number], offset, *self.sources[number:]))

    def with_watermark(self, unix_ms: int) -> Entry:
        """The same batch with another watermark."""
        return replace(self, metadata={**self.metadata, "batchWatermarkMs": unix_ms})

    def with_time(self, unix_ms: int) -> Entry:
        """The same batch at another processing time."""
        return replace(self, metadata={**self.metadata, "batchTimestampMs": unix_ms})

    def with_progress(self, now: Progress) -> Entry:
        """The same batch with another event time; unchanged if the entry has none."""
        told = now.to_builtins()
        return replace(self, sources=tuple(told if _is_progress(each) else each for each in self.sources))


def _is_progress(offset: Mapping[str, Any] | None) -> bool:
    return offset is not None and offset.get("source") == progress.SOURCE


def _has_stream(offset: Mapping[str, Any]) -> bool:
    """Whether an offset names its stream in the field ``stream``. (Offsets of Spark's Kafka source use topic names as
    field names. So if the value of the field ``stream`` isn't a string, ``stream`` is the name of a topic.)"""
    return isinstance(offset.get("stream"), str)


def parse(text: str, path: str = "", streams_by_topic: Mapping[str, str] | None = None) -> Entry:
    """Read an entry. Error messages name ``path``. For ``streams_by_topic``, see :class:`Entry`.

    Raises:
        UnsupportedFormatError: the text is an entry of another version.
        DamagedError: the text isn't a complete entry.
    """
    lines = text.split("\n")
    if _ANY_VERSION.fullmatch(lines[0]) and lines[0] != _VERSION:
        raise UnsupportedFormatError(
            f"{path} is not an offset log of version {_VERSION}: it begins with {lines[0]!r}",
            "it was written by another Spark; use that version. Nothing was changed",
        )
    if lines[0] != _VERSION or len(lines) < 2:
        problem = f"begins with {lines[0][:20]!r} instead of {_VERSION!r}" if text else "is empty"
        raise DamagedError(f"{path} is damaged: it {problem}", _RESTORE)
    try:
        sources = tuple(None if line == _NONE else json.loads(line) for line in lines[2:])
        return Entry(json.loads(lines[1]), sources, streams_by_topic or {})
    except ValueError as error:
        raise DamagedError(f"{path} is damaged: {error}", _RESTORE) from error


def format(entry: Entry) -> str:
    """The text that :func:`parse` reads."""
    sources = [_NONE if offset is None else json.dumps(offset) for offset in entry.sources]
    return "\n".join([_VERSION, json.dumps(entry.metadata), *sources])
