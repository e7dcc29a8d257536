"""Publishes a lane's batches exactly once, and closes, fences and lists lanes. A fence permanently stops the lane's
writers whose epochs are lower than the fence's."""

from __future__ import annotations

import os
from collections.abc import Callable, Container, Iterable, Sequence
from typing import Any

from anabranch.errors import ConflictError, FencedError, LogError
from anabranch.systems.embedded import layout, manifest, partition
from anabranch.systems.embedded.log import Log
from anabranch.systems.embedded.manifest import NOTHING, Entry, Segment, Tail, WriterMark
from anabranch.systems.embedded.segments import SegmentRef

__all__ = ["LaneWriter", "fence", "foreign_writers"]


class LaneWriter:
    """Publishes for an *incarnation* of a lane: the process that has the lane under ``epoch``. Not thread-safe.

    After FencedError, stop. After any other error, publish the same batch again. Even so, the batch takes effect only
    once.
    """

    def __init__(self, log: Log, job: str, lane: str, epoch: int) -> None:
        self._log = log
        self._job = job
        self._lane = lane
        self._epoch = epoch
        self._tails: dict[tuple[str, int], Tail] = {}
        self._marked: set[tuple[str, int]] = set()

    def publish(
        self,
        stream: str,
        partition: int,
        batch: int,
        segments: Sequence[SegmentRef],
        control: dict[str, Any] | None = None,
    ) -> bool:
        """Publish this lane's part of a batch in a partition, by adding an entry with the batch's segments.

        Returns whether an entry was added. No entry is added if there are neither rows nor a control record. No entry
        is added, either, if the lane has already published this batch or a later batch in the partition.

        Args:
            segments: the batch's segments for the partition. In the entry, their rows are ordered by slot.
            control: a control record, which is published even without rows.

        Raises:
            FencedError: a newer process has the lane, or the lane is closed. Stop and write nothing more.
            LogError: a segment isn't as its writer left it, or the stream was deleted and created again.
        """
        named = [ref for ref in sorted(segments, key=lambda ref: ref.slot) if ref.rows]
        if not named and control is None:
            return False
        for ref in named:
            self._check_segment(stream, partition, ref)
        files = [Segment(file=ref.file, rows=ref.rows, bytes=ref.bytes, slot=ref.slot) for ref in named]

        def decide(tail: Tail) -> Entry | None:
            known = self._checked(stream, partition, tail)
            if known is not None and known.batch >= batch:
                return None
            written = (0 if known is None else known.rows) + sum(ref.rows for ref in named)
            mark = WriterMark(job=self._job, batch=batch, epoch=self._epoch, rows=written)
            return manifest.successor(
                tail, "data", at=self._log.now(), lane=self._lane, mark=mark, segments=files, control=control
            )

        return self._extend(stream, partition, decide)

    def known_batch(self, stream: str, partition: int) -> int:
        """The highest batch that this lane, in any incarnation, has published to a partition; -1 if none."""
        seen = self._seen(stream, partition)
        tail = self._log.ends(stream, [partition], {partition: seen})[partition]
        mark = tail.writers.get(self._lane)
        return NOTHING if mark is None else mark.batch

    def close(self, streams: Iterable[str], skipped: Container[int] = ()) -> None:
        """Mark the lane as closed in every partition of ``streams``, except in the partitions ``skipped``. From then
        on, no process can write to the closed partitions for the lane. Idempotent.

        Raises:
            FencedError: a newer process has the lane.
        """

        def decide(tail: Tail) -> Entry | None:
            known = tail.writers.get(self._lane)
            if known is not None and known.closed and known.epoch <= self._epoch:
                return None
            known = self._checked(stream, number, tail)
            batch, rows = (NOTHING, 0) if known is None else (known.batch, known.rows)
            mark = WriterMark(job=self._job, batch=batch, epoch=self._epoch, closed=True, rows=rows)
            return manifest.successor(tail, "close", at=self._log.now(), lane=self._lane, mark=mark)

        for stream in streams:
            for number in range(self._log.describe(stream).partitions):
                if number not in skipped:
                    self._extend(stream, number, decide)

    def _extend(self, stream: str, number: int, decide: Callable[[Tail], Entry | None]) -> bool:
        tail, published = self._log.extend(stream, number, self._seen(stream, number), decide)
        self._tails[stream, number] = tail
        self._marked.add((stream, number))
        return published

    def _seen(self, stream: str, number: int) -> Tail:
        """The tail of a partition as this writer last saw it. The first call for a stream looks up the tails of all
        partitions of the stream. After that, the writer examines every newer entry before it writes. So it notices
        every fence, even if later entries no longer contain the fence's marker.

        Raises:
            FencedError: the lane has no marker in a partition, and a closed lane of the same job had a higher epoch in
                this partition. (The partition has dropped the closed lane's marker, but has kept the epoch.)
        """
        if (stream, number) not in self._tails:
            for each, tail in {**self._log.ends(stream), **self._log.ends(stream, [number])}.items():
                if self._lane not in tail.writers and tail.floors.get(self._job, 0) > self._epoch:
                    raise self._fenced(stream, each, "newer lanes of the job have been closed there since")
                self._tails.setdefault((stream, each), tail)
        return self._tails[stream, number]

    def _checked(self, stream: str, number: int, tail: Tail) -> WriterMark | None:
        """This lane's marker in a partition, if any. Raises FencedError if this incarnation must not write."""
        mark = tail.writers.get(self._lane)
        if mark is None:
            if (stream, number) in self._marked:
                raise self._fenced(stream, number, "it was closed there, long ago")
            if tail.skipped and tail.floors.get(self._job, 0) > self._epoch:
                raise self._fenced(stream, number, "newer lanes of the job have been closed there since")
            return None
        if mark.epoch > self._epoch:
            raise self._fenced(stream, number, f"epoch {mark.epoch} has taken over")
        if mark.closed:
            raise self._fenced(stream, number, "it is closed there")
        return mark

    def _fenced(self, stream: str, number: int, reason: str) -> FencedError:
        return FencedError(
            f"lane {self._lane} of {self._job}, epoch {self._epoch}, must not write to {stream}, "
            f"partition {number}: {reason}",
            "nothing was written; this process must stop, the lane continues elsewhere",
        )

    def _check_segment(self, stream: str, number: int, ref: SegmentRef) -> None:
        if ref.partition != number:
            raise ValueError(f"a segment of partition {ref.partition} was offered to partition {number}")
        path = f"{layout.segments_folder(str(self._log.root), stream, number)}/{ref.file}"
        size = os.stat(path).st_size if os.path.exists(path) else None
        if size != ref.bytes:
            fault = "is missing" if size is None else f"has {size} bytes instead of {ref.bytes}"
            raise LogError(
                f"{path}, just written, {fault}",
                "every container must see the same [systems.embedded] root, on a consistent file system",
            )


