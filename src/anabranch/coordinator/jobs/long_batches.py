"""Decides when an event reports that a batch is taking a long time (after 30 seconds, 60 seconds, 120 seconds and so
on), and what the event says.
"""

from __future__ import annotations

from anabranch.protocol.lane_report import BatchProgress, LaneReport

__all__ = ["LongBatches", "told"]

_FIRST = 30.0
_FACTOR = 2


class LongBatches:
    """Remembers which events about long batches have been returned, for the lanes of one job. Not thread-safe."""

    def __init__(self) -> None:
        self._next: dict[str, tuple[int, float]] = {}

    def is_due(self, report: LaneReport) -> bool:
        """Whether an event about a lane's batch is due."""
        progress = report.progress.batch_progress
        if progress is None:
            return False
        number, seconds = self._next.get(report.lane, (progress.number, _FIRST))
        return progress.seconds >= (seconds if number == progress.number else _FIRST)

    def take(self, report: LaneReport) -> str:
        """Return the text of the event that is due for a lane's batch; empty if none is due. Each event is returned
        only once."""
        progress = report.progress.batch_progress
        if progress is None or not self.is_due(report):
            return ""
        due = _FIRST
        while due <= progress.seconds:
            due *= _FACTOR
        self._next[report.lane] = progress.number, due
        return told(progress)


def told(progress: BatchProgress) -> str:
    """The progress of a batch, in words."""
    left = "" if progress.left is None else f", {progress.left:.0f} s left"
    most = ", ".join(
        f"{phase} {seconds:.0f} s" for phase, seconds in sorted(progress.spent.items(), key=lambda each: -each[1])[:3]
    )
    return (
        f"{progress.done:,} of {progress.planned:,} records in {progress.seconds:.0f} s{left}"
        f"; it waits for {progress.phase}" + (f" ({most})" if most else "")
    )
