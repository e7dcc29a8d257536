"""Keeps a lane's newest report, and a few metrics of its reports in the last half minute."""

from __future__ import annotations

from dataclasses import dataclass, replace

from anabranch.protocol.lane_report import LaneReport

__all__ = ["ReportHistory", "listened"]

_KEPT, _RECENT, _FEWEST = 31.0, 10.0, 3.0


@dataclass(frozen=True, slots=True)
class _Sample:
    """Two numbers at one moment: ``done`` is how many records the lane's attempt had processed, and ``ends`` is the sum
    of the inputs' end offsets. ``done`` falls if a batch is broken off, or if another attempt begins. ``done`` of all
    earlier samples is then lowered by the same number. So the difference between two samples is always the number of
    records processed between them.
    """

    at: float
    done: int
    ends: int


@dataclass(frozen=True, slots=True)
class ReportHistory:
    """A lane's newest report, and metrics of its recent reports.

    Args:
        at: when the report last changed.
        moved: when the number of processed records last changed.
        samples: the metrics from the last half minute, oldest first.
    """

    report: LaneReport
    at: float
    moved: float
    samples: tuple[_Sample, ...] = ()

    def throughput(self, span: float) -> float:
        """The records per second that were processed in the last ``span`` seconds; 0.0 if unknown."""
        first, last = self._since(span)
        return (last.done - first.done) / (last.at - first.at) if last.at - first.at >= _FEWEST else 0.0

    @property
    def arriving(self) -> float:
        """The records per second that arrived in the last ``_RECENT`` seconds; 0.0 if unknown."""
        first, last = self._since(_RECENT)
        return max(0.0, (last.ends - first.ends) / (last.at - first.at)) if last.at - first.at >= _FEWEST else 0.0

    @property
    def growth(self) -> float:
        """The recent arrival rate as a multiple of the average of the last half minute; at least 1.0."""
        first, last = self._since(_KEPT)
        before = (last.ends - first.ends) / (last.at - first.at) if last.at - first.at >= _RECENT else 0.0
        return max(1.0, self.arriving / before) if before > 0 else 1.0

    def _since(self, span: float) -> tuple[_Sample, _Sample]:
        last = self.samples[-1] if self.samples else _Sample(self.at, 0, 0)
        return next((each for each in self.samples if each.at >= last.at - span - 0.5), last), last


def listened(before: ReportHistory | None, report: LaneReport, now: float) -> ReportHistory:
    """The history of a lane after its ``report`` at the time ``now``."""
    done = report.progress.rows + (0 if report.progress.batch_progress is None else report.progress.batch_progress.done)
    if before is not None and before.report == report:
        return before
    samples = () if before is None else before.samples
    same = bool(samples) and samples[-1].done == done
    moved = before.moved if before is not None and same else now
    if report.progress.ends:  # until the end offsets are known, the arrival rate isn't known, either
        first = next((place for place, each in enumerate(samples) if each.at >= now - _KEPT), len(samples))
        fallen = max(0, samples[-1].done - done) if samples else 0
        kept = samples[first:] if not fallen else (replace(each, done=each.done - fallen) for each in samples[first:])
        samples = (*kept, _Sample(now, done, sum(report.progress.ends.values())))
    return ReportHistory(report, now, moved, samples)
