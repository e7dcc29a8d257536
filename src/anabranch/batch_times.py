"""Estimates, from a lane's last report, how long the lane's running batch and its next batch take."""

from __future__ import annotations

from anabranch.protocol.lane_report import LaneReport

__all__ = ["REPORTED_EVERY", "functions_part", "next_batch", "present_batch", "unreported", "waiting"]

REPORTED_EVERY = 1.0
"""While a lane's batch is running, the lane's last report is assumed to be at most this many seconds old."""
_AFTER_OUTPUT = 0.2
"""The number of seconds assumed between the output of a batch and the start of the next one, if records are waiting."""
_TOLD_BY_ITSELF = 1.0
"""How many seconds a batch must have run before its own metrics are used to compute how much of its time is spent in
functions. Until then, the metrics from the last half minute are used instead.
"""


def present_batch(report: LaneReport) -> tuple[float, float]:
    """The age of the running batch when the lane reported, and the batch's expected total duration, both in seconds. If
    no batch was running, the result is 0.0 and the expected duration of the next batch.
    """
    at = report.progress.batch_progress
    if at is None:
        return 0.0, next_batch(report)
    if at.left is not None:
        return at.seconds, at.seconds + at.left
    return at.seconds, report.load.batch_seconds(at.planned)


def next_batch(report: LaneReport) -> float:
    """The expected duration, in seconds, of the next batch to be planned. If a batch is running, the next batch is the
    batch after the running one. The result is 0.0 if no records are left to read.
    """
    records = waiting(report)
    if not records:
        return 0.0
    return report.load.batch_seconds(min(records, report.load.limit or records))


def waiting(report: LaneReport) -> int:
    """How many offsets a lane still has to read, not counting those planned for its running batch."""
    at, progress = report.progress.batch_progress, report.progress
    behind = sum(max(0, end - progress.positions.get(ssp, end)) for ssp, end in progress.ends.items())
    return max(0, behind - (0 if at is None else at.planned))


def unreported(report: LaneReport, now: float) -> float:
    """How many seconds a lane's batch has been running since the lane's report. ``now`` is in seconds since 1970.

    If the lane reported no running batch, a batch is assumed to have begun soon after the lane's last output. If there
    has been no output yet, the result is 0.0. The result is limited to the range from 0 to ``REPORTED_EVERY``, because
    the machines' clocks can differ.
    """
    at, last = report.progress.batch_progress, report.progress.last_output
    if not last:
        return 0.0
    return min(max(0.0, now - last - _AFTER_OUTPUT - (0.0 if at is None else at.seconds)), REPORTED_EVERY)


def functions_part(report: LaneReport) -> float:
    """The share of a lane's batch time that the job's functions take, from 0.0 to 1.0. The share is computed from the
    running batch or, if no batch is running, from the last batch. If this batch hasn't run long enough for a
    reliable share, the share of the last half minute is used.
    """
    spent = report.load.spent if report.progress.batch_progress is None else report.progress.batch_progress.spent
    total = sum(spent.values())
    if total > _TOLD_BY_ITSELF:
        return min(1.0, spent.get("functions", 0.0) / total)
    return min(1.0, report.load.working / report.load.busy) if report.load.busy > 0 else 0.0
