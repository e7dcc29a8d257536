"""Manifest entries as plain data: their content, the content of the next one, and their JSON. No I/O."""

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
"""How many closed lanes ``writers`` contains. For earlier ones, only the highest epoch is kept (``floors``)."""

NOTHING = -1
"""The batch of a lane that has published none."""


class WriterMark(msgspec.Struct, frozen=True, kw_only=True):
    """What a partition knows about a lane: its highest batch and epoch, whether it is closed, and how many records it
    has written there.
    """

    job: str
    batch: int
    epoch: int
    closed: bool = False
    rows: int = 0


class Segment(msgspec.Struct, frozen=True, kw_only=True):
    """A file of an entry; ``file`` is its name in the partition's ``segments`` folder."""

    file: str
    rows: int
    bytes: int
    slot: int


class Entry(msgspec.Struct, frozen=True, kw_only=True):
    """One step of a partition's history. Its rows have consecutive offsets from ``base`` on, segment after segment.

    ``writers`` is cumulative, the oldest update first: the last entry alone says what every lane has done here.
    ``floors`` has, for each job, the highest epoch of a closed lane that ``writers`` has dropped. ``control`` is an
    in-band control record (:mod:`anabranch.event_time.control`), which takes up no offset. ``at`` is in Unix
    milliseconds. ``total``: the bytes of all segments so far, including its own; None: an older anabranch wrote the
    entry.
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
        """The bytes of its own segments."""
        return sum(segment.bytes for segment in self.segments)


class Tail(msgspec.Struct, frozen=True, kw_only=True):
    """The end of a partition: its last entry's sequence, the next record's offset, and what each lane has done.

    ``stream`` is the stream's id, so that the tail of a deleted stream isn't mistaken for its successor's. ``skipped``:
    whether entries before it were deleted before a process that follows the partition had seen them.
    """

    stream: str
    sequence: int = -1
    end: int = 0
    writers: dict[str, WriterMark] = {}
    floors: dict[str, int] = {}
    total: int = 0
    skipped: bool = False

    def after(self, entry: Entry) -> Tail:
        """The tail once ``entry`` is the last one."""
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
    """The next entry, in which ``lane`` adds ``segments`` and then has the mark ``mark``."""
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
    """The entry that records in a new partition which lanes the stream's other partitions have fenced or closed.

    Nothing was published to the new partition, so no lane has a batch there.
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
    """Drop the closed lanes that were updated longest ago. For each job, keep only the highest epoch among them."""
    closed = [lane for lane, mark in writers.items() if mark.closed]
    forgotten = set(closed[: max(len(closed) - CLOSED_KEPT, 0)])
    lowest = dict(floors)
    for lane in forgotten:
        mark = writers[lane]
        lowest[mark.job] = max(mark.epoch, lowest.get(mark.job, 0))
    return {lane: mark for lane, mark in writers.items() if lane not in forgotten}, lowest
