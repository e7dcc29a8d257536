"""Checks that a lane's output streams exist, and that no output was set back. Stores where the outputs end, for the
next check.

Without these checks, a query would try for minutes to write to a stream that is gone. And if an
output was set back, records would stay missing from it without anyone noticing, because the lane doesn't write
committed batches again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from time import monotonic
from typing import Any

from anabranch import logs
from anabranch.config.headings import heading
from anabranch.container import surroundings
from anabranch.container.checkpoint.folder import Folder
from anabranch.container.error_text import failure
from anabranch.errors import AnabranchError, NotFoundError, StateError
from anabranch.model.lane import Lane
from anabranch.spark import root_cause
from anabranch.systems.contract import System
from anabranch.systems.systems import Systems
from anabranch.tables import committed, marks
from anabranch.throttle import Throttled

__all__ = ["Outputs", "gone_error"]

log = logs.get_logger()

_FAR_EVERY = 5.0
"""The seconds between two lookups of the ends of streams that are reached over a network."""


class Outputs:
    """The streams and tables that a lane writes. ``clock`` returns seconds."""

    def __init__(self, systems: Systems, lane: Lane, clock: Callable[[], float] = monotonic) -> None:
        self._systems = systems
        self._lane = lane
        self._clock = clock
        self._gone = ""
        self._set_back: set[str] = set()
        self._say = Throttled(self._cannot_store)  # not LastTold: an error of S3 has an id of its own each time
        self._noted: dict[str, Any] = {"streams": {}, "tables": {}}
        self._asked = float("-inf")

    def check(self) -> None:
        """Raise StateError if an output stream is gone, and was already gone at the previous check. If a system doesn't
        answer, nothing is checked."""
        lane = self._lane
        streams = self._streams
        try:
            absent = self._systems.absent((lane.system(stream), stream) for stream in streams)
        except AnabranchError as error:
            log.debug("the output streams aren't known", lane=lane.id, error=str(error))
            return
        gone = absent[0][1] if absent else ""
        if gone and gone == self._gone:
            raise gone_error(gone, lane.job, self._of(gone))
        self._gone = gone

    def note(self, folder: Folder, batch: int, *, last: bool = False) -> None:
        """Store in the lane's folder where the lane's outputs end. Streams that are reached over a network are looked
        up only every few seconds; until then, their last known ends are kept. If a stream was set back, and its
        ``on_data_loss`` is "fail", its former ends are kept, too. Tables aren't looked up: this process knows which
        batches it has committed to them, and a table that was set back refuses further batches. If a system doesn't
        answer, the former ends of the streams stay stored. If the file can't be written (and the disk isn't full),
        this is only logged, because the lane doesn't depend on the file.

        Args:
            batch: the lane's last committed batch. Later batches, which the lane may have to repeat, aren't noted.
            last: whether the lane is ending. If so, all streams are looked up.

        Raises:
            Exception: the disk is full.
        """
        far = last or self._clock() >= self._asked + _FAR_EVERY
        streams = [stream for stream in self._streams if far or not self._of(stream).remote]
        ends: dict[str, dict[str, int]] = {}
        try:
            ends = {stream: self._kept(stream, self._known_ends(stream)) for stream in streams}
        except AnabranchError as error:
            log.debug("where the output streams end isn't known", lane=self._lane.id, error=str(error))
        else:
            if far:
                self._asked = self._clock()
        noted = {
            "streams": {**self._noted["streams"], **ends},
            "tables": {**self._noted["tables"], **self._known_batches(batch)},
        }
        if noted == self._noted:
            return
        try:
            folder.note_outputs(noted)
        except Exception as error:  # storage other than a local disk raises its own errors
            if surroundings.awaited(root_cause.text_of(error)) is surroundings.DISK:
                raise
            self._say(failure(error).what)
            return
        self._noted = noted

    def _cannot_store(self, why: str) -> None:
        log.warning("where the outputs end can't be stored", lane=self._lane.id, error=why)

    def compare(self, folder: Folder) -> None:
        """Before the lane continues, check that none of its outputs ends before the end that is stored in the lane's
        folder. Also make this process forget which batches after the folder's last planned batch are in tables.

        Raises:
            StateError: an output stream is gone, or a stream or table was set back. (If ``on_data_loss`` of a stream
                isn't "fail", missing records only cause a warning.)
        """
        noted = folder.outputs()
        for stream, partitions in noted.get("streams", {}).items():
            if stream in self._lane.outputs and not self._systems.is_table(stream):
                self._compare_stream(stream, {int(number): end for number, end in partitions.items()})
        for output in self._tables:
            committed.forget(self._lane.job, self._lane.id, output, after=folder.planned())
        first = self._lane.first_batch  # earlier ones are a predecessor's, from whose folder this one was copied
        tables = {output: batch for output, batch in noted.get("tables", {}).items() if batch >= first}
        last_batches = self._last_batches() if tables else {}
        for output, batch in tables.items():
            if (now := last_batches.get(output, batch)) < batch:
                raise marks.set_back(f"the table {output!r}", self._lane.job, self._lane.id, now, batch)
            committed.note(self._lane.job, self._lane.id, output, batch)
        self._noted = {"streams": noted.get("streams", {}), "tables": tables}

    def _kept(self, stream: str, ends: Mapping[str, int]) -> dict[str, int]:
        """The ends to store for a stream, given its present ``ends``. If the stream was set back, and its
        ``on_data_loss`` is "fail", its former ends stay stored, so that :meth:`compare` notices the loss at the next
        start."""
        if self._systems.on_data_loss(stream) != "fail":
            return dict(ends)
        before = self._noted["streams"].get(stream, {})
        where = f"{self._lane.system(stream)}/{stream}"
        return {
            number: self._higher(f"{where}/{number}", before.get(number, 0), ends.get(number, 0))
            for number in sorted({*before, *ends}, key=int)
        }

    def _higher(self, output: str, before: int, now: int) -> int:
        """The higher of two ends of an output: the former end ``before`` and the present end ``now``. If the former end
        is higher, this is logged once as a warning."""
        if now >= before:
            self._set_back.discard(output)
            return now
        if output not in self._set_back:
            self._set_back.add(output)
            log.warning("an output was set back while its lane runs", output=output, end=now, before=before)
        return before

    def _compare_stream(self, stream: str, noted: dict[int, int]) -> None:
        try:
            ends = self._ends(stream)
        except NotFoundError:
            raise gone_error(stream, self._lane.job, self._of(stream)) from None
        for number, before in noted.items():
            now = ends.get(str(number), 0)
            if now >= before:
                continue
            where = f"{self._lane.system(stream)}/{stream}/{number}"
            if self._systems.on_data_loss(stream) != "fail":
                log.warning("an output has lost records, and the lane continues", ssp=where, end=now, before=before)
                continue
            raise StateError(
                f"the output {where} ends at offset {now}, but it used to end at {before}: it was restored from an "
                f"older copy, or deleted and created again. Lane {self._lane.id} won't write offsets {now} to "
                f"{before - 1} again",
                f"restore the newest copy of stream {stream!r}; nothing was changed\n  {self._way_on(stream)}",
            )

    def _way_on(self, stream: str) -> str:
        if "on_data_loss" in self._of(stream).stream_settings:
            name = self._systems.bound_as(stream)
            return (
                f"to continue without these records, which are then lost, set {heading('streams', name)} "
                'on_data_loss = "earliest"'
            )
        job = self._lane.job
        return f"without it those records are lost: after `anabranch reset {job}` the job writes its outputs once more"

    @property
    def _streams(self) -> list[str]:
        return sorted(stream for stream in self._lane.outputs if not self._systems.is_table(stream))

    @property
    def _tables(self) -> list[str]:
        return sorted(output for output in self._lane.outputs if self._systems.is_table(output))

    def _known_ends(self, stream: str) -> dict[str, int]:
        return _by_text(self._of(stream).known_ends(stream))

    def _ends(self, stream: str) -> dict[str, int]:
        return _by_text(self._of(stream).high_watermarks(stream))

    def _of(self, stream: str) -> System:
        return self._systems.named(self._lane.system(stream))

    def _known_batches(self, batch: int) -> dict[str, int]:
        """For each table, the last batch that the table is known to contain, not counting batches after ``batch``.
        Tables without a known batch are left out."""
        lane = self._lane
        known = {output: committed.before(lane.job, lane.id, output, batch + 1) for output in self._tables}
        return {output: last for output, last in known.items() if last > marks.NOTHING}

    def _last_batches(self) -> dict[str, int]:
        tables = self._systems.tables(self._lane)
        return {output: table.last(self._lane.job, self._lane.id) for output, table in tables.items()}


def gone_error(stream: str, job: str, system: System) -> StateError:
    """The error for an output stream that no longer exists."""
    return StateError(
        f"the output stream {stream!r} of job {job!r} is gone from {system}",
        f"restore it; or, to start as a new job: anabranch reset {job}",
    )


def _by_text(ends: Mapping[int, int]) -> dict[str, int]:
    return {str(number): end for number, end in sorted(ends.items())}
