"""Estimates how long a lane's batches take, from the lane's last report: the running batch, and the next one."""

from __future__ import annotations

from anabranch.protocol.lane_report import LaneReport

__all__ = ["REPORTED_EVERY", "functions_part", "next_batch", "present_batch", "unreported", "waiting"]

REPORTED_EVERY = 1.0
"""The assumed maximum age, in seconds, of the report of a lane with a running batch."""
_AFTER_OUTPUT = 0.2
"""The assumed seconds from the output of a batch to the beginning of the next one, while records wait."""
_TOLD_BY_ITSELF = 1.0
"""The seconds after which a batch's own figures show how much of its time is spent in functions. Until then, the
figures of the last half minute count.
"""


def present_batch(report: LaneReport) -> tuple[float, float]:
    """The age of the running batch at the time of the report, and the batch's expected total duration, in seconds. If
    no batch was running, 0.0 and the expected duration of the next batch.
    """
    at = report.progress.batch_progress
    if at is None:
        return 0.0, next_batch(report)
    if at.left is not None:
        return at.seconds, at.seconds + at.left
    return at.seconds, report.load.batch_seconds(at.planned)


def next_batch(report: LaneReport) -> float:
    """The expected seconds of the next batch, after the running one if there is one; 0.0 if no records are left for
    it.
    """
    records = waiting(report)
    if not records:
        return 0.0
    return report.load.batch_seconds(min(records, report.load.limit or records))


def waiting(report: LaneReport) -> int:
    """How many offsets a lane has yet to read, not counting those that are planned in its running batch."""
    at, progress = report.progress.batch_progress, report.progress
    behind = sum(max(0, end - progress.positions.get(ssp, end)) for ssp, end in progress.ends.items())
    return max(0, behind - (0 if at is None else at.planned))


def unreported(report: LaneReport, now: float) -> float:
    """For how many seconds, at ``now`` (in seconds since 1970), a lane's batch has been running since the lane reported
    it. Clocks of machines can differ, so the result is between 0 and ``REPORTED_EVERY``. If the lane reported no batch,
    this function assumes that a batch has begun since then.
    """
    at, last = report.progress.batch_progress, report.progress.last_output
    if not last:
        return 0.0
    return min(max(0.0, now - last - _AFTER_OUTPUT - (0.0 if at is None else at.seconds)), REPORTED_EVERY)


def functions_part(report: LaneReport) -> float:
    """The share of a lane's batch time that the job's functions take, from 0.0 to 1.0. It is taken from the running
    batch or, if none is running, from the last one; if that batch has taken too little time to tell, from the last half
    minute.
    """
    spent = report.load.spent if report.progress.batch_progress is None else report.progress.batch_progress.spent
    total = sum(spent.values())
    if total > _TOLD_BY_ITSELF:
        return min(1.0, spent.get("functions", 0.0) / total)
    return min(1.0, report.load.working / report.load.busy) if report.load.busy > 0 else 0.0