def fence(log: Log, stream: str, job: str, lane: str, epoch: int) -> None:
    """Make a stream refuse a lane's epochs lower than ``epoch``, even in partitions that an expansion is still
    creating. Once this function has returned, no process with a lower epoch can publish to the stream for the lane.
    Idempotent.

    Raises:
        ConflictError: a process with a higher epoch has the lane.
        LogError: a file is damaged or missing; or another process has held a partition's lock for a minute.
    """
    root, info = str(log.root), log.describe(stream)

    def decide(tail: Tail) -> Entry | None:
        known = tail.writers.get(lane)
        if known is not None and known.epoch > epoch:
            raise ConflictError(
                f"lane {lane} of {job} can't be fenced at epoch {epoch}: epoch {known.epoch} has it",
                f"a process newer than this fence has the lane: see `anabranch status {job}` (found in {stream})",
            )
        if known is not None and known.epoch == epoch:
            return None
        batch, closed, rows = (NOTHING, False, 0) if known is None else (known.batch, known.closed, known.rows)
        mark = WriterMark(job=job, batch=batch, epoch=epoch, closed=closed, rows=rows)
        return manifest.successor(tail, "fence", at=log.now(), lane=lane, mark=mark)

    done: set[int] = set()
    while left := [number for number in layout.partition_folders(root, stream) if number not in done]:
        for number in left:
            folder = layout.manifest_folder(root, stream, number)
            partition.extend(folder, partition.look(folder, info.id), decide)
            done.add(number)


def foreign_writers(log: Log, stream: str, job: str) -> set[str]:
    """The lanes of a job that have published a batch to a stream, according to the markers in the stream's tails. (A
    lane that was only fenced also has markers, but without a batch.) A partition's tail has the markers of all open
    lanes, but only of the last 64 closed lanes."""
    marks = (each for tail in log.ends(stream).values() for each in tail.writers.items())
    return {lane for lane, mark in marks if mark.job == job and mark.batch > NOTHING}
