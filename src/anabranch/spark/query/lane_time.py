"""Determines a lane's event time after each batch, and passes it on to Spark and to the lanes downstream."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from anabranch.clocks import boottime
from anabranch.event_time import progress
from anabranch.event_time.control import Control
from anabranch.event_time.progress import Progress
from anabranch.event_time.windows import Window
from anabranch.model.lane import Lane
from anabranch.spark.query import clock
from anabranch.spark.query.clock import Clock
from anabranch.spark.query.planned_batch import Batch
from anabranch.spark.query.source import Measured, Source

__all__ = ["LaneTime"]


@dataclass(frozen=True)
class LaneTime:
    """The event time of one lane.

    Attributes:
        path: the lane's clock file; None if anabranch computes no watermark for the lane.
        delays: the delay in ms of each SSP that determines the watermark; None for SSPs of intermediate streams.
        window: the windows of processing time, if the lane has any. Such a lane has no delays.
        inherited: returns the event time that the lane takes over from its predecessors or, after a drain, from drained
            lanes. None if the lane has no predecessors, and its deployment didn't begin after a drain.
    """

    lane: Lane
    sources: Sequence[Source]
    path: Path | None
    delays: Mapping[str, int | None]
    window: Window | None = None
    inherited: Callable[[], Progress] | None = None

    def begin(self, last: Batch | None, pending: bool) -> None:
        """Prepare the lane's clock file before the query starts. Does nothing if the lane has no clock file.

        Any old file is deleted. A new file is written in these cases:

        - The last planned batch is committed: the file contains the event time after this batch. To determine this
          time, the lane rereads those records of the batch whose event times determine the watermark.
        - No batch has been planned yet, and :attr:`inherited` isn't None: the file contains the event time that
          :attr:`inherited` returns.

        If the last planned batch is pending, no file is written, because the batch runs again anyway.

        Args:
            last: the last planned batch; None if no batch has been planned yet.
            pending: whether ``last`` still has to be committed.
        """
        if self.path is None:
            return
        self.path.unlink(missing_ok=True)
        if last is None and self.inherited is not None:
            begun = progress.after(self.inherited(), self.delays, {}, {})
            positions = {str(ssp): at for source in self.sources for ssp, at in source.begun()}
            Clock(begun, self.delays, positions).write(self.path)
        if last is None or pending:
            return
        again = {
            source.name: source.measured_again(last.ranges(source.stream, source.starts), last.at)
            for source in self.sources
            if source.timed and source.intake is not None
        }
        self.tick(last, again)

    def tick(self, batch: Batch, measured: Mapping[str, Measured]) -> None:
        """Advance the lane's time after a batch. ``measured`` has the observations of each source, by
        :attr:`Source.name`.
        """
        maxima: dict[str, int] = {}
        for source in self.sources:
            for ssp, at in source.maxima(measured.get(source.name, {})).items():
                maxima[ssp] = max(at, maxima.get(ssp, at))
        now = progress.after(batch.progress, self.delays, maxima, {})
        positions = {str(ssp): batch.ends[ssp.stream][ssp.partition] for source in self.sources for ssp in source.ssps}
        assert self.path is not None
        newest = self._newest(batch) if self.window is not None else 0
        Clock(now, self.delays, positions, self.window, newest, batch.at, boottime()).write(self.path)

    def control(self, batch: Batch) -> Control:
        """The control record that the lane writes with a batch, for the lanes that read its output."""
        return Control(
            lane=self.lane.id,
            watermark=batch.progress.watermark,
            predecessors=self.lane.speaks_for,
            beside=self.lane.beside,
            idle=progress.all_idle(batch.progress, self.delays) and not self.reads(batch),
            open=not batch.drains,
        )

    def reads(self, batch: Batch) -> bool:
        """Whether a batch reads any records."""
        ranges = [each for s in self.sources for each in batch.ranges(s.stream, s.starts).values()]
        return any(end > first for first, end in ranges)

    def _newest(self, batch: Batch) -> int:
        """When the last batch that read any records was planned, in Unix ms. If no earlier batch is known, as after a
        restart, this is the time of ``batch``, even if ``batch`` reads no records.
        """
        assert self.path is not None
        before = clock.read(self.path)
        return batch.at if before is None or self.reads(batch) else before.newest
