"""Composes the report of a lane from the lane's state, its batches, and the progress of the running batch."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from time import monotonic
from typing import Any, Literal

from anabranch.container.lane import live_report
from anabranch.container.lane.lifecycle import LifeState
from anabranch.container.lane.live_report import Live
from anabranch.model.lane import Lane
from anabranch.protocol.lane_report import AttemptReport, LanePhase, LaneReport, ProgressReport
from anabranch.spark.query.query import LaneQuery
from anabranch.telemetry import batches

__all__ = ["Reporter"]

_STUCK_EVERY = 1.0
_URGENT = {"phase", "folder_epoch", "halted"}


class Reporter:
    """Composes the report of a lane. Any thread can read it; only the lane's own thread changes it.

    Args:
        wake: called when the report contains news that the container or the coordinator is waiting for.
    """

    def __init__(self, lane: Lane, wake: Callable[[], None], number: int = 1) -> None:
        has_folder = lane.folder_epoch and not lane.abandoned
        attempt = AttemptReport(number=number, folder_epoch=lane.folder_epoch if has_folder else 0)
        progress = ProgressReport(dead_letters=lane.put_aside)
        self.current = LaneReport(lane=lane.id, phase=LanePhase.STARTING, attempt=attempt, progress=progress)
        self._lane = lane
        self.wake = wake
        self._last: LaneReport | None = None
        self._live = Live(lane)
        self._stuck_at = 0.0
        self._stuck: dict[str, Any] = {}

    @property
    def usual(self) -> float:
        """The median duration of a batch in seconds."""
        return self._live.usual

    def update(self, **changes: Any) -> None:
        self.current = self.current.changed(**changes)
        if not _URGENT.isdisjoint(changes):
            self.wake()

    def conclude(self, phase: Literal[LanePhase.ENDED, LanePhase.FAILED], **changes: Any) -> None:
        """Compose the lane's last report. Other threads see this report from the end of the attempt on."""
        self._last = self.current.changed(phase=phase, **changes)
        if phase is LanePhase.FAILED:
            batches.failed(self._lane, self._last)

    def shown(self, query: LaneQuery | None, state: LifeState) -> LaneReport:
        """The report as other threads should see it. Once the attempt has ended, the result is the last report.
        Until then, the result is the current report with the progress of the running batch. During a drain, the report
        also names the message on which a function has been working longest.
        """
        if state.ended and self._last is not None:
            report, query = self._last, None
        else:
            report = self._live.applied(self.current, query)
        if state.drain is None:
            return report
        if monotonic() > self._stuck_at + _STUCK_EVERY:
            self._stuck_at, self._stuck = monotonic(), self._longest_work(query)
        return report.changed(**self._stuck)

    def batch_ended(self, worked: Mapping[tuple[int, int], float], **changes: Any) -> None:
        """Report the results of a batch (``changes``), how busy the lane is, and which bucket is the busiest.

        ``worked`` contains, for each bucket, the seconds that functions spent on it.
        """
        before = self.current.progress.rows
        self.update(**{**changes, **self._live.ran(self.current.changed(**changes), worked)})
        batches.committed(self._lane, self.current, self.current.progress.rows - before)

    def no_batch_ended(self) -> None:
        self.update(**self._live.idled(self.current))

    def _longest_work(self, query: LaneQuery | None) -> dict[str, Any]:
        """The fields of a report that name the message on which a function has been working longest. The result is {}
        if no function has been working on a message for at least a second."""
        work = live_report.oldest(query) if query is not None else None
        if work is None or query is None:
            return {}
        ssp = query.sources.ssp_of(work.source, work.partition, work.bucket)
        where = f"offset {work.offset} of {ssp}" if ssp is not None else f"a row of state partition {work.partition}"
        bucket = f"bucket {work.bucket} of {self._lane.factor}"
        text = f"{work.label} has worked on {where} ({bucket}) for {work.seconds:.0f} s"
        return {"stuck": text, "overdue": work.seconds > query.plan.message_patience}
