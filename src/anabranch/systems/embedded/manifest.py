"""Manifest entries as plain data: their fields, how the next entry follows from a tail, and their JSON. No I/O."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import msgspec

from anabranch.systems.embedded import layout

__all__ = [
    "CLOSED_KEPT",
    "NOTHING",
    "Entry",
    "Segment",
    "Tail",
    "WriterMark",
    "decode",
    "encode",
    "merge",
    "successor",
]

Kind = Literal["create", "data", "fence", "close"]

CLOSED_KEPT = 64
"""How many markers of closed lanes ``writers`` keeps. These are the most recently updated ones. For all other closed
lanes of a job, ``floors`` keeps only the highest epoch."""

NOTHING = -1
"""The batch number of a lane that has published no batch."""


class WriterMark(msgspec.Struct, frozen=True, kw_only=True):
    """A partition's marker of a lane: the lane's highest batch and epoch, whether the lane is closed, and how many
    records the lane has written to the partition.
    """

    job: str
    batch: int
    epoch: int
    closed: bool = False
    rows: int = 0


class Segment(msgspec.Struct, frozen=True, kw_only=True):
    """A file with records of an entry. ``file`` is the file's name in the partition's ``segments`` folder."""

    file: str
    rows: int
    bytes: int
    slot: int


class Entry(msgspec.Struct, frozen=True, kw_only=True):
    """One step of a partition's history. The entry's rows have consecutive offsets from ``base``, in the order of
    ``segments``.

    Attributes:
        sequence: the entry's number in the partition, counted from 0.
        kind: ``create`` if the entry prepares a new partition, ``data`` if it contains a batch of a lane, ``fence`` if
            a lane was fenced, or ``close`` if a lane was closed.
        base: the offset of the entry's first row. If the entry has no rows, the offset of the next row.
        lane: the lane that has caused the entry; empty for ``create``. ``job``, ``batch`` and ``epoch`` have the values
            of the lane's new marker.
        at: when the entry was written, in Unix milliseconds.
        control: a control record (:mod:`anabranch.event_time.control`), which takes up no offset.
        writers: the markers of all open lanes, and of the last :data:`CLOSED_KEPT` closed lanes. So a partition's last
            entry shows the last batch that each of these lanes has published in the partition. The least recently
            updated marker comes first.
        floors: for each job, the highest epoch of the closed lanes that ``writers`` has dropped.
        total: the number of bytes in the segments of this entry and of all earlier entries, including deleted entries.
            None if this entry was written by an older anabranch, which didn't store totals. The next entry then counts
            its total from 0 again.
    """

    version: int = layout.FORMAT_VERSION
    sequence: int
    kind: Kind
    base: int
    rows: int
    segments: tuple[Segment, ...] = ()
    lane: str = ""
    job: str = ""
    batch: int = NOTHING
    epoch: int = 0
    at: int
    control: dict[str, Any] | None = None
    writers: dict[str, WriterMark] = {}
    floors: dict[str, int] = {}
    total: int | None = None

    @property
    def bytes(self) -> int:
        """The bytes of this entry's own segments."""
        return sum(segment.bytes for segment in self.segments)


class Tail(msgspec.Struct, frozen=True, kw_only=True):
    """The end of a partition, as of its last entry.

    Attributes:
        stream: the stream's id, which no later stream of the same name has.
        sequence: the number of the last entry; -1 if the partition has no entries.
        end: the offset of the next record.
        writers, floors: as in the last :class:`Entry`.
        total: as in the last entry; 0 if that entry has no total.
        skipped: whether entries were deleted before this process could read them.
    """

    stream: str
    sequence: int = -1
    end: int = 0
    writers: dict[str, WriterMark] = {}
    floors: dict[str, int] = {}
    total: int = 0
    skipped: bool = False

    def after(self, entry: Entry) -> Tail:
        """The tail once ``entry`` is the last entry."""
        return Tail(
            stream=self.stream,
            sequence=entry.sequence,
            end=entry.base + entry.rows,
            writers=entry.writers,
            floors=entry.floors,
            total=entry.total or 0,
        )


_ENCODER = msgspec.json.Encoder()
_DECODER = msgspec.json.Decoder(Entry)


def encode(entry: Entry) -> bytes:
    return _ENCODER.encode(entry) + b"\n"


def decode(raw: bytes, path: str) -> Entry:
    """Parse an entry. Raises LogError or UnsupportedFormatError, which name ``path``."""
    return layout.decode(raw, _DECODER, path)


def successor(
    tail: Tail,
    kind: Kind,
    *,
    at: int,
    lane: str,
    mark: WriterMark,
    segments: Sequence[Segment] = (),
    control: dict[str, Any] | None = None,
) -> Entry:
    """The next entry of a partition. It contains ``segments``, and ``mark`` as the marker of ``lane``. ``at`` is the
    time of the entry, in Unix milliseconds.
    """
    writers, floors = _pruned({**{k: v for k, v in tail.writers.items() if k != lane}, lane: mark}, tail.floors)
    return Entry(
        sequence=tail.sequence + 1,
        kind=kind,
        base=tail.end,
        rows=sum(segment.rows for segment in segments),
        segments=tuple(segments),
        lane=lane,
        job=mark.job,
        batch=mark.batch,
        epoch=mark.epoch,
        at=at,
        control=control,
        writers=writers,
        floors=floors,
        total=tail.total + sum(segment.bytes for segment in segments),
    )


def merge(into: Tail, tails: Sequence[Tail], *, at: int) -> Entry:
    """The next entry for a new partition. If a lane is fenced or closed in any of the stream's other partitions, this
    entry also fences or closes the lane in the new partition.

    For each lane, the entry has the highest epoch that the lane has in any of the partitions. The lane's batch and rows
    come from the lane's marker in the new partition. If there is no such marker, the lane has no batch there.

    Args:
        into: the new partition's tail.
        tails: the tails of the other partitions.
        at: the time of the entry, in Unix milliseconds.
    """
    writers = dict(into.writers)
    floors = dict(into.floors)
    for tail in tails:
        for lane, mark in tail.writers.items():
            seen = writers.get(lane)
            writers[lane] = WriterMark(
                job=mark.job,
                batch=seen.batch if seen else NOTHING,
                epoch=max(mark.epoch, seen.epoch) if seen else mark.epoch,
                closed=mark.closed or (seen is not None and seen.closed),
                rows=seen.rows if seen else 0,
            )
        for job, epoch in tail.floors.items():
            floors[job] = max(epoch, floors.get(job, 0))
    writers, floors = _pruned(writers, floors)
    return Entry(
        sequence=into.sequence + 1,
        kind="create",
        base=into.end,
        rows=0,
        at=at,
        writers=writers,
        floors=floors,
        total=into.total,
    )


def _pruned(
    writers: Mapping[str, WriterMark], floors: Mapping[str, int]
) -> tuple[dict[str, WriterMark], dict[str, int]]:
    """``writers`` and ``floors`` after older markers of closed lanes are dropped from ``writers``. The
    :data:`CLOSED_KEPT` most recently updated ones stay. ``floors`` is raised to the epochs of the dropped markers."""
    closed = [lane for lane, mark in writers.items() if mark.closed]
    forgotten = set(closed[: max(len(closed) - CLOSED_KEPT, 0)])
    lowest = dict(floors)
    for lane in forgotten:
        mark = writers[lane]
        lowest[mark.job] = max(mark.epoch, lowest.get(mark.job, 0))
    return {lane: mark for lane, mark in writers.items() if lane not in forgotten}, lowest
